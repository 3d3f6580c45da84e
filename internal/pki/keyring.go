package pki

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gpuaas/gpuaas/internal/durable"
)

// Keyring holds the Ed25519 keys that sign orders. Two may be known at a time:
// the newest signs, the older is still believed until what it signed has expired.
type Keyring struct {
	dir string

	mu   sync.RWMutex
	keys map[string]ed25519.PrivateKey // by kid
}

const (
	// keyPrefix, a number that rises, and the kid make a key's file name.
	keyPrefix = "order-"
	keySuffix = ".pem"
)

// OpenKeyring reads the keys of dir, or makes the first.
func OpenKeyring(dir string) (*Keyring, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening keyring: %w", err)
	}
	r := &Keyring{dir: dir}
	if err := r.read(); err != nil {
		return nil, err
	}
	if len(r.keys) > 0 {
		return r, nil
	}
	// The first key has one name, so that two processes that start together
	// agree on who made it.
	if _, err := r.add("0001"); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return r, r.read()
}

// Active is the key that signs now.
func (r *Keyring) Active() string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Max(slices.Collect(maps.Keys(r.keys)))
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

// Public is every key that is believed, by kid.
func (r *Keyring) Public() map[string][]byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	public := make(map[string][]byte, len(r.keys))
	for kid, key := range r.keys {
		public[kid] = slices.Clone(key.Public().(ed25519.PublicKey)) //nolint:forcetypeassert // documented to be one
	}
	return public
}

// Rotate makes a new key, which signs from now on.
func (r *Keyring) Rotate() (kid string, err error) {
	var last int
	if _, err := fmt.Sscanf(r.Active(), "%d", &last); err != nil {
		return "", fmt.Errorf("reading number of key %q: %w", r.Active(), err)
	}
	if kid, err = r.add(fmt.Sprintf("%04d", last+1)); err != nil {
		return "", err
	}
	return kid, r.read()
}

// Retire forgets an older key: nothing signed by it is believed any more.
func (r *Keyring) Retire(kid string) error {
	if kid == r.Active() {
		return fmt.Errorf("key %q signs; rotate first", kid)
	}
	if err := os.Remove(r.path(kid)); err != nil {
		return fmt.Errorf("retiring key: %w", err)
	}
	return r.read()
}

func (r *Keyring) path(kid string) string { return filepath.Join(r.dir, keyPrefix+kid+keySuffix) }

func (r *Keyring) add(kid string) (string, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", fmt.Errorf("making signing key: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", fmt.Errorf("encoding signing key: %w", err)
	}
	return kid, durable.Create(r.path(kid), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600)
}

func (r *Keyring) read() error {
	files, err := filepath.Glob(filepath.Join(r.dir, keyPrefix+"*"+keySuffix))
	if err != nil {
		return fmt.Errorf("listing signing keys: %w", err)
	}
	keys := make(map[string]ed25519.PrivateKey, len(files))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading signing key: %w", err)
		}
		block, _ := pem.Decode(text)
		if block == nil {
			return fmt.Errorf("%s holds no key", file)
		}
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		private, ok := key.(ed25519.PrivateKey)
		if !ok {
			return fmt.Errorf("%s holds a %T, not an Ed25519 key", file, key)
		}
		keys[strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), keyPrefix), keySuffix)] = private
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = keys
	return nil
}

// Fingerprint is the lower-case hex SHA-256 of a certificate's DER form, by
// which a person pins a root.
func Fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}
