package pki

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"
)

// MaxTTL bounds what a stolen key is worth.
const MaxTTL = 24 * time.Hour

// Certificate is what Issue made.
type Certificate struct {
	Serial   string
	NotAfter time.Time
	Chain    []byte // PEM, leaf first, without the root
}

// ParseRequest reads a PEM signing request and proves that whoever made it holds
// the key. Only the key of the result is ever used.
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

// Issue certifies the key behind csr as the client named uri. Names, usages and
// times that the request asks for are ignored.
func (l *Local) Issue(csr []byte, uri *url.URL, ttl time.Duration) (Certificate, error) {
	request, err := ParseRequest(csr)
	if err != nil {
		return Certificate{}, err
	}
	return l.leaf(request.PublicKey, ttl, func(c *x509.Certificate) {
		c.URIs = []*url.URL{uri}
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	})
}

// Server makes a key and certificate for a listener that is reached under hosts:
// names or addresses. The chain ends with the root, so that a peer who knows
// only the root's fingerprint can find it there.
func (l *Local) Server(hosts []string, ttl time.Duration) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making server key: %w", err)
	}
	made, err := l.leaf(key.Public(), ttl, func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		for _, host := range hosts {
			if ip := net.ParseIP(host); ip != nil {
				c.IPAddresses = append(c.IPAddresses, ip)
			} else {
				c.DNSNames = append(c.DNSNames, host)
			}
		}
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
		Certificate: [][]byte{leaf.Bytes, l.issuing.cert.Raw, l.root.cert.Raw},
		PrivateKey:  key, Leaf: parsed,
	}, nil
}

func (l *Local) leaf(public any, ttl time.Duration, shape func(*x509.Certificate)) (Certificate, error) {
	if ttl <= 0 || ttl > MaxTTL {
		return Certificate{}, fmt.Errorf("a certificate cannot live %s, at most %s", ttl, MaxTTL)
	}
	serial, err := newSerial()
	if err != nil {
		return Certificate{}, err
	}
	now := l.Clock.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{Organization: []string{"GPUaaS"}},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(ttl),
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
	}
	shape(template)
	der, err := x509.CreateCertificate(rand.Reader, template, l.issuing.cert, public, l.issuing.key)
	if err != nil {
		return Certificate{}, fmt.Errorf("issuing certificate: %w", err)
	}
	return Certificate{
		Serial:   SerialOf(template),
		NotAfter: template.NotAfter.Truncate(time.Second), // X.509 has no finer time
		Chain:    append(certPEM(der), certPEM(l.issuing.cert.Raw)...),
	}, nil
}
