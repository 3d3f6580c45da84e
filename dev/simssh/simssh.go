// Package simssh is the SSH server of a simulated node. It accepts the logins that the simulated node has, and runs /bin/sh
// on this computer: as the user who runs it, in a folder of the simulated node. It isolates nothing, and the agent does not
// link it.
package simssh

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gliderlabs/ssh"
	xssh "golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/durable"
	"github.com/gpuaas/gpuaas/protocol"
)

// Server is the SSH server of the simulated node in StateDir.
type Server struct {
	StateDir string
	Clock    clock.Clock
	Log      *slog.Logger

	folder string // contains the homes
	mounts mounts

	mu    sync.Mutex
	conns map[*connection]string // the account that each logs in to
}

const (
	// endEvery is the time after which the sessions of a login that has ended are closed.
	endEvery = 500 * time.Millisecond
	// idleFor ends a session without any bytes.
	idleFor = 12 * time.Hour
)

// Serve serves on a port of loopback until ctx ends, and writes its address for the agent.
func (s *Server) Serve(ctx context.Context) error {
	key, err := hostKey(filepath.Join(s.StateDir, "ssh_host_ed25519.pem"))
	if err != nil {
		return err
	}
	if s.folder, err = s.makeFolder(); err != nil {
		return err
	}
	if below(s.folder) { // of a process that was killed
		return fmt.Errorf("stored objects are still mounted below %s: unmount them first", s.folder)
	}
	defer s.eraseAll() //nolint:contextcheck // a release erases homes as well, after an upload that outlives the server
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening for SSH: %w", err)
	}
	s.conns = map[*connection]string{}
	server := &ssh.Server{
		Handler: s.session, PublicKeyHandler: s.mayLogIn, IdleTimeout: idleFor, Version: "GPUaaS-simulated",
		SubsystemHandlers: map[string]ssh.SubsystemHandler{"sftp": s.sftp},
		ChannelHandlers:   map[string]ssh.ChannelHandler{"session": ssh.DefaultSessionHandler, "direct-tcpip": ssh.DirectTCPIPHandler},
		ConnCallback: func(ctx ssh.Context, conn net.Conn) net.Conn {
			c := &connection{conn, s}
			ctx.SetValue(connectionKey{}, c)
			return c
		},
		LocalPortForwardingCallback: func(ctx ssh.Context, host string, _ uint32) bool {
			return ctx.Value(permittedKey{}) == true && s.forwards(ctx.User()) && slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, host)
		},
	}
	server.AddHostKey(key)
	if err := durable.Write(sim.HostKeyFile(s.StateDir), []byte(protocol.HostKeyLine(key.PublicKey())+"\n"), 0o600); err != nil {
		return errors.Join(err, l.Close())
	}
	file := sim.LoginFile(s.StateDir)
	if err := durable.Write(file, []byte(l.Addr().String()+"\n"), 0o600); err != nil {
		return errors.Join(err, l.Close())
	}
	defer func() { _ = os.Remove(file) }()
	var ending sync.WaitGroup
	defer ending.Wait()
	ending.Go(func() { s.watch(ctx) })
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); ctx.Err() == nil {
		return fmt.Errorf("serving SSH: %w", err)
	}
	return nil
}

// forwards reports whether the last task lets the account forward ports to programs on loopback.
func (s *Server) forwards(account string) bool {
	h, err := sim.Read(sim.Path(s.StateDir))
	return err == nil && h.Accounts[account] != nil && h.Accounts[account].Access.Forwarding == protocol.ForwardLocal
}

// hostKey reads the host key of the simulated node, or makes it.
func hostKey(path string) (xssh.Signer, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("making a host key: %w", err)
		}
		block, err := xssh.MarshalPrivateKey(private, "simulated node")
		if err != nil {
			return nil, fmt.Errorf("making a host key: %w", err)
		}
		text = pem.EncodeToMemory(block)
		if err := durable.Write(path, text, 0o600); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, fmt.Errorf("reading the host key: %w", err)
	}
	key, err := xssh.ParsePrivateKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s is no host key: %w", path, err)
	}
	return key, nil
}

