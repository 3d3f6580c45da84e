package stepca_test

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/secret/secrettest"
	"github.com/gpuaas/gpuaas/platform/secret/stepca"
)

// double responds as step-ca's API description specifies, with certificates of the test.
type double struct {
	ca     *pki.Local
	public any
	answer atomic.Pointer[func(sans []string, csr []byte) (int, pki.Certificate)]
}

func (d *double) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/1.0/roots" {
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{"crts": []string{string(d.ca.Bundle())}})
		return
	}
	var body struct {
		CSR string `json:"csr"`
		OTT string `json:"ott"`
	}
	_ = json.NewDecoder(r.Body).Decode(&body)
	token, err := jose.ParseSigned(body.OTT, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	text, err := token.Verify(d.public)
	var claims struct {
		Issuer   string   `json:"iss"`
		Audience string   `json:"aud"`
		SANs     []string `json:"sans"`
		Expires  int64    `json:"exp"`
		ID       string   `json:"jti"`
		Bound    struct {
			Request string `json:"x5rt#S256"`
		} `json:"cnf"`
	}
	if err == nil {
		err = json.Unmarshal(text, &claims)
	}
	if err != nil || claims.Issuer != "gpuaas" || !strings.HasSuffix(claims.Audience, r.URL.Path) || claims.ID == "" || claims.Bound.Request == "" ||
		time.Until(time.Unix(claims.Expires, 0)) > 2*time.Minute {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	status, made := (*d.answer.Load())(claims.SANs, []byte(body.CSR))
	w.WriteHeader(status)
	leaf, rest := pem.Decode(made.Chain)
	if leaf != nil {
		_ = json.NewEncoder(w).Encode(map[string]any{"crt": string(pem.EncodeToMemory(leaf)), "certChain": []string{string(pem.EncodeToMemory(leaf)), string(rest)}})
	}
}

// Certificates from step-ca are checked against our own rules, and its rejections become error codes.
func TestAnswersAreHeldAgainstOurRules(t *testing.T) {
	t.Parallel()
	local, err := pki.Open(t.TempDir(), clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	key := secrettest.Key(t)
	private, err := (&jose.JSONWebKey{Key: key}).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	d := &double{ca: local, public: key.Public()}
	server := httptest.NewTLSServer(d)
	t.Cleanup(server.Close)
	root := filepath.Join(t.TempDir(), "root.pem")
	if err := os.WriteFile(root, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	ca, err := stepca.Open(t.Context(), stepca.Config{URL: server.URL, RootFile: root, Provisioner: "gpuaas", Key: string(private)}, clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	name, other := pki.Name{Domain: secrettest.Domain, Kind: "node", ID: "1"}, pki.Name{Domain: secrettest.Domain, Kind: "node", ID: "2"}
	csr := secrettest.Request(t, secrettest.Key(t), x509.CertificateRequest{})
	issue := func(csr []byte, name pki.Name, ttl time.Duration) (int, pki.Certificate) {
		made, err := local.Issue(t.Context(), csr, name.URI(), ttl)
		if err != nil {
			t.Error(err)
		}
		return http.StatusCreated, made
	}
	for rule, c := range map[string]struct {
		answer func(sans []string, csr []byte) (int, pki.Certificate)
		ok     bool
		code   errs.Code
	}{
		"as requested": {func(sans []string, csr []byte) (int, pki.Certificate) {
			if len(sans) != 1 || sans[0] != name.URI().String() {
				t.Errorf("requested %v", sans)
			}
			return issue(csr, name, time.Hour)
		}, true, ""},
		"another node":  {func(_ []string, csr []byte) (int, pki.Certificate) { return issue(csr, other, time.Hour) }, false, ""},
		"a longer life": {func(_ []string, csr []byte) (int, pki.Certificate) { return issue(csr, name, 5*time.Hour) }, false, ""},
		"another key": {func([]string, []byte) (int, pki.Certificate) {
			return issue(secrettest.Request(t, secrettest.Key(t), x509.CertificateRequest{}), name, time.Hour)
		}, false, ""},
		"refused": {func([]string, []byte) (int, pki.Certificate) { return http.StatusForbidden, pki.Certificate{} }, false, errs.Unavailable},
	} {
		d.answer.Store(&c.answer)
		_, err := ca.Issue(t.Context(), csr, name.URI(), time.Hour)
		if (err == nil) != c.ok || c.code != "" && errs.CodeOf(err) != c.code {
			t.Errorf("%s: %v", rule, err)
		}
	}
	server.Close()
	if _, err := ca.Issue(t.Context(), csr, name.URI(), time.Hour); errs.CodeOf(err) != errs.Unavailable {
		t.Errorf("gone: %v", err)
	}
}
