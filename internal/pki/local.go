// Package pki is the certificate authority of small installations, made of
// files: a root, an issuing key below it, and the keys that sign orders. It
// issues short-lived certificates and keeps no list of them: whoever asks records
// the serials and decides which still stand.
//
// It refuses to take anything but the public key from a signing request, to
// issue for longer than MaxTTL, and to speak anything older than TLS 1.3.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/durable"
)

const (
	rootLife    = 10 * 365 * 24 * time.Hour
	issuingLife = 365 * 24 * time.Hour
	// A holder whose clock is behind ours must accept what it was just given.
	backdate = 5 * time.Minute
)

// Local is an authority whose keys are files of one directory, 0600. Several
// processes may open the same directory.
type Local struct {
	Clock clock.Clock

	root, issuing pair
}

type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// Open reads the authority of dir, or makes it when dir has none.
func Open(dir string, c clock.Clock) (*Local, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening authority: %w", err)
	}
	l := &Local{Clock: c}

	var err error
	l.root, err = loadOrMake(filepath.Join(dir, "root.pem"), func(key crypto.Signer) ([]byte, error) {
		return l.authority(pkix.Name{CommonName: "GPUaaS root"}, 1, rootLife, key, pair{key: key})
	})
	if err != nil {
		return nil, err
	}
	l.issuing, err = loadOrMake(filepath.Join(dir, "issuing.pem"), func(key crypto.Signer) ([]byte, error) {
		return l.authority(pkix.Name{CommonName: "GPUaaS issuing"}, 0, issuingLife, key, l.root)
	})
	if err != nil {
		return nil, err
	}
	if err := l.issuing.cert.CheckSignatureFrom(l.root.cert); err != nil {
		return nil, fmt.Errorf("issuing certificate in %s is not of the root beside it: %w", dir, err)
	}
	return l, nil
}

// Bundle is what peers should trust, in PEM.
func (l *Local) Bundle() []byte { return certPEM(l.root.cert.Raw) }

// Pool is Bundle in the form that crypto/tls takes.
func (l *Local) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(l.root.cert)
	return pool
}

// authority makes a CA certificate for key, signed by parent; a parent without a
// certificate means self-signed.
func (l *Local) authority(subject pkix.Name, depth int, life time.Duration, key crypto.Signer, parent pair) ([]byte, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	now := l.Clock.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: subject,
		NotBefore: now.Add(-backdate), NotAfter: now.Add(life),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true, IsCA: true, MaxPathLen: depth, MaxPathLenZero: depth == 0,
	}
	if parent.cert == nil {
		parent.cert = template
	}
	return x509.CreateCertificate(rand.Reader, template, parent.cert, key.Public(), parent.key)
}

// loadOrMake reads a key and its certificate from one file. They are one file so
// that a crash, or another process that makes them too, cannot leave a key
// beside a certificate of another.
func loadOrMake(path string, certify func(crypto.Signer) ([]byte, error)) (pair, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makePair(path, certify); err != nil && !errors.Is(err, fs.ErrExist) {
			return pair{}, err
		}
		text, err = os.ReadFile(path) // ours, or that of whoever was faster
	}
	if err != nil {
		return pair{}, fmt.Errorf("reading %s: %w", path, err)
	}
	p, err := parsePair(text)
	if err != nil {
		return pair{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return p, nil
}

func makePair(path string, certify func(crypto.Signer) ([]byte, error)) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making key for %s: %w", path, err)
	}
	cert, err := certify(key)
	if err != nil {
		return fmt.Errorf("making certificate for %s: %w", path, err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding key for %s: %w", path, err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), certPEM(cert)...)
	return durable.Create(path, text, 0o600)
}

func parsePair(text []byte) (pair, error) {
	private, rest := pem.Decode(text)
	if private == nil || private.Type != "PRIVATE KEY" {
		return pair{}, errors.New("holds no private key")
	}
	cert, _ := pem.Decode(rest)
	if cert == nil || cert.Type != "CERTIFICATE" {
		return pair{}, errors.New("holds no certificate")
	}
	key, err := x509.ParsePKCS8PrivateKey(private.Bytes)
	if err != nil {
		return pair{}, fmt.Errorf("parsing key: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return pair{}, fmt.Errorf("a %T does not sign", key)
	}
	c, err := x509.ParseCertificate(cert.Bytes)
	if err != nil {
		return pair{}, fmt.Errorf("parsing certificate: %w", err)
	}
	if public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(c.PublicKey) {
		return pair{}, errors.New("key and certificate do not belong together")
	}
	return pair{c, signer}, nil
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// newSerial is random, so that it tells nothing and needs no counter.
func newSerial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("drawing a serial: %w", err)
	}
	return n.Add(n, big.NewInt(1)), nil
}
