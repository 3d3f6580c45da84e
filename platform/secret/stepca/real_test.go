package stepca_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/secret/secrettest"
	"github.com/gpuaas/gpuaas/platform/secret/stepca"
)

const provisioner = "gpuaas"

// authority makes a root and an issuing key, as step ca init would, and writes
// them where step-ca finds them.
func authority(t *testing.T, dir string) {
	t.Helper()
	write := func(name, kind string, der []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	certify := func(name string, depth int, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		t.Helper()
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(int64(depth) + 1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
			KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true, MaxPathLen: depth, MaxPathLenZero: depth == 0,
		}
		if parent == nil {
			parent, by = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return cert, key
	}
	root, rootKey := certify("root", 1, nil, nil)
	issuing, issuingKey := certify("issuing", 0, root, rootKey)
	private, err := x509.MarshalPKCS8PrivateKey(issuingKey)
	if err != nil {
		t.Fatal(err)
	}
	write("root.pem", "CERTIFICATE", root.Raw)
	write("issuing.pem", "CERTIFICATE", issuing.Raw)
	write("issuing.key", "PRIVATE KEY", private)
}

// start runs the binary that make test-step-ca has built.
func start(t *testing.T) (stepca.Config, *exec.Cmd) {
	t.Helper()
	binary := os.Getenv("GPUAAS_TEST_STEP_CA")
	if binary == "" {
		t.Skip("make test-step-ca runs this against a real step-ca")
	}
	dir := t.TempDir()
	authority(t, dir)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	jwk := jose.JSONWebKey{Key: key, KeyID: "gpuaas-1", Algorithm: string(jose.ES256), Use: "sig"}
	private, err := jwk.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	config, err := json.Marshal(map[string]any{
		"root": filepath.Join(dir, "root.pem"), "crt": filepath.Join(dir, "issuing.pem"), "key": filepath.Join(dir, "issuing.key"),
		"address": at, "dnsNames": []string{"127.0.0.1"}, "logger": map[string]any{"format": "text"},
		"db": map[string]any{"type": "badgerv2", "dataSource": filepath.Join(dir, "db")},
		"authority": map[string]any{"provisioners": []any{map[string]any{
			"type": "JWK", "name": provisioner, "key": jwk.Public(), "claims": map[string]any{"maxTLSCertDuration": "24h", "minTLSCertDuration": "5m"},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "ca.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(binary, file)
	cmd.Env = append(os.Environ(), "HOME="+dir, "STEPPATH="+dir)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	return stepca.Config{URL: "https://" + at, RootFile: filepath.Join(dir, "root.pem"), Provisioner: provisioner, Key: string(private)}, cmd
}

func open(t *testing.T, cfg stepca.Config) *stepca.Authority {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		ca, err := stepca.Open(ctx, cfg, clock.Clock{})
		if err == nil {
			return ca
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func TestRealStepCA(t *testing.T) {
	t.Parallel()
	cfg, process := start(t)
	ca := open(t, cfg)
	t.Run("authority", func(t *testing.T) { secrettest.Authority(t, ca) })
	name := pki.Name{Domain: secrettest.Domain, Kind: "node", ID: "1"}
	csr := secrettest.Request(t, secrettest.Key(t), x509.CertificateRequest{})
	t.Run("a provisioner with another key is rejected", func(t *testing.T) {
		other := jose.JSONWebKey{Key: secrettest.Key(t), KeyID: "gpuaas-1", Algorithm: string(jose.ES256)}
		text, err := other.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		stranger := cfg
		stranger.Key = string(text)
		if _, err := open(t, stranger).Issue(t.Context(), csr, name.URI(), time.Hour); errs.CodeOf(err) != errs.Unavailable {
			t.Errorf("%v", err)
		}
	})
	t.Run("one that is gone is a code, within seconds", func(t *testing.T) {
		if err := process.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := ca.Issue(t.Context(), csr, name.URI(), time.Hour); errs.CodeOf(err) != errs.Unavailable || time.Since(began) > 10*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if len(ca.Bundle()) == 0 {
			t.Error("what was known is forgotten")
		}
	})
}
