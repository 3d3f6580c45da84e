package pki

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"sync"
)

// Keyring contains the Ed25519 keys that sign for one purpose, at most two. If verifiers fetch the
// keys from us, the newest key signs. If verifiers must learn of a new key first, the oldest signs
// until it is retired.
type Keyring struct {
	store  Store
	oldest bool

	mu    sync.RWMutex
	keys  map[string]ed25519.PrivateKey // by kid
	fresh map[string]bool
}

// keyPrefix, a number that rises, and keySuffix make the file name of a key.
const keyPrefix = "order"

// OpenKeyring reads the keys of dir, or makes the first. The newest signs.
func OpenKeyring(dir string) (*Keyring, error) {
	return NewKeyring(context.Background(), Dir{dir, keyPrefix}, true) //nolint:forbidigo // files need no deadline
}

// OpenAnnounced is OpenKeyring for keys that nodes must receive before anything is signed with
// them: the oldest signs.
func OpenAnnounced(dir string) (*Keyring, error) {
	return NewAnnounced(context.Background(), Dir{dir, keyPrefix}, true) //nolint:forbidigo // files need no deadline
}

// NewKeyring reads the keys of a store. If it is empty, the first key is made if create is set. The newest
// key signs.
func NewKeyring(ctx context.Context, s Store, create bool) (*Keyring, error) {
	return newKeyring(ctx, &Keyring{store: s}, create)
}

// NewAnnounced reads the keys of a store as NewKeyring does. The oldest key signs.
func NewAnnounced(ctx context.Context, s Store, create bool) (*Keyring, error) {
	return newKeyring(ctx, &Keyring{store: s, oldest: true}, create)
}

func newKeyring(ctx context.Context, r *Keyring, create bool) (*Keyring, error) {
	if err := r.Refresh(ctx); err != nil {
		return nil, err
	}
	switch {
	case len(r.keys) > 0:
		return r, nil
	case !create:
		return nil, errors.New("there is no key that signs")
	}
	// The first key has one number, so that two processes that start together agree on who made it.
	if err := r.add(ctx, 1); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return r, r.Refresh(ctx)
}

// Active is the key that signs now.
func (r *Keyring) Active() string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.active()
}

func (r *Keyring) active() string {
	kids := slices.Sorted(maps.Keys(r.keys))
	for i := len(kids) - 1; i > 0 && !r.oldest; i-- {
		if !r.fresh[kids[i]] {
			return kids[i]
		}
	}
	return kids[0]
}

// Kids lists the ids of the trusted keys, oldest first.
func (r *Keyring) Kids() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.keys))
}

// Sign signs body with the key kid.
func (r *Keyring) Sign(kid string, body []byte) ([]byte, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	key, ok := r.keys[kid]
	if !ok {
		return nil, fmt.Errorf("no signing key %q", kid)
	}
	return ed25519.Sign(key, body), nil
}

// Public returns the trusted public keys by id.
func (r *Keyring) Public() map[string][]byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	public := make(map[string][]byte, len(r.keys))
	for kid, key := range r.keys {
		public[kid] = slices.Clone(key.Public().(ed25519.PublicKey)) //nolint:forcetypeassert // documented to be one
	}
	return public
}

// Rotate makes a new key.
func (r *Keyring) Rotate(ctx context.Context) (kid string, err error) {
	kids := r.Kids()
	last, err := strconv.Atoi(kids[len(kids)-1])
	if err != nil {
		return "", fmt.Errorf("reading number of key %q: %w", kids[len(kids)-1], err)
	}
	if err := r.add(ctx, last+1); err != nil {
		return "", err
	}
	return KidOf(last + 1), r.Refresh(ctx)
}

// Retire deletes an older key: its signatures are no longer trusted.
func (r *Keyring) Retire(ctx context.Context, kid string) error {
	if kids := r.Kids(); len(kids) < 2 || !r.oldest && kid == r.Active() {
		return fmt.Errorf("key %q signs; rotate first", kid)
	}
	number, err := strconv.Atoi(kid)
	if err != nil {
		return fmt.Errorf("reading number of key %q: %w", kid, err)
	}
	if err := r.store.Remove(ctx, number); err != nil {
		return err
	}
	return r.Refresh(ctx)
}

// KidOf returns the id of the key with a number.
func KidOf(number int) string { return fmt.Sprintf("%04d", number) }

func (r *Keyring) add(ctx context.Context, number int) error {
	key, err := NewSigningKey(number)
	if err != nil {
		return err
	}
	return r.store.Add(ctx, key)
}

// NewSigningKey draws an Ed25519 key.
func NewSigningKey(number int) (Stored, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Stored{}, fmt.Errorf("making signing key: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Stored{}, fmt.Errorf("encoding signing key: %w", err)
	}
	return Stored{Number: number, Public: public, Private: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})}, nil
}

// ParseSigningKey reads the private part of a signing key.
func ParseSigningKey(text []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("there is no key in PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("it is a %T, not an Ed25519 key", key)
	}
	return private, nil
}

// PublicOf returns the public part of a signing key.
func PublicOf(private ed25519.PrivateKey) []byte {
	return private.Public().(ed25519.PublicKey) //nolint:forcetypeassert // documented to be one
}

// Refresh reads the store again: another process may have made a key. If the store is empty, the keys in
// memory stay.
func (r *Keyring) Refresh(ctx context.Context) error {
	list, err := r.store.Read(ctx)
	if err != nil {
		return err
	}
	keys, fresh := make(map[string]ed25519.PrivateKey, len(list)), map[string]bool{}
	for _, one := range list {
		kid := KidOf(one.Number)
		if keys[kid], err = ParseSigningKey(one.Private); err != nil {
			return fmt.Errorf("reading signing key %s: %w", kid, err)
		}
		fresh[kid] = one.Fresh
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(keys) > 0 || len(r.keys) == 0 {
		r.keys, r.fresh = keys, fresh
	}
	return nil
}

// Fingerprint is the lower-case hex SHA-256 of a certificate's DER form, by
// which a person pins a root.
func Fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// Signer is the key kid for a library that wants one. It shows the public half
// only.
func (r *Keyring) Signer(kid string) crypto.Signer { return ringSigner{r, kid} }

type ringSigner struct {
	keyring *Keyring
	kid     string
}

func (s ringSigner) Public() crypto.PublicKey { return ed25519.PublicKey(s.keyring.Public()[s.kid]) }

func (s ringSigner) Sign(_ io.Reader, body []byte, _ crypto.SignerOpts) ([]byte, error) {
	return s.keyring.Sign(s.kid, body)
}
