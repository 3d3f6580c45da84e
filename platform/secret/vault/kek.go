package vault

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// KEK is a key-encryption key of Vault's transit engine. It never leaves Vault: stored keys are sealed and
// opened there, once each.
type KEK struct {
	*Client

	mu     sync.RWMutex
	latest int
	read   time.Time
}

// OpenKEK reads the versions of the key.
func OpenKEK(ctx context.Context, c *Client) (*KEK, error) {
	k := &KEK{Client: c}
	return k, k.Refresh(ctx)
}

const kekPrefix = "vault-"

func (k *KEK) idOf(version int) string {
	return fmt.Sprintf("%s%s-%04d", kekPrefix, k.cfg.KEK, version)
}

// Active names the newest version.
func (k *KEK) Active() string {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.idOf(k.latest)
}

// Seal encrypts a stored key with the newest version.
func (k *KEK) Seal(ctx context.Context, key []byte, at envelope.Place) ([]byte, error) {
	k.mu.RLock()
	version := k.latest
	k.mu.RUnlock()
	id := k.idOf(version)
	got, err := k.write(ctx, "seal a key", k.cfg.Transit+"/encrypt/"+k.cfg.KEK, map[string]any{
		"plaintext": base64.StdEncoding.EncodeToString(key), "associated_data": base64.StdEncoding.EncodeToString(envelope.Bind(id, at)), "key_version": version,
	})
	if err != nil {
		return nil, err
	}
	text := textOf(got, "ciphertext")
	if !strings.HasPrefix(text, fmt.Sprintf("vault:v%d:", version)) {
		return nil, errs.New(errs.Unavailable, "Vault has not sealed with version %d of %s", version, k.cfg.KEK)
	}
	return append(envelope.Header(id), text...), nil
}

// Open decrypts a stored key.
func (k *KEK) Open(ctx context.Context, sealed []byte, at envelope.Place) ([]byte, error) {
	id, text, err := envelope.Split(sealed)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(id, kekPrefix+k.cfg.KEK+"-") {
		return nil, envelope.Unknown(id)
	}
	got, err := k.write(ctx, "open a key", k.cfg.Transit+"/decrypt/"+k.cfg.KEK, map[string]any{
		"ciphertext": string(text), "associated_data": base64.StdEncoding.EncodeToString(envelope.Bind(id, at)),
	})
	if said, ok := errors.AsType[*api.ResponseError](err); ok && said.StatusCode == http.StatusBadRequest {
		return nil, envelope.Changed(err) // the ciphertext, its version or the place
	}
	if err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(textOf(got, "plaintext"))
	if err != nil || len(key) == 0 {
		return nil, errs.New(errs.Unavailable, "Vault returned no key")
	}
	return key, nil
}

func textOf(s *api.Secret, name string) string {
	if s == nil {
		return ""
	}
	text, _ := s.Data[name].(string)
	return text
}

// Refresh renews the token and reads the newest version.
func (k *KEK) Refresh(ctx context.Context) error {
	if err := k.alive(ctx); err != nil {
		return err
	}
	now := k.clock.Now()
	k.mu.RLock()
	fresh := k.latest > 0 && now.Sub(k.read) < checkEvery
	k.mu.RUnlock()
	if fresh {
		return nil
	}
	return k.readVersions(ctx, now)
}

func (k *KEK) readVersions(ctx context.Context, now time.Time) error {
	got, err := k.Client.read(ctx, "show its key-encryption key", k.cfg.Transit+"/keys/"+k.cfg.KEK)
	if err != nil {
		return err
	}
	if kind := textOf(got, "type"); kind != "aes256-gcm96" && kind != "chacha20-poly1305" {
		return errs.New(errs.Unavailable, "Vault's key %s is of type %q; it must be aes256-gcm96", k.cfg.KEK, kind)
	}
	latest := number(got.Data["latest_version"])
	versions, _ := got.Data["keys"].(map[string]any)
	for text := range versions { // a token may read the versions and not the summary
		if n, err := strconv.Atoi(text); err == nil {
			latest = max(latest, n)
		}
	}
	if latest == 0 {
		return errs.New(errs.Unavailable, "Vault's key %s has no version", k.cfg.KEK)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.latest, k.read = latest, now
	return nil
}

// Begin makes the next version.
func (k *KEK) Begin(ctx context.Context) error {
	if _, err := k.write(ctx, "rotate its key-encryption key", k.cfg.Transit+"/keys/"+k.cfg.KEK+"/rotate", nil); err != nil {
		return err
	}
	return k.readVersions(ctx, k.clock.Now())
}

// Finish ends all versions but the newest.
func (k *KEK) Finish(ctx context.Context) error {
	k.mu.RLock()
	newest := k.latest
	k.mu.RUnlock()
	data := map[string]any{"min_decryption_version": newest, "min_encryption_version": newest}
	if _, err := k.write(ctx, "end older key-encryption keys", k.cfg.Transit+"/keys/"+k.cfg.KEK+"/config", data); err != nil {
		return err
	}
	return k.readVersions(ctx, k.clock.Now())
}
