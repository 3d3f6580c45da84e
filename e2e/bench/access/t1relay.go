package access

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/agent/enrol"
	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/agent/relay"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/protocol"
)

// relayed is the number of bytes that one run moves.
const relayed = 256 << 20

// leg is the way of an agent: from an sshd that only sends, to a terminal server that only receives.
type leg struct {
	login  net.Listener
	server net.Listener
	key    string // fingerprint of the terminal server
	bytes  int64
}

// RelayLeg compares a stream of the agent with a bare copy from a TCP connection to a TLS connection.
func RelayLeg(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	n := l.Scaled(relayed, 4<<20)
	g, err := newLeg(ctx, int64(n))
	if err != nil {
		return nil, err
	}
	defer g.close()
	identity := &enrol.Identity{Node: ids.New[ids.Node]()}
	agent := &relay.Relay{
		Identity: func() *enrol.Identity { return identity }, Log: lab.Quiet(l.Log),
		Stream: func(context.Context, protocol.Signed) (helper.Stream, error) {
			return helper.Stream{ID: ids.New[ids.Task](), Address: g.server.Addr().String(), ServerKey: g.key, Login: g.login.Addr().String()}, nil
		},
	}
	ours := func(ctx context.Context) (time.Duration, error) {
		go func() { _ = agent.Open(ctx, protocol.Signed{}) }()
		return 0, g.receive(true)
	}
	bare := func(ctx context.Context) (time.Duration, error) {
		go g.splice(ctx)
		return 0, g.receive(false)
	}
	p, err := l.Alternate(ctx, pairs, nothing, ours, bare)
	if err != nil {
		return nil, err
	}
	return []lab.Row{lab.Throughput(p, n>>10, "T1-relay", fmt.Sprintf("stream of an agent, %d MiB / a bare copy to TLS", n>>20)).AtLeast(0.9)}, nil
}

func newLeg(ctx context.Context, n int64) (*leg, error) {
	certificate, err := ownCertificate()
	if err != nil {
		return nil, err
	}
	g := &leg{bytes: n, key: pki.KeyFingerprint(certificate.Leaf)}
	if g.login, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	server, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	g.server = tls.NewListener(server, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}})
	go g.send()
	return g, nil
}

func (g *leg) close() {
	_ = g.login.Close()
	_ = g.server.Close()
}

// send is the sshd.
func (g *leg) send() {
	p := make([]byte, 64<<10)
	for {
		conn, err := g.login.Accept()
		if err != nil {
			return // closed
		}
		for left := g.bytes; left > 0 && err == nil; left -= int64(len(p)) {
			_, err = conn.Write(p[:min(left, int64(len(p)))])
		}
		_ = conn.Close()
	}
}

// receive is the terminal server.
func (g *leg) receive(http1 bool) error {
	conn, err := g.server.Accept()
	if err != nil {
		return fmt.Errorf("accepting a stream: %w", err)
	}
	defer conn.Close() //nolint:errcheck // all was read
	reader := bufio.NewReader(conn)
	if http1 {
		if _, err := http.ReadRequest(reader); err != nil {
			return fmt.Errorf("reading a request: %w", err)
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n"); err != nil {
			return fmt.Errorf("responding: %w", err)
		}
	}
	// Without ReadFrom, so that both sides are read with the same buffer.
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{reader}, make([]byte, 64<<10))
	if err != nil || n != g.bytes {
		return fmt.Errorf("received %d bytes of %d: %w", n, g.bytes, err)
	}
	return nil
}

// splice is the peer: a copy in each direction.
func (g *leg) splice(ctx context.Context) {
	from, err := (&net.Dialer{}).DialContext(ctx, "tcp", g.login.Addr().String())
	if err != nil {
		return // receive fails
	}
	defer from.Close() //nolint:errcheck // its bytes were received
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", g.server.Addr().String())
	if err != nil {
		return
	}
	to := tls.Client(raw, pki.KeyTLS(g.key, clock.Clock{}))
	defer to.Close() //nolint:errcheck // likewise
	go func() { _, _ = io.Copy(from, to) }()
	_, _ = io.Copy(to, from)
}
