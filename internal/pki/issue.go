package pki

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"
)

// MaxTTL bounds what a stolen key is worth.
const MaxTTL = 24 * time.Hour

// Certificate is the result of Issue.
type Certificate struct {
	Serial   string
	Issuer   string // which issuing key: the identifier of it, in hex
	NotAfter time.Time
	Chain    []byte // PEM, leaf first, without the root
}

// ParseRequest reads a PEM signing request and verifies that the requester owns the key. Only the
// key of the result is ever used.
func ParseRequest(csr []byte) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(csr)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(rest) > 0 {
		return nil, errors.New("not one PEM certificate request")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing certificate request: %w", err)
	}
	switch key := request.PublicKey.(type) {
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() {
			return nil, errors.New("key is neither P-256 nor Ed25519")
		}
	case ed25519.PublicKey:
	default:
		return nil, errors.New("key is neither P-256 nor Ed25519")
	}
	if err := request.CheckSignature(); err != nil {
		return nil, fmt.Errorf("certificate request is not signed by its key: %w", err)
	}
	return request, nil
}

// Issuer names the key that Issue signs with now.
func (l *Local) Issuer() string { return issuerOf(l.issuing().issuing.cert.SubjectKeyId) }

// Issue certifies the key of csr for the client uri. Names, usages and times of the request are
// ignored.
func (l *Local) Issue(_ context.Context, csr []byte, uri *url.URL, ttl time.Duration) (Certificate, error) {
	request, err := ParseRequest(csr)
	if err != nil {
		return Certificate{}, err
	}
	return l.leaf(l.issuing(), request.PublicKey, ttl, func(c *x509.Certificate) {
		c.URIs = []*url.URL{uri}
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	})
}

// Server creates a key and a certificate for a listener with the given names or addresses. The
// chain ends with the root, so that a peer that knows only the root's fingerprint can find it
// there.
func (l *Local) Server(_ context.Context, hosts []string, ttl time.Duration) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making server key: %w", err)
	}
	by := l.oldest()
	made, err := l.leaf(by, key.Public(), ttl, func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		c.DNSNames, c.IPAddresses = SplitHosts(hosts)
	})
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, _ := pem.Decode(made.Chain)
	parsed, err := x509.ParseCertificate(leaf.Bytes)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("reading server certificate: %w", err)
	}
	return tls.Certificate{
		Certificate: [][]byte{leaf.Bytes, by.issuing.cert.Raw, by.root.Raw},
		PrivateKey:  key, Leaf: parsed,
	}, nil
}

// SplitHosts parts names from addresses.
func SplitHosts(hosts []string) (names []string, addresses []net.IP) {
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			addresses = append(addresses, ip)
		} else {
			names = append(names, host)
		}
	}
	return names, addresses
}

func (l *Local) leaf(by generation, public any, ttl time.Duration, shape func(*x509.Certificate)) (Certificate, error) {
	if ttl <= 0 || ttl > MaxTTL {
		return Certificate{}, fmt.Errorf("a certificate cannot live %s, at most %s", ttl, MaxTTL)
	}
	serial, err := newSerial()
	if err != nil {
		return Certificate{}, err
	}
	now := l.Clock.Now()
	end := now.Add(ttl)
	if last := by.issuing.cert.NotAfter; end.After(last) {
		end = last // no verifier trusts it any longer
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{Organization: []string{"GPUaaS"}},
		NotBefore: now.Add(-backdate), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
	}
	shape(template)
	der, err := certify(template, by.issuing, public)
	if err != nil {
		return Certificate{}, fmt.Errorf("issuing certificate: %w", err)
	}
	return Certificate{
		Serial:   SerialOf(template),
		Issuer:   issuerOf(by.issuing.cert.SubjectKeyId),
		NotAfter: template.NotAfter.Truncate(time.Second), // X.509 has no finer time
		Chain:    append(certPEM(der), certPEM(by.issuing.cert.Raw)...),
	}, nil
}

// IssuerOf names the key that signed a certificate.
func IssuerOf(c *x509.Certificate) string { return issuerOf(c.AuthorityKeyId) }

func issuerOf(identifier []byte) string { return hex.EncodeToString(identifier) }
