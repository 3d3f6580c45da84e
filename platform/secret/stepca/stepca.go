// Package stepca has nodes certified by a step-ca, over its HTTP API. We are a
// JWK provisioner of it: each request carries a token of our own signing, which
// names exactly what is to be certified and the request that it is for, once.
//
// What it answers is checked by our own rules.
package stepca

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pki"
)

// Config contains the authority's address and our provisioner.
type Config struct {
	URL         string // https://ca.example:9000, as the authority knows itself
	RootFile    string // PEM of the root that its own certificate leads to
	Provisioner string // name of the JWK provisioner
	Key         string // its private key, a JWK
}

const (
	within     = 5 * time.Second
	checkEvery = 5 * time.Second
	// tokenFor is the time within which one of our tokens must arrive.
	tokenFor = time.Minute
	maxReply = 1 << 20
)

// Authority is a step-ca.
type Authority struct {
	cfg   Config
	http  *http.Client
	key   jose.JSONWebKey
	sign  jose.Signer
	clock clock.Clock

	mu     sync.RWMutex
	roots  []*x509.Certificate
	bundle []byte
	pool   *x509.CertPool
	read   time.Time
}

// Open reads the roots.
func Open(ctx context.Context, cfg Config, c clock.Clock) (*Authority, error) {
	cfg.URL = strings.TrimSuffix(cfg.URL, "/")
	a := &Authority{cfg: cfg, clock: c}
	if err := a.key.UnmarshalJSON([]byte(cfg.Key)); err != nil || a.key.IsPublic() {
		return nil, errs.Invalid("GPUAAS_STEP_CA_KEY", "is not a private JWK").Try("print the provisioner's key with step crypto jwe decrypt")
	}
	if a.key.KeyID == "" {
		thumb, err := a.key.Thumbprint(crypto.SHA256)
		if err != nil {
			return nil, fmt.Errorf("naming the provisioner's key: %w", err)
		}
		a.key.KeyID = base64.RawURLEncoding.EncodeToString(thumb)
	}
	algorithm := jose.SignatureAlgorithm(a.key.Algorithm)
	if algorithm == "" {
		algorithm = jose.ES256
	}
	var err error
	options := (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", a.key.KeyID)
	if a.sign, err = jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: a.key.Key}, options); err != nil {
		return nil, errs.Invalid("GPUAAS_STEP_CA_KEY", "%v", err)
	}
	root, err := os.ReadFile(cfg.RootFile)
	if err != nil {
		return nil, fmt.Errorf("reading the root of step-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(root) {
		return nil, errs.Invalid("GPUAAS_STEP_CA_ROOT_FILE", "contains no certificate")
	}
	a.http = &http.Client{Timeout: within, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12, Time: c.Now}, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
	}}
	return a, a.Refresh(ctx)
}

// Issue certifies the key behind csr as the client named uri.
func (a *Authority) Issue(ctx context.Context, csr []byte, uri *url.URL, ttl time.Duration) (pki.Certificate, error) {
	if ttl <= 0 || ttl > pki.MaxTTL {
		return pki.Certificate{}, fmt.Errorf("a certificate cannot be valid for %s, only for %s", ttl, pki.MaxTTL)
	}
	if _, err := pki.ParseRequest(csr); err != nil {
		return pki.Certificate{}, err
	}
	chain, err := a.certify(ctx, csr, uri.String(), []string{uri.String()}, ttl)
	if err != nil {
		return pki.Certificate{}, err
	}
	return pki.Accept(chain, csr, uri, ttl, a.clock.Now())
}

