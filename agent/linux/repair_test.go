package linux_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/agent/linux"
	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/protocol"
)

// Threat: a repair probes in a session of the tenant, whose shell runs the tenant's files first: they see the
// probe and respond in its place. A repair logs in and starts no program of the account.
func TestARepairStartsNoProgramOfTheTenant(t *testing.T) {
	t.Parallel()
	h := &linux.Host{OS: hostos.OS{Root: t.TempDir()}}
	h.Run = func(_ context.Context, path string, _ []byte, args ...string) ([]byte, error) {
		if slices.Contains(args, "-T") {
			return []byte("port 22\nusepam yes\n"), nil
		}
		t.Errorf("%s %q was run", path, args)
		return nil, nil
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	hostKey, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write(t, h, "/etc/ssh/ssh_host_ed25519_key.pub", string(ssh.MarshalAuthorizedKey(hostKey.PublicKey())))
	for _, dir := range []string{linux.ProbeDir, "/tmp", "/var/tmp", "/dev/shm"} {
		write(t, h, dir+"/.keep", "")
	}
	logins := make(chan struct{}, 9)
	var sessions atomic.Int32
	h.SSHD = filepath.Join(t.TempDir(), "sshd")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", h.SSHD)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go serveSSH(l, hostKey, logins, &sessions)
	results, err := h.ProbeInside(t.Context(), protocol.AllocationParams{User: "u1", UID: 200001})
	if err != nil {
		t.Fatal(err)
	}
	<-logins
	if n := sessions.Load(); n > 0 {
		t.Errorf("%d sessions", n)
	}
	if !slices.ContainsFunc(results, func(r protocol.ProbeResult) bool { return r.Name == "login" && r.Got == "ok" }) {
		t.Errorf("%+v", results)
	}
	for _, r := range results {
		if !strings.HasPrefix(r.Name, "sshd:") && r.Name != "login" {
			t.Errorf("%+v is controlled by the tenant", r)
		}
	}
}

// serveSSH accepts every key, and counts logins and sessions.
func serveSSH(l net.Listener, hostKey ssh.Signer, logins chan<- struct{}, sessions *atomic.Int32) {
	config := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil }} //nolint:nilnil // no restrictions
	config.AddHostKey(hostKey)
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, channels, requests, err := ssh.NewServerConn(conn, config)
		if err != nil {
			continue
		}
		logins <- struct{}{}
		go ssh.DiscardRequests(requests)
		for c := range channels {
			sessions.Add(1)
			_ = c.Reject(ssh.Prohibited, "a program of the tenant")
		}
	}
}
