package source

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/gpuaas/gpuaas/gitops/source/remote"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/netguard"
)

// forge serves a repository by smart HTTP over TLS, with the real git-http-backend.
type forge struct {
	*httptest.Server
	ca            []byte
	requests      atomic.Int64
	authorization atomic.Value // the last Authorization
}

func (b bundle) forge(wrap func(http.Handler) http.Handler) *forge {
	b.t.Helper()
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		b.t.Fatal(err)
	}
	f := &forge{}
	backend := http.Handler(&cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"), Root: "/",
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(b.path), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	})
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		f.authorization.Store(r.Header.Get("Authorization"))
		r.Header.Del("Authorization")
		backend.ServeHTTP(w, r)
	})
	if wrap == nil {
		wrap = func(h http.Handler) http.Handler { return h }
	}
	f.Server = httptest.NewTLSServer(wrap(counted))
	b.t.Cleanup(f.Close)
	f.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw})
	return f
}

// at is the address of the bundle's repository.
func (f *forge) at(b bundle) string { return f.URL + "/" + filepath.Base(b.path) + "/.git" }

func (b bundle) over(f *forge) Spec {
	return Spec{Location: f.at(b), Auth: remote.Auth{CA: f.ca}, AllowPrivate: true}
}

func TestHTTPS(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fleet()
	b.commit()
	f := b.forge(nil)
	spec := b.over(f)
	spec.Auth.Token = []byte("s3cret")
	s := b.storedIn(t.TempDir(), spec)
	first := snapshot(t, s, "")
	if len(first.Files) != 100 || f.authorization.Load() != "Basic eC1hY2Nlc3MtdG9rZW46czNjcmV0" {
		t.Errorf("%d files, authorization %q", len(first.Files), f.authorization.Load())
	}
	b.write("fleet/f1/n01.yaml", "name: other")
	b.commit()
	if tree := snapshot(t, s, first.TreeHash); len(tree.Files) != 1 || tree.Base != first.TreeHash {
		t.Errorf("%d files", len(tree.Files))
	}
	before := f.requests.Load()
	if tree := snapshot(t, s, ""); len(tree.Files) != 100 || f.requests.Load() != before+1 {
		t.Errorf("%d files after %d questions", len(tree.Files), f.requests.Load()-before)
	}
}

func TestHTTPSRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("fleet/a.cue", "a")
	b.commit()
	elsewhere := b.forge(nil)
	const advertisement = "application/x-git-upload-pack-advertisement"
	serve := func(status int, kind, body string) func(http.Handler) http.Handler {
		return func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", kind)
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
			})
		}
	}
	redirect := func(to func(r *http.Request) string) func(http.Handler) http.Handler {
		return func(inner http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if at := to(r); at != "" {
					http.Redirect(w, r, at, http.StatusFound)
					return
				}
				inner.ServeHTTP(w, r)
			})
		}
	}
	for name, c := range map[string]struct {
		wrap func(http.Handler) http.Handler
		want errs.Code // "": accepted
		says string
		spec func(*Spec)
	}{
		"redirect on the same server": {wrap: redirect(func(r *http.Request) string {
			if at, ok := strings.CutPrefix(r.URL.Path, "/moved"); ok {
				return at + "?" + r.URL.RawQuery
			}
			return ""
		}), spec: func(s *Spec) {
			s.Location = strings.Replace(s.Location, "/"+filepath.Base(b.path), "/moved/"+filepath.Base(b.path), 1)
		}},
		"redirect to another server": {wrap: redirect(func(r *http.Request) string { return elsewhere.URL + r.URL.Path + "?" + r.URL.RawQuery }), want: errs.Unavailable, says: "the Git server redirects to"},
		"redirect to plain http":     {wrap: redirect(func(r *http.Request) string { return "http://" + r.Host + r.URL.Path }), want: errs.Unavailable, says: "the Git server redirects to"},
		"redirect to a file":         {wrap: redirect(func(*http.Request) string { return "file:///etc/passwd" }), want: errs.Unavailable, says: "the Git server redirects to"},
		"redirect to the metadata":   {wrap: redirect(func(*http.Request) string { return "https://169.254.169.254/latest/info/refs" }), want: errs.Unavailable, says: "the Git server redirects to"},
		"redirect with a password":   {wrap: redirect(func(r *http.Request) string { return "https://u:p@" + r.Host + r.URL.Path }), want: errs.Unavailable, says: "the Git server redirects to"},
		"redirect in a circle":       {wrap: redirect(func(r *http.Request) string { return r.URL.Path + "?" + r.URL.RawQuery }), want: errs.Unavailable, says: "circle"},
		"redirect elsewhere here":    {wrap: redirect(func(r *http.Request) string { return "/admin/delete" }), want: errs.Unavailable, says: "circle"},
		"redirect of the question": {wrap: redirect(func(r *http.Request) string {
			if r.Method == http.MethodPost {
				return r.URL.Path + "/info/refs"
			}
			return ""
		}), want: errs.Unavailable, says: "circle"},
		"no such repository":       {want: errs.NotFound, spec: func(s *Spec) { s.Location += "-none" }},
		"not authorised":           {wrap: serve(401, "text/plain", "no"), want: errs.NotFound},
		"forbidden":                {wrap: serve(403, "text/plain", "no"), want: errs.NotFound},
		"broken":                   {wrap: serve(500, "text/plain", "no"), want: errs.Unavailable},
		"a web page":               {wrap: serve(200, "text/html", "<html>"), want: errs.Unavailable, says: "smart protocol"},
		"the dumb protocol":        {wrap: serve(200, "text/plain", strings.Repeat("1", 40)+"\trefs/heads/main\n"), want: errs.Unavailable, says: "smart protocol"},
		"nothing":                  {wrap: serve(200, advertisement, ""), want: errs.Unavailable},
		"garbage":                  {wrap: serve(200, advertisement, "zzzz"), want: errs.Unavailable},
		"half a line":              {wrap: serve(200, advertisement, "001e# service=git-upload-pack\n0000ffff"), want: errs.Unavailable},
		"an error":                 {wrap: serve(200, advertisement, "001e# service=git-upload-pack\n00000010ERR \x1b[2Jno"), want: errs.Unavailable},
		"an untrusted certificate": {want: errs.Unavailable, says: "certificate", spec: func(s *Spec) { s.Auth.CA = elsewhereCA(t) }},
		"no certificate":           {want: errs.ValidationError, spec: func(s *Spec) { s.Auth.CA = []byte("none") }},
		"the local machine":        {want: errs.ValidationError, says: "only this server", spec: func(s *Spec) { s.AllowPrivate = false }},
		"the local machine, by name": {want: errs.ValidationError, says: "only this server", spec: func(s *Spec) {
			s.AllowPrivate, s.Location = false, strings.Replace(s.Location, "127.0.0.1", "localhost", 1)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := b.forge(c.wrap)
			spec := b.over(f)
			spec.Auth.Token = []byte("s3cret")
			if c.spec != nil {
				c.spec(&spec)
			}
			tree, err := b.storedIn(t.TempDir(), spec).Snapshot(t.Context(), "")
			switch {
			case c.want == "" && (err != nil || len(tree.Files) != 1):
				t.Fatalf("rejected: %v", err)
			case c.want == "":
				return
			case errs.CodeOf(err) != c.want || !strings.Contains(err.Error(), c.says):
				t.Errorf("error is %v, want %s: %s", err, c.want, c.says)
			case strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "\x1b"):
				t.Errorf("the error contains a secret: %v", err)
			}
			if elsewhere.requests.Load() > 0 {
				t.Error("another server got a request")
			}
		})
	}
}

func elsewhereCA(t *testing.T) []byte {
	t.Helper()
	file, err := exec.Command("openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", "/CN=x", "-keyout", "/dev/null").Output()
	if err != nil {
		t.Skip("no openssl")
	}
	return file
}

// sshd is a real server over x/crypto, which lets one key run git-upload-pack.
type sshd struct {
	address string
	host    ssh.Signer
	user    []byte // the private key that is let in
	ran     atomic.Value
}

func newKey(t *testing.T) (ssh.Signer, []byte) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer, pem.EncodeToMemory(block)
}