// account returns an account of the simulated node that has a login.
func (s *Server) account(name string) (*sim.Account, *sim.Host) {
	host, err := sim.Read(sim.Path(s.StateDir))
	if err != nil {
		s.Log.Warn("simulated node not read", "component", "simssh", "err", err)
		return nil, nil
	}
	return login(host, name), host
}

// login returns an account if it has a login.
func login(host *sim.Host, name string) *sim.Account {
	a := host.Accounts[name]
	if a == nil || len(a.Keys) == 0 && len(a.Principals) == 0 {
		return nil
	}
	return a
}

// connection is a connection whose account is known.
type connection struct {
	net.Conn

	server *Server
}

type connectionKey struct{}

// permittedKey is the key of whether a login permits forwarding.
type permittedKey struct{}

// Close closes the connection.
func (c *connection) Close() error {
	c.server.mu.Lock()
	delete(c.server.conns, c)
	c.server.mu.Unlock()
	return c.Conn.Close()
}

// mayLogIn accepts what opens the account, and registers the connection.
func (s *Server) mayLogIn(ctx ssh.Context, key ssh.PublicKey) bool {
	a, _ := s.account(ctx.User())
	c, ok := ctx.Value(connectionKey{}).(*connection)
	if a == nil || !ok || !s.opens(a, key) {
		return false
	}
	permitted := true // by a registered key
	if certificate, ok := key.(*xssh.Certificate); ok {
		_, permitted = certificate.Extensions["permit-port-forwarding"]
	}
	ctx.SetValue(permittedKey{}, permitted)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = ctx.User()
	return true
}

// opens accepts a registered key, or a certificate as sshd of a real node does.
func (s *Server) opens(a *sim.Account, key ssh.PublicKey) bool {
	certificate, ok := key.(*xssh.Certificate)
	if !ok {
		return contains(a.Keys, key)
	}
	checker := xssh.CertChecker{
		IsUserAuthority: func(authority xssh.PublicKey) bool { return contains(a.CAs, authority) },
		IsRevoked:       func(c *xssh.Certificate) bool { return slices.Contains(a.Revoked, c.Serial) },
		Clock:           s.Clock.Now,
	}
	return slices.ContainsFunc(a.Principals, func(principal string) bool {
		return certificate.CertType == xssh.UserCert && slices.Contains(certificate.ValidPrincipals, principal) &&
			checker.IsUserAuthority(certificate.SignatureKey) && checker.CheckCert(principal, certificate) == nil
	})
}

func contains(lines []string, key xssh.PublicKey) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		one, _, _, _, err := xssh.ParseAuthorizedKey([]byte(line))
		return err == nil && ssh.KeysEqual(one, key)
	})
}

// watch closes the connections of logins that have ended: a release ends the processes of its tenant.
func (s *Server) watch(ctx context.Context) {
	t := time.NewTicker(endEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if host, err := sim.Read(sim.Path(s.StateDir)); err == nil {
			s.endLogins(host) //nolint:contextcheck // as in Serve
		}
	}
}

// endLogins closes the connections of accounts without a login, and removes their homes.
func (s *Server) endLogins(host *sim.Host) {
	s.mu.Lock()
	conns := maps.Clone(s.conns)
	s.mu.Unlock()
	for conn, account := range conns {
		if login(host, account) == nil {
			_ = conn.Close()
		}
	}
	homes, err := os.ReadDir(s.folder)
	if err != nil {
		return
	}
	for _, home := range homes {
		if strings.HasPrefix(home.Name(), ".") {
			continue // of a mount, which removes it
		}
		if login(host, home.Name()) == nil {
			s.erase(home.Name())
		}
	}
}
