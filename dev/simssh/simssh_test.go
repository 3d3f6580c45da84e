package simssh_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/dev/simssh"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

const principal = "0198c0de-0000-7000-8000-000000000001"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newSigner(t *testing.T) xssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	signer, err := xssh.NewSignerFromKey(private)
	must(t, err)
	return signer
}

func line(key xssh.PublicKey) string {
	return strings.TrimSpace(string(xssh.MarshalAuthorizedKey(key)))
}

// node is a simulated node with an account that a certificate of ca and the registered key open.
type node struct {
	t              *testing.T
	dir            string
	ca, registered xssh.Signer
}

func setup(t *testing.T, access protocol.Access) *node {
	t.Helper()
	n := &node{t: t, dir: t.TempDir(), ca: newSigner(t), registered: newSigner(t)}
	_, err := sim.Open(n.dir, ids.New[ids.Node](), "t4-4", "sim-1")
	must(t, err)
	must(t, sim.Edit(sim.Path(n.dir), func(h *sim.Host) error {
		h.Accounts["t-1"] = &sim.Account{
			UID: 200001, Keys: []string{line(n.registered.PublicKey())}, Principals: []string{principal}, CAs: []string{line(n.ca.PublicKey())}, Revoked: []uint64{13}, Access: access,
		}
		h.GPUs[2].Users = []string{"t-1"}
		return nil
	}))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s := &simssh.Server{StateDir: n.dir, Log: slog.New(slog.DiscardHandler)}
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(sim.LoginFile(n.dir)); err == nil {
			t.Error("the address of a server that has ended is left")
		}
	})
	for range 200 {
		if _, err := os.Stat(sim.LoginFile(n.dir)); err == nil {
			return n
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the server does not start")
	return nil
}

// certified returns a signer with a certificate, after change.
func (n *node) certified(change func(*xssh.Certificate)) xssh.Signer {
	n.t.Helper()
	key, now := newSigner(n.t), time.Now()
	c := &xssh.Certificate{
		Key: key.PublicKey(), Serial: 7, CertType: xssh.UserCert, KeyId: "u", ValidPrincipals: []string{principal},
		ValidAfter: uint64(now.Add(-time.Minute).Unix()), ValidBefore: uint64(now.Add(time.Minute).Unix()),
	}
	change(c)
	must(n.t, c.SignCert(rand.Reader, n.ca))
	signer, err := xssh.NewCertSigner(c, key)
	must(n.t, err)
	return signer
}

func (n *node) dial(user string, by xssh.Signer) (*xssh.Client, error) {
	n.t.Helper()
	address, err := os.ReadFile(sim.LoginFile(n.dir))
	must(n.t, err)
	conn, err := net.Dial("tcp", strings.TrimSpace(string(address)))
	must(n.t, err)
	config := &xssh.ClientConfig{User: user, Auth: []xssh.AuthMethod{xssh.PublicKeys(by)}, HostKeyCallback: xssh.InsecureIgnoreHostKey()}
	c, channels, requests, err := xssh.NewClientConn(conn, "sim-1", config)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	client := xssh.NewClient(c, channels, requests)
	n.t.Cleanup(func() { _ = client.Close() })
	return client, nil
}

func TestLoginsAreThoseOfTheNode(t *testing.T) {
	t.Parallel()
	n := setup(t, protocol.Access{})
	same := func(*xssh.Certificate) {}
	stranger := newSigner(t)
	for what, try := range map[string]struct {
		user   string
		by     xssh.Signer
		accept bool
	}{
		"a certificate":          {"t-1", n.certified(same), true},
		"a registered key":       {"t-1", n.registered, true},
		"an unknown key":         {"t-1", stranger, false},
		"another account":        {"t-2", n.certified(same), false},
		"root":                   {"root", n.registered, false},
		"another principal":      {"t-1", n.certified(func(c *xssh.Certificate) { c.ValidPrincipals = []string{"t-1"} }), false},
		"no principal":           {"t-1", n.certified(func(c *xssh.Certificate) { c.ValidPrincipals = nil }), false},
		"expired":                {"t-1", n.certified(func(c *xssh.Certificate) { c.ValidBefore = c.ValidAfter + 1 }), false},
		"not valid yet":          {"t-1", n.certified(func(c *xssh.Certificate) { c.ValidAfter = c.ValidBefore - 1 }), false},
		"revoked":                {"t-1", n.certified(func(c *xssh.Certificate) { c.Serial = 13 }), false},
		"of a server":            {"t-1", n.certified(func(c *xssh.Certificate) { c.CertType = xssh.HostCert }), false},
		"with a critical option": {"t-1", n.certified(func(c *xssh.Certificate) { c.CriticalOptions = map[string]string{"force-command": "id"} }), false},
	} {
		if client, err := n.dial(try.user, try.by); (client != nil) != try.accept {
			t.Errorf("%s: %v, want accepted = %t", what, err, try.accept)
		}
	}
	n.ca = stranger
	if _, err := n.dial("t-1", n.certified(same)); err == nil {
		t.Error("a certificate of another authority logs in")
	}
}

// ending returns a channel that is closed when a connection has ended.
func ending(client *xssh.Client) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		_ = client.Wait()
		close(ended)
	}()
	return ended
}

