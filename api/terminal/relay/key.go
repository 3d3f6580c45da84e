package relay

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"

	"github.com/gpuaas/gpuaas/internal/pki"
)

// serverKey is the key of this process, in a certificate that it signs itself. Agents trust it by the fingerprint in a
// request for a stream, which a relay key signs.
type serverKey struct {
	certificate tls.Certificate
	fingerprint string // hex SHA-256 of the public key
}

// keyLife is longer than a process lives. No agent reads it.
const keyLife = 10 * 365 * 24 * time.Hour

func newServerKey(now time.Time) (k serverKey, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return k, fmt.Errorf("making the key of a terminal server: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "GPUaaS terminal server"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(keyLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return k, fmt.Errorf("making the certificate of a terminal server: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return k, fmt.Errorf("making the certificate of a terminal server: %w", err)
	}
	return serverKey{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pki.KeyFingerprint(leaf)}, nil
}
