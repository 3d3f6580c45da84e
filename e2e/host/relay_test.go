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

// The sizes of the files that are copied.
const (
	byScp  = 1 << 30
	bySftp = 256 << 20
)

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
	s.synchronises(a)
	s.pushes(a)
	s.edits(a)
	s.logs(a)
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
	path, config := name, s.path("home/.ssh/config")
	switch name {
	case "gpuaas":
		path = binary(s.t, name)
	case "ssh", "scp", "sftp":
		args = append([]string{"-F", config}, args...)
	}
	must(s.t, os.MkdirAll(s.path("home/run"), 0o700))
	cmd := exec.CommandContext(s.t.Context(), path, args...)
	cmd.Env = append(s.env(), "HOME="+s.path("home"), "XDG_RUNTIME_DIR="+s.path("home/run"), "RSYNC_RSH=ssh -F "+config, "GIT_SSH_COMMAND=ssh -F "+config)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// copies copies files with scp and sftp, and compares the checksums.
func (s *scenario) copies(a allocation) {
	s.t.Helper()
	large, largeSum := s.random("home/large", byScp)
	small, smallSum := s.random("home/small", bySftp)
	s.local(nil, "scp", large, a.Name+".gpuaas:by-scp")
	s.local(strings.NewReader("put "+small+" by-sftp\n"), "sftp", "-b", "-", a.Name+".gpuaas")
	if out := s.local(nil, "ssh", a.Name+".gpuaas", "sha256sum by-scp by-sftp; rm by-scp by-sftp"); !strings.Contains(out, largeSum) || !strings.Contains(out, smallSum) {
		s.t.Errorf("%s, want %s and %s", out, largeSum, smallSum)
	}
	must(s.t, os.Remove(large))
}

// random writes a file, and returns its path and its checksum.
func (s *scenario) random(name string, size int64) (path, sum string) {
	s.t.Helper()
	h := sha256.New()
	f, err := os.Create(s.path(name))
	must(s.t, err)
	defer f.Close()
	_, err = io.CopyN(io.MultiWriter(f, h), rand.Reader, size)
	must(s.t, err)
	return f.Name(), hex.EncodeToString(h.Sum(nil))
}

// synchronises copies a folder to the node with rsync, changes it there, and copies it back.
func (s *scenario) synchronises(a allocation) {
	s.t.Helper()
	must(s.t, os.MkdirAll(s.path("home/folder/deep"), 0o700))
	for n := range 100 {
		s.random(fmt.Sprintf("home/folder/deep/%d", n), 10_000)
	}
	s.local(nil, "rsync", "-a", s.path("home/folder"), a.Name+".gpuaas:")
	s.local(nil, "ssh", a.Name+".gpuaas", "rm folder/deep/7; echo changed > folder/deep/8")
	s.local(nil, "rsync", "-a", "--delete", a.Name+".gpuaas:folder", s.path("home"))
	files, err := os.ReadDir(s.path("home/folder/deep"))
	must(s.t, err)
	if changed, err := os.ReadFile(s.path("home/folder/deep/8")); err != nil || string(changed) != "changed\n" || len(files) != 99 {
		s.t.Errorf("%d files, %q, %v", len(files), changed, err)
	}
}

// pushes pushes a commit to a repository on the node, and clones it back.
func (s *scenario) pushes(a allocation) {
	s.t.Helper()
	s.local(nil, "ssh", a.Name+".gpuaas", "git init -q --bare -b main repo.git")
	work, back := s.path("home/work"), s.path("home/back")
	s.local(nil, "git", "init", "-q", "-b", "main", work)
	s.local(nil, "git", "-C", work, "-c", "user.name=a", "-c", "user.email=a@example.test", "commit", "-q", "--allow-empty", "-m", "first")
	s.local(nil, "git", "-C", work, "push", "-q", a.Name+".gpuaas:repo.git", "main")
	s.local(nil, "git", "clone", "-q", a.Name+".gpuaas:repo.git", back)
	want, got := s.local(nil, "git", "-C", work, "rev-parse", "HEAD"), s.local(nil, "git", "-C", back, "rev-parse", "HEAD")
	if got != want {
		s.t.Errorf("the clone has %s, want %s", got, want)
	}
}

// logs reads what the journal of the node has about the logins.
func (s *scenario) logs(a allocation) {
	s.t.Helper()
	if out := s.local(nil, "gpuaas", "alloc", "logs", a.Name, "--source", "login"); !strings.Contains(out, "login accepted") || !strings.Contains(out, "session opened") {
		s.t.Errorf("the log of the allocation has %q", out)
	}
	if out := s.cli("default-operator", "node", "logs", "gpu-a", "--source", "sshd", "--tail", "50"); !strings.Contains(out, "Accepted publickey for "+a.Login) {
		s.t.Errorf("the log of sshd has %q", out)
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