// A session runs as an unprivileged user, sees nothing of this process, and ends with its login.
func TestSessions(t *testing.T) {
	t.Parallel()
	n := setup(t, protocol.Access{})
	client, err := n.dial("t-1", n.registered)
	must(t, err)
	run := func(command string) (string, error) {
		session, err := client.NewSession()
		must(t, err)
		defer session.Close()
		_ = session.Setenv("LD_PRELOAD", "/tmp/x.so")
		text, err := session.CombinedOutput(command)
		return string(text), err
	}
	if text, err := run("id -u; env"); err != nil || strings.HasPrefix(text, "0\n") || strings.Contains(text, "LD_PRELOAD") || strings.Contains(text, "GOFLAGS") {
		t.Errorf("%q, %v", text, err)
	}
	host, err := sim.Read(sim.Path(n.dir))
	must(t, err)
	if text, err := run("nvidia-smi -L && nvidia-smi"); err != nil || !strings.Contains(text, host.GPUs[2].UUID) || strings.Contains(text, host.GPUs[0].UUID) || !strings.Contains(text, "sim-1") {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := run("echo text > file; cat file; kill -9 $$"); text != "text\n" || err == nil || !strings.Contains(err.Error(), "137") {
		t.Errorf("killed: %q, %v", text, err)
	}
	if _, err := client.Dial("tcp", "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "prohibited") {
		t.Errorf("forwarding: %v", err)
	}
	ended := ending(client)
	must(t, sim.Edit(sim.Path(n.dir), func(h *sim.Host) error {
		delete(h.Accounts, "t-1")
		return nil
	}))
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("a session outlives its login")
	}
}

// Forwarding reaches this computer and no other, and needs the permission of a certificate.
func TestForwarding(t *testing.T) {
	t.Parallel()
	n := setup(t, protocol.Access{Forwarding: protocol.ForwardLocal})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	permitted := func(c *xssh.Certificate) { c.Extensions = map[string]string{"permit-port-forwarding": ""} }
	for what, try := range map[string]struct {
		by      xssh.Signer
		address string
		reaches bool
	}{
		"by a key":               {n.registered, l.Addr().String(), true},
		"by a certificate":       {n.certified(permitted), l.Addr().String(), true},
		"without the permission": {n.certified(func(*xssh.Certificate) {}), l.Addr().String(), false},
		"to another computer":    {n.registered, "192.0.2.1:80", false},
	} {
		client, err := n.dial("t-1", try.by)
		must(t, err)
		conn, err := client.Dial("tcp", try.address)
		if (err == nil) != try.reaches || err != nil && !strings.Contains(err.Error(), "prohibited") {
			t.Errorf("%s: %v", what, err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
}
