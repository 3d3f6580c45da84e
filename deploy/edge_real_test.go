package deploy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// TestEdges runs each program that is installed, with its file, in front of three servers.
func TestEdges(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T, *edge) *exec.Cmd{"nginx": startNginx, "caddy": startCaddy} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(name); err != nil {
				t.Skipf("%s is not installed: scripts/install-deps.sh --edge", name)
			}
			e := newEdge(t)
			for attempt := range 3 { // another program may listen on a free port before the edge does
				if e.newAddress(t); e.run(t, start(t, e)) {
					break
				}
				if attempt == 2 {
					t.Fatal("the edge does not start")
				}
			}
			e.paths(t)
			e.streams(t)
			e.websocket(t)
		})
	}
}

// edge is a program in front of an API, a terminal server and an S3 endpoint.
type edge struct {
	dir, address           string
	api, terminal, storage *httptest.Server
	client                 *http.Client
	read                   chan struct{} // the server has read the first byte of an upload, or the client the first event
}

func newEdge(t *testing.T) *edge {
	t.Helper()
	e := &edge{dir: t.TempDir(), read: make(chan struct{})}
	for role, to := range map[string]**httptest.Server{"api": &e.api, "terminal": &e.terminal, "storage": &e.storage} {
		*to = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { e.serve(w, r, role) }))
		t.Cleanup((*to).Close)
	}
	roots := x509.NewCertPool()
	roots.AddCert(e.certificate(t))
	e.client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, e.address)
		},
	}}
	t.Cleanup(e.client.CloseIdleConnections)
	return e
}

// newAddress finds a free port: the programs open it by themselves.
func (e *edge) newAddress(t *testing.T) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e.address = l.Addr().String()
	_ = l.Close()
}

// serve reports what has arrived at a role.
func (e *edge) serve(w http.ResponseWriter, r *http.Request, role string) {
	switch {
	case r.Header.Get("Upgrade") != "":
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
		if err != nil {
			return
		}
		defer c.CloseNow()
		kind, text, err := c.Read(r.Context())
		if err == nil {
			_ = c.Write(r.Context(), kind, append([]byte(role+" "), text...))
		}
		_ = c.Close(websocket.StatusNormalClosure, "")
	case r.Method == http.MethodPut:
		first := make([]byte, 1)
		_, _ = io.ReadFull(r.Body, first)
		e.read <- struct{}{}
		rest, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%s %d", role, rest+1)
	case r.URL.Path == "/api/v1/events":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		<-e.read
		fmt.Fprint(w, "data: 2\n\n")
	default:
		fmt.Fprintf(w, "%s %s %s %s", role, r.Host, r.Header.Get("X-Forwarded-For"), r.Header.Get("X-Forwarded-Proto"))
	}
}

// certificate writes a certificate for both names, and its key.
func (e *edge) certificate(t *testing.T) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "edge"}, DNSNames: []string{"gpuaas.example", "s3.gpuaas.example", "*.s3.gpuaas.example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"edge.crt": {Type: "CERTIFICATE", Bytes: der}, "edge.key": {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(e.dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// config writes the file of an edge with the addresses of the test.
func (e *edge) config(t *testing.T, file string, pairs ...string) string {
	t.Helper()
	at := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	text := strings.NewReplacer(append(pairs,
		"10.0.0.11:8080", at(e.api), "10.0.0.12:8080", at(e.api), "10.0.0.21:8081", at(e.terminal), "10.0.0.22:8081", at(e.terminal), "10.0.0.11:8480", at(e.storage), "10.0.0.12:8480", at(e.storage),
		"/etc/gpuaas/edge.", e.dir+"/edge.", "/etc/gpuaas/s3.", e.dir+"/edge.")...).Replace(read(t, "edge/"+file))
	path := filepath.Join(e.dir, file)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func startNginx(t *testing.T, e *edge) *exec.Cmd {
	t.Helper()
	path := e.config(t, "nginx.conf", "listen 443 ssl;", "listen "+e.address+" ssl;", "http {", "http {\n  access_log off;\n  client_body_temp_path "+e.dir+"/bodies;")
	return exec.CommandContext(t.Context(), "nginx", "-p", e.dir, "-c", path, "-e", "stderr", "-g", "daemon off; master_process off; pid "+e.dir+"/pid;")
}

func startCaddy(t *testing.T, e *edge) *exec.Cmd {
	t.Helper()
	_, port, err := net.SplitHostPort(e.address)
	if err != nil {
		t.Fatal(err)
	}
	path := e.config(t, "Caddyfile", "{\n\tservers", "{\n\tadmin off\n\tauto_https disable_redirects\n\thttps_port "+port+"\n\tdefault_bind 127.0.0.1\n\tservers")
	cmd := exec.CommandContext(t.Context(), "caddy", "run", "--adapter", "caddyfile", "--config", path)
	cmd.Env = []string{"HOME=" + e.dir, "PATH=" + os.Getenv("PATH")}
	return cmd
}

// run starts the program, and waits until it listens. It returns false if the program has ended.
func (e *edge) run(t *testing.T, cmd *exec.Cmd) bool {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", e.address); err == nil {
			_ = c.Close()
			return true
		}
		select {
		case <-ended:
			t.Logf("the edge has ended: %s", out.String())
			return false
		default:
		}
		if time.Now().After(end) {
			t.Fatal("the edge does not listen after 30 s")
		}
	}
}

