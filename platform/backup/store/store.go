// Package store is the port to the place of backups: names, and files that never change after they were put.
package store

import (
	"context"
	"errors"
	"io"
	"time"
)

// Errors of every adapter.
var (
	ErrNotFound = errors.New("no such file")
	ErrExists   = errors.New("the file exists")
	ErrFull     = errors.New("there is no space left")
)

// Entry is a file.
type Entry struct {
	Name     string
	Size     int64
	Modified time.Time
}

// Store is the port. Names have parts that slashes separate.
type Store interface {
	// Put stores what write writes. The file is visible as a whole, durably, or not at all. It fails with ErrExists if
	// the file exists, which is then durable, too.
	Put(ctx context.Context, name string, write func(io.Writer) error) error
	// Get opens a file.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// List returns the files below a folder, sorted by name. A folder that does not exist is empty.
	List(ctx context.Context, folder string) ([]Entry, error)
	// Delete removes a file. A missing one is no error.
	Delete(ctx context.Context, name string) error
	// Clean removes what interrupted writers left before a time.
	Clean(ctx context.Context, before time.Time) error
}

// Limited is a store in which only a file up to a size is exclusive: of two writers of a larger one, the second replaces
// the file of the first. A larger file needs a name that no other writer has.
type Limited interface{ MaxExclusive() int64 }
