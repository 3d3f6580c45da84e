package pki_test

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pki"
)

// replicas are two servers on one state directory, and their clock.
func replicas(t *testing.T) (a, b *pki.Local, dir string, ahead *atomic.Int64) {
	t.Helper()
	dir, ahead = t.TempDir(), &atomic.Int64{}
	c := clock.At(func() time.Time { return clock.Clock{}.Now().Add(time.Duration(ahead.Load())) })
	var err error
	if a, err = pki.Open(dir, c); err != nil {
		t.Fatal(err)
	}
	if b, err = pki.Open(dir, c); err != nil {
		t.Fatal(err)
	}
	return a, b, dir, ahead
}

func issued(t *testing.T, ca *pki.Local) pki.Certificate {
	t.Helper()
	made, err := ca.Issue(t.Context(), request(t, newKey(t), x509.CertificateRequest{}), holder.URI(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// trusted reports whether a node's certificate leads to a root of the pool.
func trusted(t *testing.T, ca *pki.Local, made pki.Certificate) bool {
	t.Helper()
	chain, err := pki.Certificates(made.Chain)
	if err != nil {
		t.Fatal(err)
	}
	between := x509.NewCertPool()
	between.AddCert(chain[1])
	_, err = chain[0].Verify(x509.VerifyOptions{Roots: ca.Pool(), Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil
}

// Both generations are trusted between begin and finish, and no certificate is issued by one that
// another server has not read yet.
func TestRollOverOverlaps(t *testing.T) {
	t.Parallel()
	a, b, dir, ahead := replicas(t)
	old := issued(t, a)
	pool := b.Pool()
	if err := a.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if made := issued(t, a); made.Issuer != old.Issuer {
		t.Error("certified by an authority that the other server has not read")
	}
	ahead.Add(int64(5 * time.Second))
	if b.Pool() != pool {
		t.Error("the pool changed before the next read")
	}
	if err := b.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := issued(t, b)
	if next.Issuer == old.Issuer || !trusted(t, a, next) || !trusted(t, b, next) || !trusted(t, b, old) || b.Pool() == pool {
		t.Error("the two do not overlap")
	}
	door, err := b.Server(t.Context(), []string{"localhost"}, time.Hour)
	if err != nil || pki.IssuerOf(door.Leaf) != old.Issuer {
		t.Errorf("the node API has a certificate that old nodes do not trust: %v", err)
	}
	if err := b.Begin(t.Context()); errs.CodeOf(err) != errs.Conflict {
		t.Errorf("a second roll-over inside the first: %v", err)
	}
	if err := b.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if trusted(t, a, old) || !trusted(t, a, next) || len(a.Generations()) != 1 {
		t.Error("the old authority is not forgotten")
	}
	if again, err := pki.Open(dir, clock.Clock{}); err != nil || string(again.Bundle()) != string(a.Bundle()) {
		t.Errorf("a server that starts now trusts other roots: %v", err)
	}
}

// A stolen authority cannot certify another issuing key: the key of the root is not stored.
func TestTheRootKeyIsNotStored(t *testing.T) {
	t.Parallel()
	a, _, dir, _ := replicas(t)
	if err := a.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, g := range a.Generations() {
		text, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("authority-%04d.pem", i+1)))
		if err != nil {
			t.Fatal(err)
		}
		block, rest := pem.Decode(text)
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil || strings.Contains(string(rest), "PRIVATE KEY") {
			t.Fatalf("generation %d: %v\n%s", g.Number, err, rest)
		}
		if signer, ok := key.(*ecdsa.PrivateKey); !ok || signer.PublicKey.Equal(g.Root.PublicKey) || !signer.PublicKey.Equal(g.Issuing.PublicKey) {
			t.Errorf("generation %d stores another key than the issuing one", g.Number)
		}
	}
}

// What is known goes on signing when the folder cannot be read.
func TestAnOpenKeyringIsNeverEmpty(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ring, err := pki.OpenAnnounced(dir)
	if err != nil {
		t.Fatal(err)
	}
	first := ring.Active()
	if _, err := ring.Rotate(t.Context()); err != nil || ring.Active() != first {
		t.Errorf("a key signs that no verifier has read: %v", err)
	}
	for _, kid := range ring.Kids() {
		if err := os.Remove(filepath.Join(dir, "order-"+kid+".pem")); err != nil {
			t.Fatal(err)
		}
	}
	if err := ring.Refresh(t.Context()); err != nil || ring.Active() != first {
		t.Errorf("the folder is gone, and with it what was known: %v", err)
	}
}

// A certificate that outlives its issuer would fail at an unexpected time.
func TestNothingOutlivesItsAuthority(t *testing.T) {
	t.Parallel()
	a, _, _, ahead := replicas(t)
	ahead.Add(int64(365*24*time.Hour - 10*time.Minute))
	end := a.Generations()[0].Issuing.NotAfter
	if made := issued(t, a); made.NotAfter.After(end) {
		t.Errorf("lives until %s, its authority until %s", made.NotAfter, end)
	}
}