func startSSH(t *testing.T) *sshd {
	t.Helper()
	d := &sshd{}
	var user ssh.Signer
	d.host, _ = newKey(t)
	user, d.user = newKey(t)
	config := &ssh.ServerConfig{PublicKeyCallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(user.PublicKey().Marshal()) || c.User() != "git" {
			return nil, fmt.Errorf("no")
		}
		return &ssh.Permissions{}, nil
	}}
	config.AddHostKey(d.host)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	d.address = l.Addr().String()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go d.serve(conn, config)
		}
	}()
	return d
}

func (d *sshd) serve(conn net.Conn, config *ssh.ServerConfig) {
	defer conn.Close()
	_, chans, reqs, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(reqs)
	for c := range chans {
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		for r := range requests {
			if r.Type != "exec" {
				_ = r.Reply(false, nil)
				continue
			}
			_ = r.Reply(true, nil)
			command := string(r.Payload[4:])
			d.ran.Store(command)
			cmd := exec.Command("sh", "-c", command)
			cmd.Stdout = channel
			in, err := cmd.StdinPipe() // not the channel itself: Run would wait for the client
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(in, channel) }()
			_ = cmd.Run()
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(cmd.ProcessState.ExitCode())}))
			_ = channel.Close()
		}
	}
}

func (d *sshd) knownHostsLine(key ssh.PublicKey) []byte {
	return []byte(knownhosts.Line([]string{d.address}, key))
}

func TestSSH(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fleet()
	b.commit()
	d := startSSH(t)
	spec := Spec{Location: "ssh://git@" + d.address + b.path, AllowPrivate: true, Auth: remote.Auth{SSHKey: d.user, KnownHosts: d.knownHostsLine(d.host.PublicKey())}}
	s := b.storedIn(t.TempDir(), spec)
	first := snapshot(t, s, "")
	b.write("fleet/f1/n01.yaml", "name: other")
	b.commit()
	if tree := snapshot(t, s, first.TreeHash); len(first.Files) != 100 || len(tree.Files) != 1 || d.ran.Load() != "git-upload-pack '"+b.path+"'" {
		t.Errorf("%d files, then %d by %v", len(first.Files), len(tree.Files), d.ran.Load())
	}
}

func TestSSHRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("fleet/a.cue", "a")
	b.commit()
	d := startSSH(t)
	stranger, strange := newKey(t)
	marker := filepath.Join(t.TempDir(), "ran")
	for name, c := range map[string]struct {
		spec func(*Spec)
		want errs.Code
		says string
	}{
		"accepted":                {},
		"a server of another key": {func(s *Spec) { s.Auth.KnownHosts = d.knownHostsLine(stranger.PublicKey()) }, errs.Unavailable, "knownHosts does not contain"},
		"an unknown server": {func(s *Spec) {
			s.Auth.KnownHosts = []byte(knownhosts.Line([]string{"other.example.com"}, d.host.PublicKey()))
		}, errs.Unavailable, "knownHosts does not contain"},
		"a revoked server": {func(s *Spec) {
			s.Auth.KnownHosts = append([]byte("@revoked "), d.knownHostsLine(d.host.PublicKey())...)
		}, errs.Unavailable, "knownHosts does not contain"},
		"no knownHosts":         {func(s *Spec) { s.Auth.KnownHosts = []byte(" \n") }, errs.ValidationError, "needs the server's key"},
		"broken knownHosts":     {func(s *Spec) { s.Auth.KnownHosts = []byte("server ssh-ed25519 AAAA") }, errs.ValidationError, "cannot be read"},
		"an unknown key":        {func(s *Spec) { s.Auth.SSHKey = strange }, errs.NotFound, "rejects the key"},
		"no key":                {func(s *Spec) { s.Auth.SSHKey = nil }, errs.ValidationError, "cannot be read"},
		"another user":          {func(s *Spec) { s.Location = strings.Replace(s.Location, "git@", "root@", 1) }, errs.NotFound, "rejects the key"},
		"no repository":         {func(s *Spec) { s.Location += "-none" }, errs.Unavailable, "no answer"},
		"a command in the path": {func(s *Spec) { s.Location += "';touch${IFS}" + marker + ";'" }, errs.Unavailable, "no answer"},
		"the local machine":     {func(s *Spec) { s.AllowPrivate = false }, errs.ValidationError, "only this server"},
		"no listener":           {func(s *Spec) { s.Location = "ssh://git@127.0.0.1:1" + b.path }, errs.Unavailable, "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := Spec{Location: "ssh://git@" + d.address + b.path, AllowPrivate: true, Auth: remote.Auth{SSHKey: d.user, KnownHosts: d.knownHostsLine(d.host.PublicKey())}}
			if c.spec != nil {
				c.spec(&spec)
			}
			tree, err := b.storedIn(t.TempDir(), spec).Snapshot(t.Context(), "")
			switch {
			case c.want == "" && (err != nil || len(tree.Files) != 1):
				t.Errorf("rejected: %v", err)
			case c.want != "" && (errs.CodeOf(err) != c.want || !strings.Contains(err.Error(), c.says)):
				t.Errorf("error is %v, want %s: %s", err, c.want, c.says)
			}
			if _, err := os.Stat(marker); err == nil {
				t.Error("the path ran")
			}
		})
	}
}

