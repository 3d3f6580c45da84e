// Package keyfile has the key-encryption key in a file with mode 0600. Every server has a copy of it.
package keyfile

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/durable"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// File is a key-encryption key in a file. The newest of its keys seals, and all of them open.
type File struct {
	path  string
	clock clock.Clock

	mu   sync.Mutex
	text []byte
	keys []key // oldest first
	all  *envelope.Ring
}

// key is an entry of the file.
type key struct {
	ID        string    `json:"id"`
	Key       []byte    `json:"key"`
	CreatedAt time.Time `json:"created_at"`
}

// content is the file.
type content struct {
	Version int   `json:"version"`
	Keys    []key `json:"keys"`
}

const (
	fileVersion = 1
	mode        = 0o600
	others      = 0o077 // rights of other users
)

// Create makes a file with a first key. It rejects a path that exists.
func Create(path string, c clock.Clock) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("making the key-encryption key: %w", err)
	}
	text, err := encode([]key{newKey(c)})
	if err != nil {
		return err
	}
	if err := durable.Create(path, text, mode); errors.Is(err, fs.ErrExist) {
		return errs.New(errs.AlreadyExists, "%s exists", path).Try("do not replace it: without it no stored key can be opened")
	} else if err != nil {
		return fmt.Errorf("making the key-encryption key: %w", err)
	}
	return nil
}

// newKey draws a key with an id that no other file has, so that a wrong file is recognised.
func newKey(c clock.Clock) key {
	id := make([]byte, 8)
	_, _ = rand.Read(id) // never fails: it ends the process instead
	return key{"file-" + hex.EncodeToString(id), envelope.NewKey(), c.Now().UTC().Truncate(time.Second)}
}

func encode(keys []key) ([]byte, error) {
	text, err := json.MarshalIndent(content{fileVersion, keys}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the key-encryption key: %w", err)
	}
	return append(text, '\n'), nil
}

// Open reads the file.
func Open(path string, c clock.Clock) (*File, error) {
	f := &File{path: path, clock: c}
	return f, f.Refresh(context.Background()) //nolint:forbidigo // files need no deadline
}

// Refresh reads the file again: an operator may have replaced it.
func (f *File) Refresh(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read()
}

func (f *File) read() error {
	info, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errs.Invalid("GPUAAS_KEK_FILE", "the key-encryption key %s does not exist", f.path).
			Try("copy it from another server; for a new installation: gpuaas keys create-kek --file %s", f.path)
	case err != nil:
		return fmt.Errorf("reading the key-encryption key: %w", err)
	case info.Mode().Perm()&others != 0:
		return errs.Invalid("GPUAAS_KEK_FILE", "other users have rights on %s (mode %04o)", f.path, info.Mode().Perm()).Try("chmod 600 %s", f.path)
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return fmt.Errorf("reading the key-encryption key: %w", err)
	}
	if f.all != nil && bytes.Equal(text, f.text) {
		return nil
	}
	keys, err := parse(text)
	if err == nil {
		err = f.use(keys)
	}
	if err != nil {
		return errs.Invalid("GPUAAS_KEK_FILE", "%s is no key-encryption key", f.path).Because(err)
	}
	f.text = text
	return nil
}

func parse(text []byte) ([]key, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var c content
	if err := d.Decode(&c); err != nil {
		return nil, err
	}
	if c.Version != fileVersion || len(c.Keys) == 0 {
		return nil, fmt.Errorf("version %d with %d keys", c.Version, len(c.Keys))
	}
	return c.Keys, nil
}

// use replaces the keys in memory.
func (f *File) use(keys []key) error {
	byID := map[string][]byte{}
	for _, k := range keys {
		byID[k.ID] = k.Key
	}
	all, err := envelope.NewRing(byID, keys[len(keys)-1].ID)
	if err != nil {
		return err
	}
	f.keys, f.all = keys, all
	return nil
}

func (f *File) present() *envelope.Ring {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all
}

// Active names the newest key.
func (f *File) Active() string { return f.present().Active() }

// Seal seals a stored key with the newest key.
func (f *File) Seal(_ context.Context, key []byte, at envelope.Place) ([]byte, error) {
	return f.present().Seal(key, at), nil
}

// Open opens a stored key.
func (f *File) Open(_ context.Context, sealed []byte, at envelope.Place) ([]byte, error) {
	return f.present().Open(sealed, at)
}

// Begin adds a key to the file.
func (f *File) Begin(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.read(); err != nil {
		return err
	}
	if len(f.keys) > 1 {
		return errs.New(errs.Conflict, "a roll-over is under way").Try("end it first")
	}
	return f.write(append(slices.Clip(f.keys), newKey(f.clock)))
}

// Finish removes all keys but the newest from the file.
func (f *File) Finish(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.read(); err != nil {
		return err
	}
	return f.write(f.keys[len(f.keys)-1:])
}

func (f *File) write(keys []key) error {
	text, err := encode(keys)
	if err != nil {
		return err
	}
	if err := durable.Write(f.path, text, mode); err != nil {
		return err
	}
	f.text = text
	return f.use(keys)
}
