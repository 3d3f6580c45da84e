// Package pki is the certificate authority of small installations. It stores roots, issuing keys
// and the keys that sign tasks and logins as files. It issues short-lived certificates and stores
// no list of them: the caller records the serials and decides which are still valid.
//
// It uses only the public key of a signing request, issues nothing longer than MaxTTL, and supports
// nothing older than TLS 1.3.
package pki

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
)

const (
	rootLife    = 10 * 365 * 24 * time.Hour
	issuingLife = 365 * 24 * time.Hour
	// A holder whose clock is behind ours must accept what it was just given.
	backdate = 5 * time.Minute
	// propagation is the time for which a new generation signs nothing. Every process that has opened
	// the directory reads it within this time and then trusts its signatures.
	propagation = 3 * time.Second
)

// Local is an authority with its keys in the files of one directory, mode 0600. Several processes
// may open the directory; Refresh reads the changes of other processes.
//
// During a rotation there are two generations, and both are trusted. The newer one certifies nodes.
// The older one certifies the node API, because a node that has not received the new root trusts
// only the older one.
type Local struct {
	Clock clock.Clock

	dir  string
	mu   sync.RWMutex
	gens []generation // oldest first
	pool *x509.CertPool
}

// Open reads the authority of dir, or makes it when dir has none.
func Open(dir string, c clock.Clock) (*Local, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening authority: %w", err)
	}
	l := &Local{Clock: c, dir: dir}
	numbers, err := generations(dir)
	if err != nil {
		return nil, err
	}
	if len(numbers) < 2 { // the first may have been left half made
		if _, err := l.load(max(1, newest(numbers)), true); err != nil {
			return nil, err
		}
	}
	return l, l.refresh()
}

// Refresh reads the directory again: another process may have rolled it over.
func (l *Local) Refresh(context.Context) error { return l.refresh() }

func (l *Local) refresh() error {
	numbers, err := generations(l.dir)
	if err != nil {
		return err
	}
	var gens []generation
	pool := x509.NewCertPool()
	for _, n := range numbers {
		g, err := l.load(n, false)
		if err != nil {
			return err
		}
		if g.whole() {
			gens = append(gens, g)
			pool.AddCert(g.root.cert)
		}
	}
	if len(gens) == 0 {
		return fmt.Errorf("no authority is left in %s", l.dir)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !same(gens, l.gens) {
		l.gens, l.pool = gens, pool
	}
	return nil
}

// Bundle returns the roots that peers should trust, in PEM, oldest first.
func (l *Local) Bundle() []byte {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var b bytes.Buffer
	for _, g := range l.gens {
		b.Write(certPEM(g.root.cert.Raw))
	}
	return b.Bytes()
}

// Pool returns Bundle as crypto/tls requires it. The pool is replaced only if the bundle changes.
func (l *Local) Pool() *x509.CertPool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.pool
}

// Revoke does nothing: this authority has no revocation list. The package that recorded the serial
// decides whether it is valid.
func (*Local) Revoke(context.Context, string) error { return nil }

// oldest returns the generation that certifies the node API.
func (l *Local) oldest() generation {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.gens[0]
}

// issuing certifies nodes.
func (l *Local) issuing() generation {
	l.mu.RLock()
	defer l.mu.RUnlock()
	last := l.gens[len(l.gens)-1]
	made := last.issuing.cert.NotBefore.Add(backdate)
	if len(l.gens) > 1 && l.Clock.Now().Before(made.Add(propagation)) {
		return l.gens[len(l.gens)-2]
	}
	return last
}

func same(a, b []generation) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].root.cert.Equal(b[i].root.cert) || !a[i].issuing.cert.Equal(b[i].issuing.cert) {
			return false
		}
	}
	return true
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
	return certify(template, parent, key.Public())
}