// A server that does not respond is abandoned at the end of the context, not at an own timeout.
func TestSilentHostsEndWithTheContext(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	accepted := make(chan net.Conn, 4)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn // and sends nothing
		}
	}()
	_, key := newKey(t)
	host, _ := newKey(t)
	for _, location := range []string{"https://" + l.Addr().String() + "/r.git", "ssh://git@" + l.Addr().String() + "/r.git"} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-accepted; cancel() }()
		spec := Spec{Location: location, AllowPrivate: true, Auth: remote.Auth{SSHKey: key, KnownHosts: []byte(knownhosts.Line([]string{l.Addr().String()}, host.PublicKey()))}}
		if _, err := b.storedIn(t.TempDir(), spec).Snapshot(ctx, ""); err == nil {
			t.Errorf("%s: no error", location)
		}
	}
}

func TestINV15AddressesOfThisMachine(t *testing.T) {
	t.Parallel()
	for address, refused := range map[string]bool{
		"127.0.0.1": true, "127.8.9.1": true, "::1": true, "0.0.0.0": true, "0.1.2.3": true, "::": true, "169.254.169.254": true, "169.254.1.1": true,
		"fe80::1": true, "fe80::1%eth0": true, "fd00:ec2::254": true, "100.100.100.200": true, "168.63.129.16": true, "224.0.0.1": true, "ff02::1": true,
		"255.255.255.255": true, "::ffff:127.0.0.1": true, "::ffff:169.254.169.254": true, "64:ff9b::7f00:1": true, "64:ff9b::a9fe:a9fe": true,
		"2002:7f00:1::": true, "2002:a9fe:a9fe::1": true, "::127.0.0.1": true,
		"10.0.0.1": false, "192.168.1.1": false, "172.16.0.1": false, "140.82.121.3": false, "2606:50c0:8000::153": false, "fd12::1": false, "64:ff9b::8c52:7903": false,
	} {
		if got := netguard.Reserved(netip.MustParseAddr(address)); got != refused {
			t.Errorf("%s: rejected is %v", address, got)
		}
	}
}

// The end of a poll, or of the server, may close a connection while the fetch closes it, too.
func TestALineIsClosedByTwoAtOnce(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.fleet()
	at, err := b.stored().at()
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		l, err := at.Call(ctx)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		closed := make(chan error, 2)
		for range cap(closed) {
			go func() { closed <- l.Close() }()
		}
		for range cap(closed) {
			select {
			case err := <-closed:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("it is not closed")
			}
		}
	}
}

// The end of a context closes an https line while a request on it is open.
func TestAnHTTPSLineIsClosedDuringARequest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fleet()
	f := b.forge(nil)
	s, err := OpenStore(t.TempDir(), b.over(f))
	if err != nil {
		t.Fatal(err)
	}
	at, err := s.at()
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		l, err := at.Call(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = l.Refs(t.Context()) // it fails if Close is first
		}()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		<-ended
	}
}
