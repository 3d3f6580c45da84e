package pki

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/gpuaas/gpuaas/internal/durable"
)

// Stored is a key in a Store.
type Stored struct {
	Number  int
	Public  []byte // what everybody may read: an Ed25519 key, or certificates in PEM
	Private []byte // PEM
	// Fresh is set while other processes may not have read the key yet. It is accepted and does not sign
	// where verifiers get the keys from us.
	Fresh bool
}

// Agrees reports whether the public part is that of the private key. A symmetric key has no public part.
func (s Stored) Agrees() bool {
	block, rest := pem.Decode(s.Private)
	if block == nil {
		return len(s.Public) == 0
	}
	if len(rest) > 0 { // an authority: parseGeneration compares its key with its certificate
		return bytes.Equal(rest, s.Public)
	}
	key, err := ParseSigningKey(s.Private)
	return err == nil && bytes.Equal(PublicOf(key), s.Public)
}

// Store contains the private keys of one purpose by number. Several processes may use one store.
type Store interface {
	// Read returns the keys that are in effect, lowest number first.
	Read(ctx context.Context) ([]Stored, error)
	// Add stores a key, or returns fs.ErrExist if the number is in use.
	Add(ctx context.Context, key Stored) error
	// Remove ends a key.
	Remove(ctx context.Context, number int) error
}

// Dir is a Store of files in one directory, mode 0600. It stores no public parts.
type Dir struct{ Path, Prefix string }

const keySuffix = ".pem"

func (d Dir) file(number int) string {
	return filepath.Join(d.Path, fmt.Sprintf("%s-%04d%s", d.Prefix, number, keySuffix))
}

// Read returns the keys of the files.
func (d Dir) Read(context.Context) (keys []Stored, err error) {
	files, err := filepath.Glob(filepath.Join(d.Path, d.Prefix+"-*"+keySuffix))
	if err != nil {
		return nil, fmt.Errorf("listing keys: %w", err)
	}
	for _, f := range files {
		key := Stored{}
		if _, err := fmt.Sscanf(filepath.Base(f), d.Prefix+"-%04d"+keySuffix, &key.Number); err != nil {
			return nil, fmt.Errorf("%s is not named as a key is: %w", f, err)
		}
		if key.Private, err = os.ReadFile(f); err != nil {
			return nil, fmt.Errorf("reading key: %w", err)
		}
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b Stored) int { return a.Number - b.Number })
	return keys, nil
}

// Add creates the file of a key.
func (d Dir) Add(_ context.Context, key Stored) error {
	if err := os.MkdirAll(d.Path, 0o700); err != nil {
		return fmt.Errorf("storing key: %w", err)
	}
	return durable.Create(d.file(key.Number), key.Private, 0o600)
}

// Remove removes the file of a key.
func (d Dir) Remove(_ context.Context, number int) error {
	if err := os.Remove(d.file(number)); err != nil {
		return fmt.Errorf("ending key %d: %w", number, err)
	}
	return nil
}
