// Package probe logs in to the host OS as a tenant does, and tries in that session what must work and what
// must not. attempts.go runs inside the session with the rights of the tenant; session.go logs in and
// compares. The package changes nothing on the host OS.
package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/protocol"
)

// Outcomes besides "ok" and the names of errors.
const (
	NoDevice    = "ENXIO"   // the device may be opened, and no driver is there
	Unreachable = "refused" // by our rules, or there is no route
	Silent      = "silent"  // a service of the node that does not respond to the tenant
)

// Compare turns what the session found into results.
func Compare(o protocol.AllocationParams, f Findings, want map[string]string, container bool) (results []protocol.ProbeResult) {
	add := func(name, want, got string) {
		results = append(results, protocol.ProbeResult{Name: name, Expected: want, Got: got})
	}
	slice := "/user.slice/" + hostos.SliceOf(o.UID)
	cgroup := f.Cgroup
	if strings.HasPrefix(cgroup, slice+"/") {
		cgroup = slice
	}
	add("cgroup", slice, cgroup)
	add("uid", strconv.Itoa(o.UID), strconv.Itoa(f.UID))
	add("home", "ok", f.Home)
	add("loopback", "ok", f.Loopback)
	add("processes of others", "0", strconv.Itoa(f.Strangers))
	if !container { // there the outer host OS decides
		got := f.Namespaces
		if got == "ENOSPC" {
			got = "EPERM" // of user.max_user_namespaces: as good
		}
		add("user namespace", "EPERM", got)
	}
	private := map[string]string{}
	for file, got := range f.Files {
		private[filepath.Dir(file)] = got // its name is another every time
	}
	for kind, found := range map[string]map[string]string{"device": f.Devices, "folder": f.Folders, "private": private, "socket": f.Sockets, "dial": f.Dials, "forward": f.Forwards, "mount": f.Mounts, "write": f.Writes} {
		for name, got := range found {
			name = kind + ":" + name
			if kind == "dial" || kind == "forward" {
				got = reached(got, want[name])
			}
			add(name, want[name], got)
		}
	}
	for name := range want {
		if !slices.ContainsFunc(results, func(r protocol.ProbeResult) bool { return r.Name == name }) {
			add(name, want[name], "not tried") // another program than the probe responded
		}
	}
	slices.SortFunc(results, func(a, b protocol.ProbeResult) int { return strings.Compare(a.Name, b.Name) })
	return results
}

// reached simplifies the outcome of a connection.
func reached(got, want string) string {
	switch {
	// sshd closes its port for a moment while it reloads. A host OS may have no IPv6.
	case want == Silent && slices.Contains([]string{"ETIMEDOUT", "ECONNREFUSED", "ENETUNREACH", "EADDRNOTAVAIL"}, got):
		return Silent
	case slices.Contains([]string{"ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH"}, got):
		return Unreachable // by our rules, or there is no way there at all
	}
	return got
}

const (
	// loginWithin is for one login with all its attempts.
	loginWithin = 12 * time.Second
	// dialAgain: sshd closes its port for a moment while it reloads.
	dialAgain = 50 * time.Millisecond
)

// Session logs in to the host OS as a tenant does.
type Session struct {
	OS *hostos.OS
	// Address of sshd, as host:port.
	Address string
	// Socket reaches sshd from a process that has no network. Empty: Address is dialled.
	Socket string
}

// Run executes the attempts in a session of the tenant. A program of the tenant that the shell starts could
// respond in place of the probe, so only the first provisioning calls Run.
func (s *Session) Run(ctx context.Context, name string, key ssh.Signer, a Attempts) (f Findings, err error) {
	ctx, cancel := context.WithTimeout(ctx, loginWithin)
	defer cancel()
	work, err := json.Marshal(a)
	if err != nil {
		return f, err
	}
	client, session, stop, err := s.open(ctx, name, key)
	if err != nil {
		return f, err
	}
	defer stop() // what counts has been read
	says := &hostos.Capped{}
	session.Stderr = says
	stdin, err := session.StdinPipe()
	if err != nil {
		return f, fmt.Errorf("opening a session: %w", err)
	}
	stdout, err := session.StdoutPipe()
	if err != nil {
		return f, fmt.Errorf("opening a session: %w", err)
	}
	if err := session.Start(InsideCommand); err != nil {
		return f, fmt.Errorf("probing in the session: %w", err)
	}
	_, err = stdin.Write(work)
	if err == nil {
		err = json.NewDecoder(io.LimitReader(stdout, maxRequest)).Decode(&f)
	}
	if err == nil {
		f.Forwards = forwards(ctx, client, f.Own, a.Dials)
	}
	// The probe ends with its input.
	if err := errors.Join(err, stdin.Close(), session.Wait()); err != nil {
		return f, fmt.Errorf("probing in the session: %w: %s", err, hostos.FirstLine(says.String()))
	}
	return f, nil
}