// get sends a request to a name.
func (e *edge) get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := e.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// paths: the servers learn the name that clients use and their addresses, and nothing else than the listed paths arrives.
func (e *edge) paths(t *testing.T) {
	t.Helper()
	for url, want := range map[string]string{
		"https://gpuaas.example/api/v1/me": "api gpuaas.example 127.0.0.1 https", "https://gpuaas.example/portal/": "api gpuaas.example 127.0.0.1 https",
		"https://gpuaas.example/ws/terminal/1": "terminal gpuaas.example 127.0.0.1 https", "https://s3.gpuaas.example/default/x": "storage s3.gpuaas.example 127.0.0.1 https",
		"https://default.s3.gpuaas.example/x": "storage default.s3.gpuaas.example 127.0.0.1 https",
	} {
		if status, body := e.get(t, url); status != http.StatusOK || body != want {
			t.Errorf("%s: %d %q, want %q", url, status, body, want)
		}
	}
	for path, public := range pages {
		if public {
			continue
		}
		if status, body := e.get(t, "https://gpuaas.example"+path); status != http.StatusNotFound || strings.Contains(body, "gpuaas.example") {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
}

// streams: the server reads an upload, and the client a stream, before it has ended.
func (e *edge) streams(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	from, to := io.Pipe()
	go func() {
		_, _ = to.Write(bytes.Repeat([]byte("x"), 64<<10))
		select {
		case <-e.read:
			_, _ = to.Write([]byte("y"))
		case <-ctx.Done():
		}
		_ = to.Close()
	}()
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://s3.gpuaas.example/default/large", from)
	if err != nil {
		t.Fatal(err)
	}
	response, err := e.client.Do(r)
	if err != nil {
		t.Fatalf("the edge stores uploads: %v", err)
	}
	body, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if string(body) != "storage 65537" {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	if r, err = http.NewRequestWithContext(ctx, http.MethodGet, "https://gpuaas.example/api/v1/events", http.NoBody); err != nil {
		t.Fatal(err)
	}
	if response, err = e.client.Do(r); err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	if !lines.Scan() || lines.Text() != "data: 1" {
		t.Fatalf("the edge stores streams: %q %v", lines.Text(), lines.Err())
	}
	e.read <- struct{}{}
	for lines.Scan() && lines.Text() != "data: 2" {
	}
	if lines.Text() != "data: 2" {
		t.Error("the stream broke off")
	}
}

// websocket: a terminal and a stream of events arrive at their roles.
func (e *edge) websocket(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for path, role := range map[string]string{"/ws/terminal/1": "terminal", "/ws/ssh/1": "terminal", "/ws/events": "api"} {
		c, response, err := websocket.Dial(ctx, "wss://gpuaas.example"+path, &websocket.DialOptions{HTTPClient: e.client})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if response.Body != nil {
			_ = response.Body.Close()
		}
		if err := c.Write(ctx, websocket.MessageText, []byte("hello")); err != nil {
			t.Error(err)
		}
		if _, text, err := c.Read(ctx); err != nil || string(text) != role+" hello" {
			t.Errorf("%s: %q %v", path, text, err)
		}
		_ = c.CloseNow()
	}
}
