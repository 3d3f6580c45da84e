package pki

import (
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
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gpuaas/gpuaas/internal/durable"
)

// Keyring contains the Ed25519 keys that sign for one purpose, at most two. If verifiers fetch the
// keys from us, the newest key signs. If verifiers must learn of a new key first, the oldest signs
// until it is retired.
type Keyring struct {
	dir    string
	oldest bool

	mu   sync.RWMutex
	keys map[string]ed25519.PrivateKey // by kid
}

const (
	// keyPrefix, a number that rises, and the kid make a key's file name.
	keyPrefix = "order-"
	keySuffix = ".pem"
)

// OpenKeyring reads the keys of dir, or makes the first. The newest signs.
func OpenKeyring(dir string) (*Keyring, error) { return openKeyring(dir, false) }

// OpenAnnounced is OpenKeyring for keys that nodes must receive before anything is signed with
// them: the oldest signs.
func OpenAnnounced(dir string) (*Keyring, error) { return openKeyring(dir, true) }

func openKeyring(dir string, oldest bool) (*Keyring, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening keyring: %w", err)
	}
	r := &Keyring{dir: dir, oldest: oldest}
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
	return r.active()
}

func (r *Keyring) active() string {
	if r.oldest {
		return slices.Min(slices.Collect(maps.Keys(r.keys)))
	}
	return slices.Max(slices.Collect(maps.Keys(r.keys)))
}

// Kids lists the ids of the trusted keys, oldest first.
func (r *Keyring) Kids() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.keys))
}

// Refresh reads the directory again: another process may have made a key.
func (r *Keyring) Refresh() error { return r.read() }

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
func (r *Keyring) Rotate() (kid string, err error) {
	var last int
	kids := r.Kids()
	if _, err := fmt.Sscanf(kids[len(kids)-1], "%d", &last); err != nil {
		return "", fmt.Errorf("reading number of key %q: %w", kids[len(kids)-1], err)
	}
	if kid, err = r.add(fmt.Sprintf("%04d", last+1)); err != nil {
		return "", err
	}
	return kid, r.read()
}

// Retire deletes an older key: its signatures are no longer trusted.
func (r *Keyring) Retire(kid string) error {
	if kids := r.Kids(); len(kids) < 2 || !r.oldest && kid == r.Active() {
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
	if len(keys) > 0 || len(r.keys) == 0 {
		r.keys = keys
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