// open logs in and opens a session. It tries a second time, because systemd may still be ending the slice of an earlier session of
// the account, and ends a connection that begins meanwhile.
func (s *Session) open(ctx context.Context, name string, key ssh.Signer) (*ssh.Client, *ssh.Session, func(), error) {
	for again := false; ; again = true {
		client, stop, err := s.login(ctx, name, key)
		if err != nil {
			return nil, nil, nil, err
		}
		end := func() {
			_ = client.Close()
			stop()
		}
		session, err := client.NewSession()
		if err == nil {
			return client, session, end, nil
		}
		end()
		if again || ctx.Err() != nil {
			return nil, nil, nil, fmt.Errorf("opening a session: %w", err)
		}
	}
}

// OwnPort is the name of the attempt to reach a port of the tenant through its connection.
const OwnPort = "own port"

// forwards connects through the SSH connection of a session, as a client with local forwarding does.
func forwards(ctx context.Context, client *ssh.Client, own string, dials []string) map[string]string {
	return tryAll(append(slices.Clone(dials), OwnPort), func(to string) error {
		if to == OwnPort {
			to = own
		}
		ctx, cancel := context.WithTimeout(ctx, dialWithin)
		defer cancel()
		conn, err := client.DialContext(ctx, "tcp", to)
		if err == nil {
			return conn.Close()
		}
		if rejected, ok := errors.AsType[*ssh.OpenChannelError](err); ok {
			if rejected.Reason == ssh.Prohibited {
				return syscall.EPERM
			}
			return syscall.ECONNREFUSED
		}
		return err
	})
}

// Login logs in and out. It starts no program of the account, so that no program of the tenant responds.
func (s *Session) Login(ctx context.Context, name string, key ssh.Signer) error {
	ctx, cancel := context.WithTimeout(ctx, loginWithin)
	defer cancel()
	client, stop, err := s.login(ctx, name, key)
	if err != nil {
		return err
	}
	stop()
	_ = client.Close() // sshd has accepted the key
	return nil
}

// login accepts only the sshd of this node.
func (s *Session) login(ctx context.Context, name string, key ssh.Signer) (*ssh.Client, func() bool, error) {
	hostKeys, err := hostKeys(s.OS)
	if err != nil {
		return nil, nil, err
	}
	return s.connect(ctx, &ssh.ClientConfig{
		User: name, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyAlgorithms: algorithms(hostKeys),
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			if !slices.ContainsFunc(hostKeys, func(k ssh.PublicKey) bool { return bytes.Equal(k.Marshal(), key.Marshal()) }) {
				return errors.New("the responding process is not the sshd of this node")
			}
			return nil
		},
	})
}

// connect logs in. sshd closes its port for a moment while it reloads, so connect retries when the
// connection is rejected or closed before a handshake.
func (s *Session) connect(ctx context.Context, config *ssh.ClientConfig) (*ssh.Client, func() bool, error) {
	network, to := "tcp", s.Address
	if s.Socket != "" {
		network, to = "unix", s.Socket
	}
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, network, to)
		if err == nil {
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			var c ssh.Conn
			var channels <-chan ssh.NewChannel
			var requests <-chan *ssh.Request
			if c, channels, requests, err = ssh.NewClientConn(conn, s.Address, config); err == nil {
				return ssh.NewClient(c, channels, requests), stop, nil
			}
			stop()
			err = errors.Join(fmt.Errorf("logging in: %w", err), conn.Close())
			if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
				return nil, nil, errors.Join(err, ctx.Err())
			}
		}
		again := time.NewTimer(dialAgain)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return nil, nil, fmt.Errorf("connecting to sshd: %w", err)
		}
	}
}

// hostKeys are those of this node's sshd.
func hostKeys(h *hostos.OS) (keys []ssh.PublicKey, err error) {
	files, err := filepath.Glob(h.Path("/etc/ssh/ssh_host_*_key.pub"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := h.Read(filepath.Join("/etc/ssh", filepath.Base(file)))
		if err != nil {
			return nil, err
		}
		if key, _, _, _, err := ssh.ParseAuthorizedKey(text); err == nil {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the sshd of this node has no host keys")
	}
	return keys, nil
}

func algorithms(keys []ssh.PublicKey) (names []string) {
	for _, k := range keys {
		if k.Type() == ssh.KeyAlgoRSA {
			names = append(names, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			continue
		}
		names = append(names, k.Type())
	}
	return names
}
