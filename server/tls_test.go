package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// issued is a certificate in files, signed by itself.
type issued struct {
	TLS

	pool *x509.CertPool
}

// newIssued writes a new certificate and its key.
func newIssued(t *testing.T, name string) issued {
	t.Helper()
	certificate, key, pool := selfSigned(t, name)
	dir := t.TempDir()
	i := issued{TLS: TLS{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}, pool: pool}
	i.write(t, certificate, key)
	return i
}

func (i issued) write(t *testing.T, certificate, key []byte) {
	t.Helper()
	for path, text := range map[string][]byte{i.Cert: certificate, i.Key: key} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// serveOK serves "ok" over TLS with these files.
func serveOK(t *testing.T, files TLS) (*tlsListener, string) {
	t.Helper()
	plain, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := newTLSListener(plain, files)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) })}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return l, "https://" + plain.Addr().String()
}

// get requests a page over a new connection.
func get(ctx context.Context, url string, cfg *tls.Config) (string, error) {
	client := http.Client{Transport: &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: true, DisableKeepAlives: true}, Timeout: 10 * time.Second}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	reply, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = reply.Body.Close() }()
	text, err := io.ReadAll(reply.Body)
	return string(text), err
}

func TestTLSFilesAreReloaded(t *testing.T) {
	t.Parallel()
	first, second := newIssued(t, "first"), newIssued(t, "second")
	l, url := serveOK(t, first.TLS)
	trusts := func(i issued) *tls.Config { return &tls.Config{RootCAs: i.pool, MinVersion: tls.VersionTLS12} }
	if text, err := get(t.Context(), url, trusts(first)); err != nil || text != "HTTP/2.0" {
		t.Fatalf("%q, %v", text, err)
	}

	if err := os.WriteFile(first.Cert, []byte("half of a certifi"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.reload(); errs.CodeOf(err) != errs.ValidationError {
		t.Errorf("a malformed file: %v", err)
	}
	if _, err := get(t.Context(), url, trusts(first)); err != nil {
		t.Errorf("after a malformed file: %v", err)
	}

	for from, to := range map[string]string{second.Cert: first.Cert, second.Key: first.Key} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.reload(); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t.Context(), url, trusts(second)); err != nil {
		t.Errorf("after the renewal: %v", err)
	}
	if _, err := get(t.Context(), url, trusts(first)); err == nil {
		t.Error("the old certificate is still in use")
	}
}

func TestTLSClientsNeedACertificate(t *testing.T) {
	t.Parallel()
	files, client, stranger := newIssued(t, "server"), newIssued(t, "client"), newIssued(t, "stranger")
	files.ClientCA = client.Cert
	_, url := serveOK(t, files.TLS)
	for name, c := range map[string]struct {
		with []tls.Certificate
		ok   bool
	}{
		"none":            {nil, false},
		"of another CA":   {[]tls.Certificate{pair(t, stranger.TLS)}, false},
		"of a trusted CA": {[]tls.Certificate{pair(t, client.TLS)}, true},
	} {
		_, err := get(t.Context(), url, &tls.Config{RootCAs: files.pool, Certificates: c.with, MinVersion: tls.VersionTLS12})
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTLSConfigurationIsChecked(t *testing.T) {
	t.Parallel()
	whole := newIssued(t, "server").TLS
	noCA := whole
	noCA.ClientCA = whole.Key
	if err := (TLS{}).check(); err != nil {
		t.Error(err)
	}
	for _, c := range []TLS{{Cert: "c"}, {Key: "k"}, {ClientCA: "a"}} {
		if err := c.check(); errs.CodeOf(err) != errs.ValidationError {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, c := range []TLS{{Cert: whole.Key, Key: whole.Cert}, {Cert: "absent", Key: "absent"}, noCA} {
		if _, err := newTLSListener(nil, c); errs.CodeOf(err) != errs.ValidationError {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A web page whose name resolves to 127.0.0.1 cannot read the metrics, which name nodes.
func TestMetricsCheckTheHost(t *testing.T) {
	t.Parallel()
	page := onlyFor([]string{"metrics.example"}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	for host, want := range map[string]int{
		"127.0.0.1:9090": 200, "[::1]:9090": 200, "localhost:9090": 200, "metrics.example": 200, "METRICS.example:9090": 200,
		"evil.example": 421, "127.0.0.1.evil.example:9090": 421, "": 421, "localhost.evil.example": 421,
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.Host = host
		page.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%q: %d, want %d", host, w.Code, want)
		}
	}
}

func pair(t *testing.T, files TLS) tls.Certificate {
	t.Helper()
	c, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
