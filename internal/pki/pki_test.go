package pki_test

import (
	"bytes"
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
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/pki"
)

var holder = pki.Name{Domain: "gpuaas.test", Kind: "node", ID: "0199"}

func open(t *testing.T) *pki.Local {
	t.Helper()
	ca, err := pki.Open(t.TempDir(), clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func request(t *testing.T, key crypto.Signer, shape x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &shape, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestIssueTakesOnlyTheKeyFromTheRequest(t *testing.T) {
	t.Parallel()

	ca, key := open(t), newKey(t)
	evil := x509.CertificateRequest{
		Subject:     pkix.Name{CommonName: "root"},
		DNSNames:    []string{"control-plane"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		URIs:        []*url.URL{{Scheme: "spiffe", Host: "gpuaas.test", Path: "/node/another"}},
	}
	made, err := ca.Issue(t.Context(), request(t, key, evil), holder.URI(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(made.Chain)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	name, err := pki.NameOf(leaf)
	switch {
	case err != nil || name != holder:
		t.Errorf("named %v, %v", name, err)
	case len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.EmailAddresses) > 0 || leaf.Subject.CommonName != "" || leaf.IsCA:
		t.Errorf("took more than the key: %v %v %v", leaf.DNSNames, leaf.IPAddresses, leaf.Subject)
	case !key.PublicKey.Equal(leaf.PublicKey):
		t.Error("certified another key")
	case len(leaf.ExtKeyUsage) != 1 || leaf.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth:
		t.Errorf("usage %v", leaf.ExtKeyUsage)
	case made.Serial != pki.SerialOf(leaf) || !made.NotAfter.Equal(leaf.NotAfter):
		t.Errorf("returned %s until %s, issued %s until %s", made.Serial, made.NotAfter, pki.SerialOf(leaf), leaf.NotAfter)
	}
}

func TestIssueRejects(t *testing.T) {
	t.Parallel()

	ca := open(t)
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := request(t, newKey(t), x509.CertificateRequest{})
	// The key of one request under the signature of another.
	block, _ := pem.Decode(good)
	forged := bytes.Clone(block.Bytes)
	forged[len(forged)-3] ^= 1

	for rule, c := range map[string]struct {
		csr []byte
		ttl time.Duration
	}{
		"RSA":             {request(t, weak, x509.CertificateRequest{}), time.Hour},
		"P-384":           {request(t, curve, x509.CertificateRequest{}), time.Hour},
		"forged":          {pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: forged}), time.Hour},
		"garbage":         {[]byte("hello"), time.Hour},
		"two requests":    {append(bytes.Clone(good), good...), time.Hour},
		"too long":        {good, pki.MaxTTL + time.Second},
		"no time":         {good, 0},
		"private key PEM": {[]byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), time.Hour},
	} {
		if _, err := ca.Issue(t.Context(), c.csr, holder.URI(), c.ttl); err == nil {
			t.Errorf("%s: issued", rule)
		}
	}
	if _, err := ca.Issue(t.Context(), request(t, edwards, x509.CertificateRequest{}), holder.URI(), time.Hour); err != nil {
		t.Errorf("Ed25519: %v", err)
	}
}

func TestNameIsStrict(t *testing.T) {
	t.Parallel()

	if got, err := pki.ParseName(holder.URI()); err != nil || got != holder {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{
		"https://gpuaas.test/node/0199", "spiffe://gpuaas.test/node", "spiffe://gpuaas.test/node/0199/x", "spiffe:///node/0199",
		"spiffe://gpuaas.test:1/node/0199", "spiffe://u@gpuaas.test/node/0199", "spiffe://gpuaas.test/node/0199?x=1",
		"spiffe://gpuaas.test/node/0199#x", "spiffe://gpuaas.test//0199", "spiffe://gpuaas.test/node/01%2f99",
	} {
		u, err := url.Parse(bad)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := pki.ParseName(u); err == nil {
			t.Errorf("%s was read as %v", bad, n)
		}
	}
}

// The second process uses the keys of the first one, whichever starts first.
func TestOpenTogether(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	bundles, kids := make([][]byte, 8), make([]string, 8)
	var all sync.WaitGroup
	for i := range bundles {
		all.Go(func() {
			ca, err := pki.Open(dir, clock.Clock{})
			if err != nil {
				t.Error(err)
				return
			}
			ring, err := pki.OpenKeyring(dir)
			if err != nil {
				t.Error(err)
				return
			}
			bundles[i], kids[i] = ca.Bundle(), ring.Active()+string(ring.Public()[ring.Active()])
		})
	}
	all.Wait()
	for i := range bundles {
		if !bytes.Equal(bundles[i], bundles[0]) || kids[i] != kids[0] {
			t.Errorf("process %d has other keys", i)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, info.Mode(), err)
		}
	}
}

func TestKeyringRollsOver(t *testing.T) {
	t.Parallel()

	ring, err := pki.OpenKeyring(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	old := ring.Active()
	before, err := ring.Sign(old, []byte("order"))
	if err != nil {
		t.Fatal(err)
	}
	kid, err := ring.Rotate(t.Context())
	if err != nil || kid == old || ring.Active() != kid {
		t.Fatalf("rotated %q to %q, active %q, %v", old, kid, ring.Active(), err)
	}
	public := ring.Public()
	if len(public) != 2 || !ed25519.Verify(public[old], []byte("order"), before) {
		t.Errorf("old key no longer trusted: %d keys", len(public))
	}
	if err := ring.Retire(t.Context(), kid); err == nil {
		t.Error("retired the key that signs")
	}
	if err := ring.Retire(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if _, err := ring.Sign(old, nil); err == nil || len(ring.Public()) != 1 {
		t.Error("a retired key still signs")
	}
}

// One handshake per way to trust the server, and the ways that must fail.
func TestHandshakes(t *testing.T) {
	t.Parallel()

	ca, other := open(t), open(t)
	server, err := ca.Server(t.Context(), []string{"127.0.0.1", "localhost"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", pki.ServerTLS(func() (*tls.Certificate, error) { return &server, nil }, ca.Pool, clock.Clock{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // one byte confirms the handshake on this side, too
				_, _ = c.Write([]byte{1})
				c.Close()
			}()
		}
	}()

	dial := func(config *tls.Config) error {
		c, err := tls.Dial("tcp", l.Addr().String(), config)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = io.ReadFull(c, make([]byte, 1))
		return err
	}
	identity := func(from *pki.Local, c clock.Clock) func() (*tls.Certificate, error) {
		key := newKey(t)
		from.Clock = c
		made, err := from.Issue(t.Context(), request(t, key, x509.CertificateRequest{}), holder.URI(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		cert := tls.Certificate{PrivateKey: key}
		for b, rest := pem.Decode(made.Chain); b != nil; b, rest = pem.Decode(rest) {
			cert.Certificate = append(cert.Certificate, b.Bytes)
		}
		return func() (*tls.Certificate, error) { return &cert, nil }
	}
	trusting := func(bundle []byte, certificate func() (*tls.Certificate, error)) *tls.Config {
		config, err := pki.ClientTLS(bundle, certificate, clock.Clock{})
		if err != nil {
			t.Fatal(err)
		}
		return config
	}
	old := trusting(ca.Bundle(), nil)
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	yesterday := clock.At(func() time.Time { return clock.Clock{}.Now().Add(-25 * time.Hour) })

	for rule, c := range map[string]struct {
		config *tls.Config
		ok     bool
	}{
		"bundle":                 {trusting(ca.Bundle(), nil), true},
		"bundle and certificate": {trusting(ca.Bundle(), identity(ca, clock.Clock{})), true},
		"pin":                    {pki.PinnedTLS(pki.BundleFingerprints(ca.Bundle())[0], clock.Clock{}), true},
		"other bundle":           {trusting(other.Bundle(), nil), false},
		"pins of two roots":      {pki.PinnedTLS(pki.BundleFingerprints(other.Bundle())[0]+","+pki.BundleFingerprints(ca.Bundle())[0], clock.Clock{}), true},
		"no pin":                 {pki.PinnedTLS("", clock.Clock{}), false},
		"other pin":              {pki.PinnedTLS(pki.BundleFingerprints(other.Bundle())[0], clock.Clock{}), false},
		"pin of the leaf":        {pki.PinnedTLS(pki.Fingerprint(server.Certificate[0]), clock.Clock{}), false},
		"foreign certificate":    {trusting(ca.Bundle(), identity(other, clock.Clock{})), false},
		"expired certificate":    {trusting(ca.Bundle(), identity(ca, yesterday)), false},
		"TLS 1.2":                {old, false},
	} {
		if err := dial(c.config); (err == nil) != c.ok {
			t.Errorf("%s: %v", rule, err)
		}
	}
}
