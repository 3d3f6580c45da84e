package envelope

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/tink-crypto/tink-go/v2/aead/subtle"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// keySize is that of AES-256-GCM. Its nonces are random, so a key seals at most 2³² secrets.
const keySize = 32

// NewKey draws a key.
func NewKey() []byte {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails: it ends the process instead
	return key
}

// Ring contains keys by id. One of them seals, and all of them open.
type Ring struct {
	mu     sync.RWMutex
	keys   map[string]tink.AEAD
	active string
	raw    []byte // the key that seals
}

// NewRing returns a ring with the keys, of which active seals.
func NewRing(keys map[string][]byte, active string) (*Ring, error) {
	r := &Ring{}
	return r, r.Replace(keys, active)
}

// NewRandomRing returns a ring with a new key, which ends with the process.
func NewRandomRing() *Ring {
	r := &Ring{}
	if err := r.Replace(map[string][]byte{"random": NewKey()}, "random"); err != nil {
		panic(fmt.Sprintf("making a key: %v", err)) // the size is right
	}
	return r
}

// Replace replaces the keys. Without an error all calls that follow use the new ones.
func (r *Ring) Replace(keys map[string][]byte, active string) error {
	made := make(map[string]tink.AEAD, len(keys))
	for id, key := range keys {
		if err := checkID(id); err != nil {
			return err
		}
		if len(key) != keySize {
			return fmt.Errorf("key %q has %d bytes, not %d", id, len(key), keySize)
		}
		one, err := subtle.NewAESGCM(key)
		if err != nil {
			return fmt.Errorf("reading key %q: %w", id, err)
		}
		made[id] = one
	}
	if made[active] == nil {
		return fmt.Errorf("key %q, which seals, does not exist", active)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys, r.active, r.raw = made, active, keys[active]
	return nil
}

// Active is the id of the key that seals.
func (r *Ring) Active() string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.active
}

// IDs lists the keys.
func (r *Ring) IDs() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.keys))
}

// Seal encrypts a secret for a place.
func (r *Ring) Seal(secret []byte, at Place) []byte {
	r.mu.RLock()
	id, key := r.active, r.keys[r.active]
	r.mu.RUnlock()
	text, err := key.Encrypt(secret, Bind(id, at))
	if err != nil {
		panic(fmt.Sprintf("sealing %s: %v", at, err)) // longer than 64 GiB, as crypto/cipher does
	}
	return append(Header(id), text...)
}

// Derive returns a key for another use, of the key that seals. It changes with each rotation.
func (r *Ring) Derive(use string) []byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	key, err := hkdf.Key(sha256.New, r.raw, nil, use, sha256.Size)
	if err != nil {
		panic(fmt.Sprintf("deriving a key: %v", err)) // longer than 255 hashes
	}
	return key
}

// Open decrypts an envelope of a place. The error is coded, and ReasonOf returns its reason.
func (r *Ring) Open(sealed []byte, at Place) ([]byte, error) {
	id, text, err := Split(sealed)
	if err != nil {
		return nil, err
	}
	r.mu.RLock()
	key := r.keys[id]
	r.mu.RUnlock()
	if key == nil {
		return nil, Unknown(id)
	}
	secret, err := key.Decrypt(text, Bind(id, at))
	if err != nil {
		return nil, Changed(err)
	}
	return secret, nil
}

// Changed returns the error of an envelope whose content or place is another.
func Changed(cause error) error {
	return failure(ReasonContent, "was changed, or belongs to another place").Because(cause)
}

// Unknown returns the error of an envelope whose key this process does not have.
func Unknown(id string) error {
	return failure(ReasonKey, "was sealed with key %q, which this process does not have", id)
}
