package relay_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
)

// sshd replaces the SSH server of the node: each connection is given to the function.
func (i *installation) sshd(serve func(*net.TCPConn)) {
	i.t.Helper()
	l := listen(i.t)
	i.t.Cleanup(func() { _ = l.Close() })
	must(i.t, os.WriteFile(sim.LoginFile(i.stateDir), []byte(l.Addr().String()+"\n"), 0o600))
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn.(*net.TCPConn))
		}
	}()
}

// However sshd ends, the server receives all of its output and then the announcement of its end.
func TestTheEndOfSSHDIsAnnounced(t *testing.T) {
	t.Parallel()
	i := setup(t)
	of := i.provision(1)
	large := make([]byte, 3<<20)
	_, _ = rand.Read(large)
	for name, c := range map[string]struct {
		end    func(*net.TCPConn)
		output []byte
		typed  int // bytes that sshd does not read
	}{
		"sshd closes":                     {func(conn *net.TCPConn) { _ = conn.Close() }, large, 0},
		"sshd ends its output only":       {func(conn *net.TCPConn) { _ = conn.CloseWrite() }, large, 0},
		"sshd resets":                     {func(conn *net.TCPConn) { _ = errors.Join(conn.SetLinger(0), conn.Close()) }, nil, 0},
		"sshd resets while a user types":  {func(conn *net.TCPConn) { _ = errors.Join(conn.SetLinger(0), conn.Close()) }, nil, 8 << 20},
		"sshd closes while a user types":  {func(conn *net.TCPConn) { _ = conn.Close() }, nil, 8 << 20},
		"sshd half-closes under a stream": {func(conn *net.TCPConn) { _ = conn.CloseWrite(); _, _ = io.Copy(io.Discard, conn) }, large, 8 << 20},
	} {
		i.sshd(func(conn *net.TCPConn) {
			_, _ = conn.Write(c.output)
			time.Sleep(50 * time.Millisecond) // the agent has connected: a reset before would be a node that accepts no connection
			c.end(conn)
		})
		conn, err := i.dial(of, 1)
		must(t, err)
		go func() { _, _ = conn.Write(make([]byte, c.typed)) }()
		got, err := io.ReadAll(conn) // nil: io.EOF
		if err != nil || !bytes.Equal(got, c.output) {
			t.Errorf("%s: %d of %d bytes, %v", name, len(got), len(c.output), err)
		}
		must(t, conn.Close())
		i.eventually("no stream is left", func() bool { return i.streams() == "logs 0, ssh 0" })
	}
}

// A connection that the agent has not ended is lost, although crypto/tls reports io.EOF for it.
func TestAnAgentThatEndsLosesItsStreams(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*installation){
		"the agent":   func(i *installation) { i.stopNode() },
		"a partition": func(i *installation) { must(i.t, sim.Partition(i.stateDir)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := setup(t)
			of := i.provision(1)
			i.sshd(func(conn *net.TCPConn) { _, _ = io.Copy(conn, conn) })
			conn, err := i.dial(of, 1)
			must(t, err)
			_, err = conn.Write([]byte("echo"))
			must(t, err)
			_, err = io.ReadFull(conn, make([]byte, 4))
			must(t, err)
			end(i)
			if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("the end of the stream: %v", err)
			}
			_ = conn.Close()
		})
	}
}
