//go:build e2e

package host

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// moved is the size of the file that is copied.
const moved = 256 << 20

// editor is the server that an editor starts on the node: it listens on loopback, and prints its port.
const editor = `
import os, socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen()
print(s.getsockname()[1], flush=True)
while True:
    c, _ = s.accept()
    c.recv(4096)
    c.sendall(("HTTP/1.0 200 OK\r\n\r\nhello of %s" % os.environ["USER"]).encode())
    c.close()
`

// relayed uses an allocation whose node accepts no connection: commands, files, an editor's server and a terminal reach it over
// the connections that its agent opens (AT-095, AT-096, INV-53).
func (s *scenario) relayed(a allocation) {
	s.t.Helper()
	s.direct("denied")
	s.host.Sh(s.t, `nft add table inet shut; nft add chain inet shut in '{ type filter hook input priority 0; }'
		nft add rule inet shut in iifname lo accept; nft add rule inet shut in 'tcp flags & (syn | ack) == syn counter drop'`)
	defer func() {
		if out := s.host.Sh(s.t, `nft list chain inet shut in; nft delete table inet shut`); !strings.Contains(out, "counter packets 0 ") {
			s.t.Errorf("connections were opened to the node:\n%s", out)
		}
	}()
	if out := s.local(nil, "gpuaas", "ssh", a.Name, "--", "id", "-un"); strings.TrimSpace(out) != a.Login {
		s.t.Errorf("gpuaas ssh: %q, want %s", out, a.Login)
	}
	out := s.local(strings.NewReader("id -un; exit\n"), "gpuaas", "terminal", a.Name)
	if !strings.Contains(out, a.Login) {
		s.t.Errorf("gpuaas terminal: %q", out)
	}
	s.local(nil, "gpuaas", "ssh-config")
	s.copies(a)
	s.edits(a)
}

// local runs a program of the user's computer. Its home directory has only what the product writes.
func (s *scenario) local(stdin io.Reader, name string, args ...string) string {
	s.t.Helper()
	cmd := s.command(name, args...)
	var problems bytes.Buffer
	cmd.Stdin, cmd.Stderr = stdin, &problems
	began := time.Now()
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("%v: %v\n%s%s", cmd.Args, err, out, &problems)
	}
	s.t.Logf("%s took %s", strings.Join(cmd.Args[1:], " "), time.Since(began).Round(time.Millisecond))
	return string(out)
}

func (s *scenario) command(name string, args ...string) *exec.Cmd {
	s.t.Helper()
	path := name
	if name == "gpuaas" {
		path = binary(s.t, name)
	} else {
		args = append([]string{"-F", s.path("home/.ssh/config")}, args...)
	}
	must(s.t, os.MkdirAll(s.path("home/run"), 0o700))
	cmd := exec.CommandContext(s.t.Context(), path, args...)
	cmd.Env = append(s.env(), "HOME="+s.path("home"), "XDG_RUNTIME_DIR="+s.path("home/run"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// copies copies a file with scp and sftp, and compares the checksums.
func (s *scenario) copies(a allocation) {
	s.t.Helper()
	file, sum := s.path("home/file"), sha256.New()
	f, err := os.Create(file)
	must(s.t, err)
	_, err = io.CopyN(io.MultiWriter(f, sum), rand.Reader, moved)
	must(s.t, err)
	must(s.t, f.Close())
	s.local(nil, "scp", file, a.Name+".gpuaas:by-scp")
	s.local(strings.NewReader("put "+file+" by-sftp\n"), "sftp", "-b", "-", a.Name+".gpuaas")
	want := hex.EncodeToString(sum.Sum(nil))
	if out := s.local(nil, "ssh", a.Name+".gpuaas", "sha256sum by-scp by-sftp; rm by-scp by-sftp"); strings.Count(out, want) != 2 {
		s.t.Errorf("%s, want twice %s", out, want)
	}
}

// edits starts the server of an editor, and reaches it through forwarded ports. sshd of the node is not reached.
func (s *scenario) edits(a allocation) {
	s.t.Helper()
	server := s.command("ssh", a.Name+".gpuaas", "python3 -u -")
	var problems bytes.Buffer
	server.Stdin, server.Stderr = strings.NewReader(editor), &problems
	stdout, err := server.StdoutPipe()
	must(s.t, err)
	must(s.t, server.Start())
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	port, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		_ = server.Wait()
		s.t.Fatalf("the server of the editor: %v\n%s", err, &problems)
	}
	port = strings.TrimSpace(port)
	first, second, sshd := freePort(s), freePort(s), freePort(s)
	tunnel := s.command("ssh", "-N", "-L", "127.0.0.1:"+first+":127.0.0.1:"+port, "-L", "127.0.0.1:"+sshd+":127.0.0.1:22", a.Name+".gpuaas")
	must(s.t, tunnel.Start())
	defer func() { _ = tunnel.Process.Kill(); _ = tunnel.Wait() }()
	forward := s.command("gpuaas", "port-forward", a.Name, second+":"+port)
	must(s.t, forward.Start())
	defer func() { _ = forward.Process.Kill(); _ = forward.Wait() }()
	for _, local := range []string{first, second} {
		within(s.t, patience, "the editor's server responds", func() error {
			out, err := exec.CommandContext(s.t.Context(), "curl", "-sS", "--max-time", "5", "http://127.0.0.1:"+local+"/").CombinedOutput()
			if err == nil && string(out) != "hello of "+a.Login {
				err = fmt.Errorf("it sends %q", out)
			}
			return err
		})
	}
	conn, err := net.DialTimeout("tcp", "127.0.0.1:"+sshd, 5*time.Second)
	must(s.t, err)
	defer conn.Close()
	must(s.t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	if got, _ := io.ReadAll(conn); len(got) > 0 {
		s.t.Errorf("a forwarded port reaches sshd of the node: %q", got)
	}
}

// freePort returns a port of loopback that no program uses.
func freePort(s *scenario) string {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(s.t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(s.t, err)
	return port
}
