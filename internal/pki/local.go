// Package pki is the certificate authority of an installation without one of its own, and its signing
// keys. A Store contains them. It issues short-lived certificates and stores
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
	"errors"
	"fmt"
	"io/fs"
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

// Local is an authority whose keys are in a Store. Several processes may open the store; Refresh reads
// the changes of other processes.
//
// During a rotation there are two generations, and both are trusted. The newer one certifies nodes.
// The older one certifies the node API, because a node that has not received the new root trusts
// only the older one.
type Local struct {
	Clock clock.Clock

	store Store
	mu    sync.RWMutex
	gens  []generation // oldest first
	pool  *x509.CertPool
}

// authorityPrefix and a number make the file name of an authority.
const authorityPrefix = "authority"

// Open reads the authority in the files of dir, or makes it when dir has none.
func Open(dir string, c clock.Clock) (*Local, error) {
	ctx, store := context.Background(), Dir{dir, authorityPrefix} //nolint:forbidigo // files need no deadline
	if list, err := store.Read(ctx); err != nil {
		return nil, err
	} else if len(list) == 0 {
		made, err := NewAuthority(1, c)
		if err != nil {
			return nil, err
		}
		if err := store.Add(ctx, made); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return NewLocal(ctx, store, c)
}

// NewLocal reads the authority of a store.
func NewLocal(ctx context.Context, s Store, c clock.Clock) (*Local, error) {
	l := &Local{Clock: c, store: s}
	return l, l.Refresh(ctx)
}

// Refresh reads the store again: another process may have rolled the authority over.
func (l *Local) Refresh(ctx context.Context) error {
	list, err := l.store.Read(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return errors.New("no authority is left")
	}
	gens, pool := make([]generation, len(list)), x509.NewCertPool()
	for i, one := range list {
		if gens[i], err = parseGeneration(one); err != nil {
			return fmt.Errorf("reading authority %d: %w", one.Number, err)
		}
		pool.AddCert(gens[i].root)
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
		b.Write(certPEM(g.root.Raw))
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
		if !a[i].root.Equal(b[i].root) || !a[i].issuing.cert.Equal(b[i].issuing.cert) {
			return false
		}
	}
	return true
}

// NewAuthority draws a root and an issuing key below it. The key of the root is dropped.
func NewAuthority(number int, c clock.Clock) (Stored, error) {
	root, err := newPair(func(key crypto.Signer) ([]byte, error) {
		return authority(c, rootSubject(), 1, rootLife, key, pair{key: key})
	})
	if err != nil {
		return Stored{}, err
	}
	issuing, err := newPair(func(key crypto.Signer) ([]byte, error) {
		return authority(c, issuingSubject(), 0, issuingLife, key, root)
	})
	if err != nil {
		return Stored{}, err
	}
	return generation{number, root.cert, issuing}.encode()
}

// authority makes a CA certificate for key, signed by parent; a parent without a
// certificate means self-signed.
func authority(c clock.Clock, subject pkix.Name, depth int, life time.Duration, key crypto.Signer, parent pair) ([]byte, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	now := c.Now()
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
