package pki

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
)

// ServerTLS returns the configuration of a listener whose clients authenticate by certificate. A
// client without a certificate passes the handshake, because enrolment happens without one; the
// handler must reject it for other requests. A client with an invalid certificate fails the
// handshake. clients is called at each handshake, because a rotation changes the roots.
//
// Sessions may be resumed, so that a whole fleet can reconnect quickly. A session contains the
// certificate that opened it. It is rejected after the certificate has expired or no longer leads
// to one of clients. The handler checks at each request whether the serial is valid. The ticket
// keys belong to this process and change daily.
func ServerTLS(certificate func() (*tls.Certificate, error), clients func() *x509.CertPool, c clock.Clock) *tls.Config {
	base := &tls.Config{
		MinVersion:     tls.VersionTLS13,
		ClientAuth:     tls.VerifyClientCertIfGiven,
		ClientCAs:      clients(),
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate() },
		Time:           c.Now,
		NextProtos:     []string{"http/1.1"},
	}
	var last atomic.Pointer[tls.Config]
	last.Store(base.Clone())
	base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now, pool := last.Load(), clients()
		if now.ClientCAs != pool {
			now = now.Clone()
			now.ClientCAs = pool
			last.Store(now)
		}
		return now, nil
	}
	return base
}

// ClientTLS is for a caller that trusts the PEM bundle roots. certificate may be
// nil: the first contact has none.
func ClientTLS(roots []byte, certificate func() (*tls.Certificate, error), c clock.Clock) (*tls.Config, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(roots) {
		return nil, errors.New("trust bundle contains no certificate")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, Time: c.Now, NextProtos: []string{"http/1.1"}}
	if certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate() }
	}
	return config, nil
}

// PinnedTLS is for a client that knows only the fingerprints of its peer's roots, separated by commas. The chain must
// contain one of these certificates and lead to it. During a rotation there are two.
func PinnedTLS(fingerprints string, c clock.Clock) *tls.Config {
	pins := strings.Split(strings.ToLower(strings.ReplaceAll(fingerprints, ":", "")), ",")
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection below does it, against the pin
		NextProtos:         []string{"http/1.1"},
		VerifyConnection: func(s tls.ConnectionState) error {
			return verifyPinned(s, pins, c.Now())
		},
	}
}

func verifyPinned(s tls.ConnectionState, pins []string, now time.Time) error {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	found := false
	for _, cert := range s.PeerCertificates[1:] {
		if slices.Contains(pins, Fingerprint(cert.Raw)) {
			roots.AddCert(cert)
			found = true
		} else {
			between.AddCert(cert)
		}
	}
	if !found {
		return fmt.Errorf("no certificate of the peer has the fingerprint %s", strings.Join(pins, " or "))
	}
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{
		DNSName: s.ServerName, Roots: roots, Intermediates: between, CurrentTime: now,
	})
	return err
}

// BundleFingerprints lists the fingerprints of the certificates in a PEM bundle.
func BundleFingerprints(bundle []byte) (prints []string) {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		prints = append(prints, Fingerprint(block.Bytes))
	}
	return prints
}

// KeyFingerprint returns the hex SHA-256 of the public key of a certificate. A process that makes its own key at each start
// is known by it, and by no authority.
func KeyFingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// KeyTLS is for a client that knows only the key of its peer, by its fingerprint.
func KeyTLS(fingerprint string, c clock.Clock) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}, Time: c.Now,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection compares the key
		VerifyConnection: func(s tls.ConnectionState) error {
			if have := KeyFingerprint(s.PeerCertificates[0]); have != fingerprint {
				return fmt.Errorf("the server has the key %s, expected %s", have, fingerprint)
			}
			return nil
		},
	}
}
