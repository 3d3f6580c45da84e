package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// slack is the time by which the certificate of an external authority may exceed the requested
// lifetime, because the clocks differ.
const slack = 10 * time.Minute

// Certificates reads all certificates of a PEM text.
func Certificates(text []byte) (list []*x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("a %s is no certificate", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parsing certificate: %w", err)
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, errors.New("no certificate")
	}
	return list, nil
}

// Accept checks the certificate of an external authority against our own rules, whatever its
// operator has configured. Accept rejects a certificate with another name, another key, another use
// or a longer lifetime.
func Accept(chain []*x509.Certificate, csr []byte, uri *url.URL, ttl time.Duration, now time.Time) (Certificate, error) {
	request, err := ParseRequest(csr)
	if err != nil {
		return Certificate{}, err
	}
	leaf := chain[0]
	public, ok := request.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	switch name, err := NameOf(leaf); {
	case err != nil:
		return Certificate{}, fmt.Errorf("the authority issued a certificate without the requested name: %w", err)
	case name.URI().String() != uri.String():
		return Certificate{}, fmt.Errorf("the authority named %s, not %s", name.URI(), uri)
	case len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.EmailAddresses) > 0 || leaf.IsCA:
		return Certificate{}, errors.New("the authority gave more than the name")
	case !ok || !public.Equal(leaf.PublicKey):
		return Certificate{}, errors.New("the authority certified another key")
	case !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth):
		return Certificate{}, errors.New("the authority issued no client certificate")
	case leaf.NotAfter.After(now.Add(ttl + slack)):
		return Certificate{}, fmt.Errorf("the certificate is valid until %s, longer than %s", leaf.NotAfter.Format(time.RFC3339), ttl)
	case !now.Before(leaf.NotAfter):
		return Certificate{}, errors.New("the authority issued an expired certificate")
	}
	return Certificate{Serial: SerialOf(leaf), Issuer: IssuerOf(leaf), NotAfter: leaf.NotAfter, Chain: chainPEM(chain)}, nil
}

// chainPEM leaves the root out.
func chainPEM(chain []*x509.Certificate) []byte {
	var b bytes.Buffer
	for i, c := range chain {
		if i == 0 || !SelfSigned(c) {
			b.Write(certPEM(c.Raw))
		}
	}
	return b.Bytes()
}

// SelfSigned reports whether c is a root.
func SelfSigned(c *x509.Certificate) bool { return bytes.Equal(c.RawIssuer, c.RawSubject) }

// Bundle returns the PEM of the roots without duplicates, oldest first: the node API's certificate
// leads to the oldest until a rotation ends.
func Bundle(roots []*x509.Certificate) []byte {
	var b bytes.Buffer
	seen := map[string]bool{}
	for _, c := range slices.SortedStableFunc(slices.Values(roots), func(x, y *x509.Certificate) int { return x.NotBefore.Compare(y.NotBefore) }) {
		if !seen[string(c.Raw)] {
			seen[string(c.Raw)] = true
			b.Write(certPEM(c.Raw))
		}
	}
	return b.Bytes()
}

// ServerRequest creates a listener's key and the request to certify it for these names.
func ServerRequest(hosts []string) (key crypto.Signer, csr []byte, err error) {
	key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making server key: %w", err)
	}
	names, addresses := SplitHosts(hosts)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: names, IPAddresses: addresses}, key)
	if err != nil {
		return nil, nil, fmt.Errorf("making server request: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// AcceptServer is Accept for a listener. The chain is completed with the root that
// it leads to, so that a peer who knows only the root's fingerprint finds it.
func AcceptServer(chain, roots []*x509.Certificate, key crypto.Signer, hosts []string, now time.Time) (tls.Certificate, error) {
	leaf := chain[0]
	pool, between := x509.NewCertPool(), x509.NewCertPool()
	for _, r := range roots {
		pool.AddCert(r)
	}
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	var found [][]*x509.Certificate
	for _, host := range hosts {
		var err error
		if found, err = leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: pool, Intermediates: between, CurrentTime: now}); err != nil {
			return tls.Certificate{}, fmt.Errorf("the authority's certificate does not serve %s: %w", host, err)
		}
	}
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if len(found) == 0 || !ok || !public.Equal(leaf.PublicKey) {
		return tls.Certificate{}, errors.New("the authority certified another key, or no name")
	}
	made := tls.Certificate{PrivateKey: key, Leaf: leaf}
	for _, c := range found[0] {
		made.Certificate = append(made.Certificate, c.Raw)
	}
	return made, nil
}
