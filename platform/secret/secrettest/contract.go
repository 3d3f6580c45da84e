// Package secrettest tests drivers of the ports of platform/secret against the guarantees that other
// packages depend on. Every driver passes the same table: files always, Vault and step-ca where a real
// one was started.
package secrettest

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/protocol"
)

// Domain is the trust domain that the authority under test may certify.
const Domain = "gpuaas.test"

// Request makes a PEM signing request for key.
func Request(t testing.TB, key crypto.Signer, shape x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &shape, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// Key makes a P-256 key.
func Key(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Authority tests the guarantees that the node API depends on.
func Authority(t *testing.T, ca secret.Authority) {
	t.Helper()
	name := pki.Name{Domain: Domain, Kind: "node", ID: ids.New[ids.Node]().String()}
	t.Run("a node connects to the node API", func(t *testing.T) { speaks(t, ca, name) })
	t.Run("the certificate is for the key, the name and the time", func(t *testing.T) { certifies(t, ca, name) })
	t.Run("a bad request is rejected", func(t *testing.T) { rejects(t, ca, name) })
	t.Run("a serial can be revoked", func(t *testing.T) {
		made, err := ca.Issue(t.Context(), Request(t, Key(t), x509.CertificateRequest{}), name.URI(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if err := ca.Revoke(t.Context(), made.Serial); err != nil {
			t.Error(err)
		}
	})
	t.Run("the trust state is stable", func(t *testing.T) {
		bundle, pool := ca.Bundle(), ca.Pool()
		if err := ca.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(bundle, ca.Bundle()) || pool != ca.Pool() || len(pki.BundleFingerprints(bundle)) == 0 {
			t.Error("it changed though nothing was rolled over")
		}
	})
}

func speaks(t *testing.T, ca secret.Authority, name pki.Name) {
	t.Helper()
	server, err := ca.Server(t.Context(), []string{"127.0.0.1", "localhost"}, 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", pki.ServerTLS(func() (*tls.Certificate, error) { return &server, nil }, ca.Pool, clock.Clock{}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(t.Context(), c)
		}
	}()
	key := Key(t)
	made, err := ca.Issue(t.Context(), Request(t, key, x509.CertificateRequest{}), name.URI(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cert := tls.Certificate{PrivateKey: key}
	for b, rest := pem.Decode(made.Chain); b != nil; b, rest = pem.Decode(rest) {
		cert.Certificate = append(cert.Certificate, b.Bytes)
	}
	known, err := pki.ClientTLS(ca.Bundle(), func() (*tls.Certificate, error) { return &cert, nil }, clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := dial(t.Context(), l, known); err != nil || got != name.URI().String() {
		t.Errorf("with a certificate: %q, %v", got, err)
	}
	pins := strings.Join(pki.BundleFingerprints(ca.Bundle()), ",")
	if got, err := dial(t.Context(), l, pki.PinnedTLS(pins, clock.Clock{})); err != nil || got != "nobody" {
		t.Errorf("with the pins %s: %q, %v", pins, got, err)
	}
}

// serve responds with the name of the caller's certificate.
func serve(ctx context.Context, c net.Conn) {
	defer func() { _ = c.Close() }()
	s, ok := c.(*tls.Conn)
	if !ok || s.HandshakeContext(ctx) != nil {
		return
	}
	said := "nobody"
	if chains := s.ConnectionState().VerifiedChains; len(chains) > 0 {
		if name, err := pki.NameOf(chains[0][0]); err == nil {
			said = name.URI().String()
		}
	}
	_, _ = io.WriteString(c, said)
}

func dial(ctx context.Context, l net.Listener, config *tls.Config) (string, error) {
	c, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	said, err := io.ReadAll(c)
	return string(said), err
}

func certifies(t *testing.T, ca secret.Authority, name pki.Name) {
	t.Helper()
	key := Key(t)
	began := clock.Clock{}.Now()
	made, err := ca.Issue(t.Context(), Request(t, key, x509.CertificateRequest{}), name.URI(), 2*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := pki.Certificates(made.Chain)
	if err != nil {
		t.Fatal(err)
	}
	leaf := chain[0]
	got, err := pki.NameOf(leaf)
	life := leaf.NotAfter.Sub(began)
	switch {
	case err != nil || got != name:
		t.Errorf("named %v, %v", got, err)
	case !key.PublicKey.Equal(leaf.PublicKey):
		t.Error("certified another key")
	case life < 110*time.Minute || life > 130*time.Minute:
		t.Errorf("lives %s", life)
	case made.Serial != pki.SerialOf(leaf) || made.Issuer == "" || made.Issuer != pki.IssuerOf(leaf) || !made.NotAfter.Equal(leaf.NotAfter):
		t.Errorf("reported %+v", made)
	case pki.SelfSigned(chain[len(chain)-1]):
		t.Error("the chain carries the root")
	}
	again, err := ca.Issue(t.Context(), Request(t, key, x509.CertificateRequest{}), name.URI(), time.Hour)
	if err != nil || again.Serial == made.Serial {
		t.Errorf("the next has serial %s, %v", again.Serial, err)
	}
}

func rejects(t *testing.T, ca secret.Authority, name pki.Name) {
	t.Helper()
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	good := Request(t, Key(t), x509.CertificateRequest{})
	block, _ := pem.Decode(good)
	forged := bytes.Clone(block.Bytes)
	forged[len(forged)-3] ^= 1
	for rule, c := range map[string]struct {
		csr []byte
		ttl time.Duration
	}{
		"RSA":      {Request(t, weak, x509.CertificateRequest{}), time.Hour},
		"forged":   {pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: forged}), time.Hour},
		"garbage":  {[]byte("hello"), time.Hour},
		"too long": {good, pki.MaxTTL + time.Hour},
		"no time":  {good, 0},
	} {
		if _, err := ca.Issue(t.Context(), c.csr, name.URI(), c.ttl); err == nil {
			t.Errorf("%s: issued", rule)
		}
	}
	// An authority may reject the additional fields of a request or leave them out. It must not certify
	// them.
	greedy := x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "root"}, DNSNames: []string{"control-plane"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		URIs: []*url.URL{pki.Name{Domain: Domain, Kind: "node", ID: "another"}.URI()},
	}
	made, err := ca.Issue(t.Context(), Request(t, Key(t), greedy), name.URI(), time.Hour)
	if err != nil {
		return
	}
	chain, err := pki.Certificates(made.Chain)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := pki.NameOf(chain[0]); err != nil || got != name || len(chain[0].DNSNames)+len(chain[0].IPAddresses) > 0 {
		t.Errorf("certified %v %v %v, %v", got, chain[0].DNSNames, chain[0].IPAddresses, err)
	}
}

// Signer tests the guarantees that mailboxes and nodes depend on.
func Signer(t *testing.T, s secret.Signer) {
	t.Helper()
	body := []byte("order")
	verify := func(kid string) {
		t.Helper()
		signature, err := s.Sign(t.Context(), kid, body)
		if err != nil || !ed25519.Verify(s.Public()[kid], body, signature) {
			t.Errorf("key %s: %v", kid, err)
		}
	}
	first := s.Active()
	verify(first)
	if _, err := s.Sign(t.Context(), "no-such-9999", body); err == nil {
		t.Error("an unknown key signs")
	}
	r, ok := s.(secret.Rotator)
	if !ok {
		t.Fatal("it cannot be rolled over")
	}
	sequence := secret.Sequence(s.Public())
	rises := func(step string) {
		t.Helper()
		now := secret.Sequence(s.Public())
		if now <= sequence {
			t.Errorf("after %s the sequence is %d, it was %d", step, now, sequence)
		}
		sequence = now
	}
	for range 2 {
		old := s.Active()
		if err := r.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		rises("begin")
		if s.Active() != old || len(s.Public()) != 2 {
			t.Errorf("%s signs, of %d, before anybody has heard of the new key", s.Active(), len(s.Public()))
		}
		for kid := range s.Public() {
			verify(kid)
		}
		if err := r.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		rises("finish")
		if s.Active() == old || len(s.Public()) != 1 {
			t.Errorf("%s signs, of %d, after the end of %s", s.Active(), len(s.Public()), old)
		}
		verify(s.Active())
		if _, err := s.Sign(t.Context(), old, body); err == nil {
			t.Error("the old key still signs")
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Sign(gone, s.Active(), body); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("for a caller who is gone: %v", err)
	}
}

// Trusted signs the present keys of three rings as the published sets that nodes trust.
type Trusted struct {
	Tasks, Statements, Relays secret.LocalSigner
	ReleaseSets               []protocol.Signed // already signed

	mu      sync.Mutex
	current protocol.KeySet
	sets    []protocol.Signed
}

// Control returns the present set, and all sets.
func (o *Trusted) Control() (protocol.KeySet, []protocol.Signed) {
	o.mu.Lock()
	defer o.mu.Unlock()
	tasks, statements, relays := o.Tasks.Public(), o.Statements.Public(), o.Relays.Public()
	if secret.Stamp(nil, tasks, statements, relays) == secret.Stamp(nil, o.current.TaskKeys, o.current.StatementKeys, o.current.RelayKeys) {
		return o.current, o.sets
	}
	o.current = protocol.KeySet{
		V: protocol.Version, Kid: o.Tasks.Active(), Sequence: o.current.Sequence + 1, TaskKeys: tasks, StatementKeys: statements, RelayKeys: relays, IssuedAt: clock.Clock{}.Now(),
	}
	body, err := o.current.Canonical()
	if err != nil {
		panic(err) // a map of bytes always encodes
	}
	signature, err := o.Tasks.Sign(context.Background(), o.current.Kid, body) //nolint:forbidigo // keys of a test
	if err != nil {
		panic(err) // the active key of an open ring
	}
	o.sets = append(slices.Clip(o.sets), protocol.Signed{Kid: o.current.Kid, Body: body, Signature: signature})
	return o.current, o.sets
}

// Releases returns the sets of release keys.
func (o *Trusted) Releases() (set protocol.ReleaseKeySet, sets []protocol.Signed) {
	for _, signed := range o.ReleaseSets {
		set, _ = protocol.FirstReleaseKeySet(signed)
	}
	return set, o.ReleaseSets
}

// NewTrusted returns sets of a ring of task keys, with statement keys in another folder, and relay keys below it.
func NewTrusted(tasks secret.LocalSigner, dir string) (*Trusted, error) {
	statements, err := secret.OpenSigner(dir)
	if err != nil {
		return nil, err
	}
	relays, err := secret.OpenSigner(filepath.Join(dir, "relay"))
	return &Trusted{Tasks: tasks, Statements: statements, Relays: relays}, err
}

// Wrapper tests a key-encryption key: what it seals opens at its place and nowhere else, also after a rotation.
func Wrapper(t *testing.T, w secret.Wrapper) {
	t.Helper()
	at := envelope.Place{Table: "signing_keys", Column: "sealed", Row: "tasks/1"}
	seal := func() []byte {
		t.Helper()
		sealed, err := w.Seal(t.Context(), []byte("a private key"), at)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(sealed, envelope.Header(w.Active())) || bytes.Contains(sealed, []byte("private")) {
			t.Errorf("no envelope of %s: %x", w.Active(), sealed)
		}
		return sealed
	}
	opens := func(sealed []byte) bool {
		t.Helper()
		text, err := w.Open(t.Context(), sealed, at)
		return err == nil && string(text) == "a private key"
	}
	first, old := seal(), w.Active()
	if !opens(first) {
		t.Fatal("it does not open what it has sealed")
	}
	bent := bytes.Clone(first)
	bent[len(bent)-3] ^= 1
	for what, try := range map[string]struct {
		sealed []byte
		at     envelope.Place
	}{
		"another row":    {first, envelope.Place{Table: at.Table, Column: at.Column, Row: "tasks/2"}},
		"another table":  {first, envelope.Place{Table: "users", Column: at.Column, Row: at.Row}},
		"a bit turned":   {bent, at},
		"another key":    {append(envelope.Header("another-0001"), first[len(envelope.Header(old)):]...), at},
		"another format": {first[1:], at},
		"nothing":        {nil, at},
	} {
		if text, err := w.Open(t.Context(), try.sealed, try.at); errs.CodeOf(err) != errs.DecryptionFailed || text != nil {
			t.Errorf("%s: %q, %v", what, text, err)
		}
	}
	if err := w.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := seal()
	if w.Active() == old || !opens(first) || !opens(second) {
		t.Errorf("after begin: %s seals, then %s", old, w.Active())
	}
	if err := w.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Open(t.Context(), first, at); errs.CodeOf(err) != errs.DecryptionFailed {
		t.Errorf("the ended key opens: %v", err)
	}
	if !opens(second) || w.Refresh(t.Context()) != nil {
		t.Error("the newest key does not open")
	}
}
