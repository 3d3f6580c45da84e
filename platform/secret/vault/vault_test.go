package vault_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/secret/secrettest"
	"github.com/gpuaas/gpuaas/platform/secret/vault"
)

var nothing = x509.CertificateRequest{}

// double responds as a compromised or broken Vault. The test decides what it signs.
type double struct {
	ca   *pki.Local
	key  ed25519.PrivateKey
	sign atomic.Pointer[func(path string, body map[string]any) (status int, data map[string]any)]
}

func (d *double) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	answer := func(status int, data map[string]any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
	}
	switch {
	case path == "auth/token/lookup-self":
		answer(http.StatusOK, map[string]any{"ttl": 3600, "renewable": false})
	case path == "pki/issuers":
		answer(http.StatusOK, map[string]any{"keys": []string{"one"}})
	case strings.HasPrefix(path, "pki/issuer/"):
		answer(http.StatusOK, map[string]any{"certificate": string(d.ca.Bundle()), "ca_chain": []string{string(d.ca.Bundle())}})
	case path == "transit/keys/gpuaas-tasks":
		public := base64.StdEncoding.EncodeToString(d.key.Public().(ed25519.PublicKey))
		answer(http.StatusOK, map[string]any{"type": "ed25519", "min_decryption_version": 1, "keys": map[string]any{"1": map[string]any{"public_key": public}}})
	default:
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		answer((*d.sign.Load())(path, body))
	}
}

func startDouble(t *testing.T) (d *double, ca *vault.Authority, s *vault.Signer) {
	t.Helper()
	local, err := pki.Open(t.TempDir(), clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	d = &double{ca: local, key: key}
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	c, err := vault.New(t.Context(), vault.Config{
		URL: server.URL, Token: "t", PKI: "pki", NodeRole: "gpuaas-node", ServerRole: "gpuaas-server", Transit: "transit", Key: "gpuaas-tasks",
	}, clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	if ca, err = vault.OpenAuthority(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if s, err = vault.OpenSigner(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return d, ca, s
}

// Certificates from Vault are checked against our own rules, whatever the Vault roles allow.
func TestAWideRoleWidensNothing(t *testing.T) {
	t.Parallel()
	d, ca, _ := startDouble(t)
	name := pki.Name{Domain: secrettest.Domain, Kind: "node", ID: "0199"}
	key := secrettest.Key(t)
	csr := secrettest.Request(t, key, nothing)
	for rule, c := range map[string]struct {
		csr []byte
		uri *url.URL
		ttl time.Duration
		ok  bool
	}{
		"as requested":  {csr, name.URI(), time.Hour, true},
		"another node":  {csr, pki.Name{Domain: secrettest.Domain, Kind: "node", ID: "0200"}.URI(), time.Hour, false},
		"another key":   {secrettest.Request(t, secrettest.Key(t), nothing), name.URI(), time.Hour, false},
		"a longer life": {csr, name.URI(), 3 * time.Hour, false},
	} {
		answer := func(string, map[string]any) (int, map[string]any) {
			made, err := d.ca.Issue(t.Context(), c.csr, c.uri, c.ttl)
			if err != nil {
				t.Error(err)
			}
			leaf, rest := pem.Decode(made.Chain)
			return http.StatusOK, map[string]any{"certificate": string(pem.EncodeToMemory(leaf)), "ca_chain": []string{string(rest)}}
		}
		d.sign.Store(&answer)
		made, err := ca.Issue(t.Context(), csr, name.URI(), time.Hour)
		if (err == nil) != c.ok || c.ok && made.Serial == "" {
			t.Errorf("%s: %v", rule, err)
		}
	}
	server := func(string, map[string]any) (int, map[string]any) {
		made, err := d.ca.Server(t.Context(), []string{"elsewhere"}, time.Hour)
		if err != nil {
			t.Error(err)
		}
		return http.StatusOK, map[string]any{"certificate": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate[0]}))}
	}
	d.sign.Store(&server)
	if _, err := ca.Issue(t.Context(), csr, name.URI(), time.Hour); err == nil {
		t.Error("a server's certificate passed for a node's")
	}
	if _, err := ca.Server(t.Context(), []string{"localhost"}, time.Hour); err == nil {
		t.Error("a certificate for another name was accepted as the node API's")
	}
}

// An invalid or missing signature becomes an error code, and never part of a task.
func TestIllAnswersAreCodes(t *testing.T) {
	t.Parallel()
	d, ca, s := startDouble(t)
	csr := secrettest.Request(t, secrettest.Key(t), nothing)
	for rule, answer := range map[string]func(string, map[string]any) (int, map[string]any){
		"sealed":    func(string, map[string]any) (int, map[string]any) { return http.StatusServiceUnavailable, nil },
		"forbidden": func(string, map[string]any) (int, map[string]any) { return http.StatusForbidden, nil },
		"a bad signature": func(string, map[string]any) (int, map[string]any) {
			return http.StatusOK, map[string]any{"signature": "vault:v1:" + base64.StdEncoding.EncodeToString(make([]byte, 64))}
		},
		"a signature of something else": func(string, map[string]any) (int, map[string]any) {
			return http.StatusOK, map[string]any{"signature": "vault:v1:" + base64.StdEncoding.EncodeToString(ed25519.Sign(d.key, []byte("other")))}
		},
		"words": func(string, map[string]any) (int, map[string]any) {
			return http.StatusOK, map[string]any{"signature": "certainly"}
		},
	} {
		d.sign.Store(&answer)
		if _, err := s.Sign(t.Context(), s.Active(), []byte("order")); errs.CodeOf(err) != errs.Unavailable {
			t.Errorf("%s: %v", rule, err)
		}
		if _, err := ca.Issue(t.Context(), csr, pki.Name{Domain: secrettest.Domain, Kind: "node", ID: "1"}.URI(), time.Hour); err == nil {
			t.Errorf("%s: a certificate came of it", rule)
		}
	}
	right := func(_ string, body map[string]any) (int, map[string]any) {
		input, _ := body["input"].(string)
		text, _ := base64.StdEncoding.DecodeString(input)
		return http.StatusOK, map[string]any{"signature": "vault:v1:" + base64.StdEncoding.EncodeToString(ed25519.Sign(d.key, text))}
	}
	d.sign.Store(&right)
	if signature, err := s.Sign(t.Context(), s.Active(), []byte("order")); err != nil || !ed25519.Verify(s.Public()[s.Active()], []byte("order"), signature) {
		t.Errorf("the right one: %v", err)
	}
}
