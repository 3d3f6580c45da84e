package vault_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/secret/secrettest"
	"github.com/gpuaas/gpuaas/platform/secret/vault"
)

// transit is a double of Vault's transit engine with one AES key: versions, associated data, a lowest version.
type transit struct {
	mu     sync.Mutex
	keys   []*envelope.Ring // by version - 1
	lowest int
	kind   string
	status atomic.Int32 // of every response, if not 0
}

func newRing() *envelope.Ring {
	ring, err := envelope.NewRing(map[string][]byte{"x": envelope.NewKey()}, "x")
	if err != nil {
		panic(err) // 32 bytes
	}
	return ring
}

func (d *transit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var body struct {
		Plaintext, Ciphertext string
		Data                  string `json:"associated_data"`
		Version               int    `json:"key_version"`
		Lowest                int    `json:"min_decryption_version"`
	}
	_ = json.NewDecoder(r.Body).Decode(&body)
	answer := func(status int, data map[string]any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
	}
	if status := int(d.status.Load()); status != 0 {
		answer(status, nil)
		return
	}
	at := envelope.Place{Row: body.Data}
	switch path := strings.TrimPrefix(r.URL.Path, "/v1/"); path {
	case "auth/token/lookup-self":
		answer(http.StatusOK, map[string]any{"ttl": 3600, "renewable": false})
	case "transit/keys/gpuaas-kek":
		answer(http.StatusOK, map[string]any{"type": d.kind, "latest_version": len(d.keys), "min_decryption_version": d.lowest})
	case "transit/keys/gpuaas-kek/rotate":
		d.keys = append(d.keys, newRing())
		answer(http.StatusOK, nil)
	case "transit/keys/gpuaas-kek/config":
		d.lowest = body.Lowest
		answer(http.StatusOK, nil)
	case "transit/encrypt/gpuaas-kek":
		text, _ := base64.StdEncoding.DecodeString(body.Plaintext)
		sealed := d.keys[body.Version-1].Seal(text, at)
		answer(http.StatusOK, map[string]any{"ciphertext": fmt.Sprintf("vault:v%d:%s", body.Version, base64.StdEncoding.EncodeToString(sealed))})
	case "transit/decrypt/gpuaas-kek":
		var version int
		parts := strings.SplitN(body.Ciphertext, ":", 3)
		if len(parts) == 3 {
			_, _ = fmt.Sscanf(parts[1], "v%d", &version)
		}
		if version < d.lowest || version < 1 || version > len(d.keys) {
			answer(http.StatusBadRequest, nil)
			return
		}
		sealed, _ := base64.StdEncoding.DecodeString(parts[2])
		text, err := d.keys[version-1].Open(sealed, at)
		if err != nil {
			answer(http.StatusBadRequest, nil)
			return
		}
		answer(http.StatusOK, map[string]any{"plaintext": base64.StdEncoding.EncodeToString(text)})
	default:
		answer(http.StatusNotFound, nil)
	}
}

func openKEK(t *testing.T, d *transit) (*vault.KEK, error) {
	t.Helper()
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	c, err := vault.New(t.Context(), vault.Config{URL: server.URL, Token: "t", Transit: "transit", KEK: "gpuaas-kek"}, clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	return vault.OpenKEK(t.Context(), c)
}

func TestTransitIsAWrapper(t *testing.T) {
	t.Parallel()
	k, err := openKEK(t, &transit{keys: []*envelope.Ring{newRing()}, lowest: 1, kind: "aes256-gcm96"})
	if err != nil {
		t.Fatal(err)
	}
	secrettest.Wrapper(t, k)
}

// While Vault is away the error reports this: the envelope is not damaged, and no failed decryption is recorded.
func TestVaultAwayIsNoFailedDecryption(t *testing.T) {
	t.Parallel()
	d := &transit{keys: []*envelope.Ring{newRing()}, lowest: 1, kind: "aes256-gcm96"}
	k, err := openKEK(t, d)
	if err != nil {
		t.Fatal(err)
	}
	at := envelope.Place{Table: "t", Column: "c", Row: "r"}
	sealed, err := k.Seal(t.Context(), []byte("x"), at)
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusForbidden, http.StatusInternalServerError} {
		d.status.Store(int32(status))
		if _, err := k.Open(t.Context(), sealed, at); errs.CodeOf(err) != errs.Unavailable {
			t.Errorf("%d: %v", status, err)
		}
		if _, err := k.Seal(t.Context(), []byte("x"), at); errs.CodeOf(err) != errs.Unavailable {
			t.Errorf("%d: %v", status, err)
		}
	}
	if _, err := openKEK(t, &transit{keys: []*envelope.Ring{newRing()}, kind: "ed25519"}); errs.CodeOf(err) != errs.Unavailable {
		t.Errorf("a key that signs: %v", err)
	}
}
