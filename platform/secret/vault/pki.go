package vault

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pki"
)

// Authority is Vault's PKI engine. Every issuer of the mount is trusted: during a rotation there are
// two, and the Vault roles define which of them signs.
type Authority struct {
	*Client

	mu     sync.RWMutex
	roots  []*x509.Certificate
	bundle []byte
	pool   *x509.CertPool
	read   time.Time
}

// OpenAuthority reads the issuers.
func OpenAuthority(ctx context.Context, c *Client) (*Authority, error) {
	a := &Authority{Client: c}
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
	chain, err := a.sign(ctx, a.cfg.NodeRole, map[string]any{"csr": string(csr), "uri_sans": uri.String(), "ttl": ttl.String(), "exclude_cn_from_sans": true})
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
	names, addresses := pki.SplitHosts(hosts)
	ips := make([]string, len(addresses))
	for i, ip := range addresses {
		ips[i] = ip.String()
	}
	chain, err := a.sign(ctx, a.cfg.ServerRole, map[string]any{
		"csr": string(csr), "alt_names": strings.Join(names, ","), "ip_sans": strings.Join(ips, ","), "ttl": ttl.String(), "exclude_cn_from_sans": true,
	})
	if err != nil {
		return tls.Certificate{}, err
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	return pki.AcceptServer(chain, a.roots, key, hosts, a.clock.Now())
}

func (a *Authority) sign(ctx context.Context, role string, data map[string]any) ([]*x509.Certificate, error) {
	got, err := a.write(ctx, "certify a key", a.cfg.PKI+"/sign/"+role, data)
	if err != nil {
		return nil, err
	}
	return chainOf(got)
}

// Revoke puts a serial on Vault's own list.
func (a *Authority) Revoke(ctx context.Context, serial string) error {
	n, ok := new(big.Int).SetString(serial, 16)
	if !ok {
		return fmt.Errorf("%q is no serial", serial)
	}
	parts := make([]string, 0, len(n.Bytes()))
	for _, b := range n.Bytes() {
		parts = append(parts, fmt.Sprintf("%02x", b))
	}
	_, err := a.write(ctx, "revoke a certificate", a.cfg.PKI+"/revoke", map[string]any{"serial_number": strings.Join(parts, ":")})
	return err
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

// Refresh renews the token and reads the list of issuers.
func (a *Authority) Refresh(ctx context.Context) error {
	if err := a.alive(ctx); err != nil {
		return err
	}
	now := a.clock.Now()
	a.mu.RLock()
	fresh := a.pool != nil && now.Sub(a.read) < checkEvery
	a.mu.RUnlock()
	if fresh {
		return nil
	}
	roots, err := a.issuers(ctx)
	if err != nil {
		return err
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

// issuers returns the end of each issuer's chain: a root, or the highest available certificate if the
// root is stored elsewhere.
func (a *Authority) issuers(ctx context.Context) (roots []*x509.Certificate, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	list, err := a.api.Logical().ListWithContext(ctx, a.cfg.PKI+"/issuers")
	if err != nil {
		return nil, away("list its issuers", err)
	}
	if list == nil {
		return nil, errs.New(errs.Unavailable, "Vault has no issuer at %s", a.cfg.PKI)
	}
	keys, _ := list.Data["keys"].([]any)
	for _, id := range keys {
		got, err := a.Client.read(ctx, "show an issuer", fmt.Sprintf("%s/issuer/%v/json", a.cfg.PKI, id))
		if err != nil {
			return nil, err
		}
		chain, err := chainOf(got)
		if err != nil {
			return nil, err
		}
		roots = append(roots, chain[len(chain)-1])
	}
	if len(roots) == 0 {
		return nil, errs.New(errs.Unavailable, "Vault has no issuer at %s", a.cfg.PKI)
	}
	return roots, nil
}

// chainOf reads a certificate and what is above it, lowest first.
func chainOf(got *api.Secret) ([]*x509.Certificate, error) {
	if got == nil {
		return nil, errs.New(errs.Unavailable, "Vault returned no certificate")
	}
	leaf, _ := got.Data["certificate"].(string)
	text := []string{strings.TrimSpace(leaf)}
	above, _ := got.Data["ca_chain"].([]any)
	for _, one := range above {
		if s, ok := one.(string); ok && strings.TrimSpace(s) != text[0] {
			text = append(text, strings.TrimSpace(s))
		}
	}
	chain, err := pki.Certificates([]byte(strings.Join(text, "\n")))
	if err != nil {
		return nil, fmt.Errorf("reading what Vault made: %w", err)
	}
	return chain, nil
}