// Server creates a key here and has it certified for these names.
func (a *Authority) Server(ctx context.Context, hosts []string, ttl time.Duration) (tls.Certificate, error) {
	key, csr, err := pki.ServerRequest(hosts)
	if err != nil {
		return tls.Certificate{}, err
	}
	chain, err := a.certify(ctx, csr, hosts[0], hosts, ttl)
	if err != nil {
		return tls.Certificate{}, err
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	return pki.AcceptServer(chain, a.roots, key, hosts, a.clock.Now())
}

// certify requests a certificate for csr and parses the returned chain. The token contains the hash
// of csr, so a stolen token certifies nothing else.
func (a *Authority) certify(ctx context.Context, csr []byte, subject string, names []string, ttl time.Duration) ([]*x509.Certificate, error) {
	block, _ := pem.Decode(csr)
	if block == nil {
		return nil, errors.New("not a PEM request")
	}
	sum := sha256.Sum256(block.Bytes)
	token, err := a.token("/1.0/sign", subject, map[string]any{
		"sans": names, "cnf": map[string]string{"x5rt#S256": base64.RawURLEncoding.EncodeToString(sum[:])},
	})
	if err != nil {
		return nil, err
	}
	var got struct {
		Leaf  string   `json:"crt"`
		Above string   `json:"ca"`
		Chain []string `json:"certChain"`
	}
	ask := map[string]any{"csr": string(csr), "ott": token, "notAfter": a.clock.Now().Add(ttl).UTC().Format(time.RFC3339)}
	if err := a.call(ctx, "certify a key", http.MethodPost, "/1.0/sign", ask, &got); err != nil {
		return nil, err
	}
	text := strings.Join(got.Chain, "\n")
	if len(got.Chain) == 0 {
		text = got.Leaf + "\n" + got.Above
	}
	chain, err := pki.Certificates([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("reading what step-ca made: %w", err)
	}
	return chain, nil
}

// Revoke prevents the authority from renewing a serial. step-ca publishes no list by default; the node
// API does not depend on one.
func (a *Authority) Revoke(ctx context.Context, serial string) error {
	n, ok := new(big.Int).SetString(serial, 16)
	if !ok {
		return fmt.Errorf("%q is no serial", serial)
	}
	token, err := a.token("/1.0/revoke", n.String(), nil)
	if err != nil {
		return err
	}
	ask := map[string]any{"serial": n.String(), "ott": token, "reason": "the node was revoked or enrolled again", "reasonCode": 4, "passive": true}
	return a.call(ctx, "revoke a certificate", http.MethodPost, "/1.0/revoke", ask, nil)
}

// token authorises one request, for a minute.
func (a *Authority) token(path, subject string, more map[string]any) (string, error) {
	now := a.clock.Now()
	claims := map[string]any{
		"iss": a.cfg.Provisioner, "aud": a.cfg.URL + path, "sub": subject, "jti": uuid.NewString(),
		"iat": now.Unix(), "nbf": now.Add(-tokenFor).Unix(), "exp": now.Add(tokenFor).Unix(),
	}
	maps.Copy(claims, more)
	text, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("encoding a token: %w", err)
	}
	signed, err := a.sign.Sign(text)
	if err != nil {
		return "", fmt.Errorf("signing a token: %w", err)
	}
	return signed.CompactSerialize()
}

// Issuer returns nothing: the role or the provisioner chooses the key.
func (*Authority) Issuer() string { return "" }

// Bundle returns the roots that peers should trust.
func (a *Authority) Bundle() []byte {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.bundle
}

// Pool is Bundle for crypto/tls.
func (a *Authority) Pool() *x509.CertPool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.pool
}

// Refresh reads the roots: an authority that rolls over lists both.
func (a *Authority) Refresh(ctx context.Context) error {
	now := a.clock.Now()
	a.mu.RLock()
	fresh := a.pool != nil && now.Sub(a.read) < checkEvery
	a.mu.RUnlock()
	if fresh {
		return nil
	}
	var got struct {
		Roots []string `json:"crts"`
	}
	if err := a.call(ctx, "list its roots", http.MethodGet, "/1.0/roots", nil, &got); err != nil {
		return err
	}
	roots, err := pki.Certificates([]byte(strings.Join(got.Roots, "\n")))
	if err != nil {
		return fmt.Errorf("reading the roots of step-ca: %w", err)
	}
	bundle := pki.Bundle(roots)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.read = now
	if string(bundle) == string(a.bundle) {
		return nil
	}
	a.roots, a.bundle, a.pool = roots, bundle, x509.NewCertPool()
	for _, r := range roots {
		a.pool.AddCert(r)
	}
	return nil
}

// call sends one request to step-ca. The cause of a rejection goes to the log only, because it may
// name provisioners and policies. The response is limited in size and time: a broken authority must
// not block an enrolment or exhaust the memory.
func (a *Authority) call(ctx context.Context, what, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encoding a request to step-ca: %w", err)
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, a.cfg.URL+path, content)
	if err != nil {
		return fmt.Errorf("making a request to step-ca: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := a.http.Do(request)
	if err != nil {
		return errs.New(errs.Unavailable, "step-ca did not respond in time to %s", what).Try("try again").Because(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxReply))
	if err != nil {
		return errs.New(errs.Unavailable, "step-ca did not respond in time to %s", what).Try("try again").Because(err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return errs.New(errs.Unavailable, "step-ca rejected the request to %s", what).Try("an operator finds the reason in the server's log").
			Because(fmt.Errorf("%s: %.300s", response.Status, text))
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("reading the answer of step-ca: %w", err)
	}
	return nil
}
