package vault

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Signer is an Ed25519 key of Vault's transit engine. Each of its versions is a
// key of its own, from the lowest that may still be verified by; that one signs,
// because every node has heard of it.
type Signer struct {
	*Client

	mu   sync.RWMutex
	keys map[int]ed25519.PublicKey // by version
	read time.Time
}

// OpenSigner reads the key's versions.
func OpenSigner(ctx context.Context, c *Client) (*Signer, error) {
	s := &Signer{Client: c}
	return s, s.Refresh(ctx)
}

const kidPrefix = "vault-"

func kidOf(version int) string { return fmt.Sprintf("%s%04d", kidPrefix, version) }

// Active returns the oldest version that is accepted.
func (s *Signer) Active() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return kidOf(slices.Min(slices.Collect(maps.Keys(s.keys))))
}

// Public returns every version that is accepted.
func (s *Signer) Public() map[string][]byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	public := make(map[string][]byte, len(s.keys))
	for version, key := range s.keys {
		public[kidOf(version)] = slices.Clone(key)
	}
	return public
}

// Sign signs body. It runs inside the transaction that creates a task, so it succeeds or fails within
// seconds, and the transaction with it: no task exists without a signature. A signature that does not
// verify is never returned.
func (s *Signer) Sign(ctx context.Context, kid string, body []byte) ([]byte, error) {
	version, err := strconv.Atoi(strings.TrimPrefix(kid, kidPrefix))
	s.mu.RLock()
	key, ok := s.keys[version]
	s.mu.RUnlock()
	if err != nil || !ok {
		return nil, fmt.Errorf("no signing key %q", kid)
	}
	got, err := s.write(ctx, "sign", s.cfg.Transit+"/sign/"+s.cfg.Key, map[string]any{
		"input": base64.StdEncoding.EncodeToString(body), "key_version": version,
	})
	if err != nil {
		return nil, err
	}
	var text string
	if got != nil {
		text, _ = got.Data["signature"].(string)
	}
	parts := strings.Split(text, ":") // vault:v1:base64
	signature, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil || !ed25519.Verify(key, body, signature) {
		return nil, errs.New(errs.Unavailable, "the signature of Vault is not valid").Try("check the key %s", s.cfg.Key)
	}
	return signature, nil
}

// Refresh renews the token and reads the list of key versions.
func (s *Signer) Refresh(ctx context.Context) error {
	if err := s.alive(ctx); err != nil {
		return err
	}
	now := s.clock.Now()
	s.mu.RLock()
	fresh := s.keys != nil && now.Sub(s.read) < checkEvery
	s.mu.RUnlock()
	if fresh {
		return nil
	}
	return s.readKey(ctx, now)
}

// readKey reads all versions of the signing key. Versions below the minimum decryption version are
// left out: an operator has ended them, and nodes must not accept their signatures any more.
func (s *Signer) readKey(ctx context.Context, now time.Time) error {
	got, err := s.Client.read(ctx, "show its signing key", s.cfg.Transit+"/keys/"+s.cfg.Key)
	if err != nil {
		return err
	}
	if kind, _ := got.Data["type"].(string); kind != "ed25519" {
		return errs.New(errs.Unavailable, "Vault's key %s is of type %q, not ed25519", s.cfg.Key, kind)
	}
	lowest := number(got.Data["min_decryption_version"])
	versions, _ := got.Data["keys"].(map[string]any)
	keys := map[int]ed25519.PublicKey{}
	for text, one := range versions {
		version, err := strconv.Atoi(text)
		if err != nil || version < lowest {
			continue
		}
		about, _ := one.(map[string]any)
		encoded, _ := about["public_key"].(string)
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(key) != ed25519.PublicKeySize {
			return errs.New(errs.Unavailable, "version %d of Vault's key %s is no Ed25519 key", version, s.cfg.Key)
		}
		keys[version] = key
	}
	if len(keys) == 0 {
		return errs.New(errs.Unavailable, "Vault's key %s has no version", s.cfg.Key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys, s.read = keys, now
	return nil
}

// Begin makes the next version, which nodes hear of and nothing is signed by yet.
func (s *Signer) Begin(ctx context.Context) error {
	if _, err := s.write(ctx, "rotate its signing key", s.cfg.Transit+"/keys/"+s.cfg.Key+"/rotate", nil); err != nil {
		return err
	}
	return s.readKey(ctx, s.clock.Now())
}

// Finish ends all versions but the newest.
func (s *Signer) Finish(ctx context.Context) error {
	s.mu.RLock()
	newest := slices.Max(slices.Collect(maps.Keys(s.keys)))
	s.mu.RUnlock()
	data := map[string]any{"min_decryption_version": newest, "min_encryption_version": newest}
	if _, err := s.write(ctx, "end older signing keys", s.cfg.Transit+"/keys/"+s.cfg.Key+"/config", data); err != nil {
		return err
	}
	return s.readKey(ctx, s.clock.Now())
}

func number(v any) int {
	n, ok := v.(json.Number)
	if !ok {
		return 0
	}
	i, err := n.Int64()
	if err != nil {
		return 0
	}
	return int(i)
}
