// Package blob is the port to the object store, which contains the bytes of stored objects. A backend object has an id and
// no path: names, folders and rights are rows of product/storage. A backend object never changes after it was put.
package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"

	"github.com/google/uuid"
)

// Errors of every adapter. A failure of the reader of Put or PutPart, and the end of the context, are returned as errors
// that wrap them. Other errors mean that the object store is not available.
var (
	// ErrNotFound means that there is no such backend object or upload.
	ErrNotFound = errors.New("no such backend object")
	// ErrFull means that the object store has no space for the bytes.
	ErrFull = errors.New("the object store is full")
	// ErrUnsigned means that the object store has no signed URLs: the server transports the bytes itself.
	ErrUnsigned = errors.New("the object store signs no URLs")
	// ErrSize means that a reader had more or fewer bytes than announced.
	ErrSize = errors.New("the number of bytes differs from the announced one")
	// ErrPart means that a list of parts is not possible: a part is missing, was replaced, is too small or too large, or
	// the numbers do not ascend from 1 to MaxParts.
	ErrPart = errors.New("a part is missing, differs, or has no possible number or size")
)

// Info describes a backend object.
type Info struct {
	ID       uuid.UUID
	Size     int64
	Modified time.Time
}

// Upload identifies an upload in parts: the backend object that it becomes, and the name that the object store gave it.
type Upload struct {
	ID     uuid.UUID
	Handle string
}

// Part is a stored part of an upload. Parts are numbered from 1 to MaxParts.
type Part struct {
	Number int
	Size   int64
	Tag    string // of the object store; Complete compares it with the stored part
	SHA256 string // in Base64, where the object store has compared it
}

// Same reports whether two descriptions are of the same stored part.
func (p Part) Same(q Part) bool { return p.Number == q.Number && p.Size == q.Size && p.Tag == q.Tag }

// Limits of S3, which every object store accepts. The object store may reject a smaller part at Complete; the last part
// may have any size.
const (
	MaxParts = 10_000 // the largest number of a part
	MinPart  = 5 << 20
	MaxPart  = 5 << 30
)

// CheckParts returns ErrPart unless the numbers of the parts ascend from 1 to MaxParts.
func CheckParts(parts []Part) error {
	last := 0
	for _, p := range parts {
		if p.Number <= last || p.Number > MaxParts {
			return fmt.Errorf("part %d after %d: %w", p.Number, last, ErrPart)
		}
		last = p.Number
	}
	if last == 0 {
		return fmt.Errorf("no part: %w", ErrPart)
	}
	return nil
}

// Request describes a request that a client may send to the object store itself.
type Request struct {
	Method string // GET, or PUT for a part or a whole backend object
	ID     uuid.UUID
	Upload string // the handle of an upload, for a part
	Part   int
	Size   int64             // of a PUT, which the signature covers
	SHA256 []byte            // of a PUT, which the signature covers; a part needs it, and nil is not checked for an object
	Answer map[string]string // headers of the response to a GET, such as Content-Disposition
	Life   time.Duration
}

// Signed is a URL with a signature, and the headers that the client must send with it, in addition to a Content-Length that
// is the size.
type Signed struct {
	URL     string
	Headers http.Header
	Expires time.Time
}

// Space is the capacity of an object store in bytes.
type Space struct{ Used, Free int64 }

// Store is the port. All methods may be called at the same time, also for the same id.
//
//nolint:interfacebloat // one object store has all of them
type Store interface {
	// Put stores size bytes of r as a backend object, which is visible as a whole or not at all. A negative size means
	// that r ends the object; the returned number is the size.
	Put(ctx context.Context, id uuid.UUID, r io.Reader, size int64) (int64, error)
	// Get returns length bytes from offset; a negative length means up to the end. A range that passes the end of the
	// object is cut there, and one that begins there is empty.
	Get(ctx context.Context, id uuid.UUID, offset, length int64) (io.ReadCloser, error)
	// Stat describes a backend object.
	Stat(ctx context.Context, id uuid.UUID) (Info, error)
	// Delete removes a backend object. A missing one is no error.
	Delete(ctx context.Context, id uuid.UUID) error
	// List returns the backend objects with a greater id than after, in the sequence of their ids.
	List(ctx context.Context, after uuid.UUID) iter.Seq2[Info, error]
	// Sign returns ErrUnsigned where the server transports all bytes itself.
	Sign(ctx context.Context, r Request) (Signed, error)

	// Begin begins an upload in parts.
	Begin(ctx context.Context, id uuid.UUID) (Upload, error)
	// PutPart stores exactly size bytes of r as a part. It replaces an earlier part with the same number as a whole.
	PutPart(ctx context.Context, u Upload, number int, r io.Reader, size int64) (Part, error)
	// Parts lists the stored parts by number.
	Parts(ctx context.Context, u Upload) ([]Part, error)
	// Complete joins the parts, in the given sequence, to the backend object. A repetition after a lost response succeeds.
	// The upload stays if the parts are not those that are stored (ErrPart).
	Complete(ctx context.Context, u Upload, parts []Part) error
	// Abort removes an upload and its parts. A missing upload is no error.
	Abort(ctx context.Context, u Upload) error
	// Uploads returns the uploads that began before a time and were neither completed nor aborted, in any sequence. The
	// adapter files also removes temporary files that a killed process has left a day ago or earlier.
	Uploads(ctx context.Context, before time.Time) iter.Seq2[Upload, error]

	// Space returns the capacity, or false where the object store does not report it.
	Space(ctx context.Context) (Space, bool, error)
}
