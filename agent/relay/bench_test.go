package relay_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/gpuaas/gpuaas/agent/enrol"
	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/agent/relay"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// source is an sshd that only sends.
func source(b *testing.B, bytes int64) net.Listener {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p := make([]byte, 64<<10)
			for sent := int64(0); sent < bytes; sent += int64(len(p)) {
				if _, err := conn.Write(p); err != nil {
					break
				}
			}
			_ = conn.Close()
		}
	}()
	return l
}

const moved = 256 << 20

// BenchmarkStream is T1-relay: the leg of the agent, from sshd to the terminal server.
func BenchmarkStream(b *testing.B) {
	b.SetBytes(moved)
	login := source(b, moved)
	l, key := listen(b)
	identity := &enrol.Identity{Node: ids.New[ids.Node]()}
	r := &relay.Relay{
		Identity: func() *enrol.Identity { return identity }, Log: slog.New(slog.DiscardHandler),
		Stream: func(context.Context, protocol.Signed) (helper.Stream, error) {
			return helper.Stream{ID: ids.New[ids.Task](), Address: l.Addr().String(), ServerKey: key, Login: login.Addr().String()}, nil
		},
	}
	for b.Loop() {
		go func() { _ = r.Open(b.Context(), protocol.Signed{}) }()
		conn, err := l.Accept()
		must(b, err)
		reader := bufio.NewReader(conn)
		_, err = http.ReadRequest(reader)
		must(b, err)
		_, err = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
		must(b, err)
		drain(b, reader)
		_ = conn.Close()
	}
}

func drain(b *testing.B, from io.Reader) {
	b.Helper()
	if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, from, make([]byte, 64<<10)); err != nil || n != moved {
		b.Fatalf("%d bytes, %v", n, err)
	}
}

// BenchmarkSplice is the limit: the same bytes over a bare TLS connection.
func BenchmarkSplice(b *testing.B) {
	b.SetBytes(moved)
	login := source(b, moved)
	l, _ := listen(b)
	for b.Loop() {
		go func() {
			from, err := net.Dial("tcp", login.Addr().String())
			if err != nil {
				return
			}
			to, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true})
			if err != nil {
				return
			}
			_, _ = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 64<<10))
			_ = to.Close()
		}()
		conn, err := l.Accept()
		must(b, err)
		drain(b, bufio.NewReader(conn))
		_ = conn.Close()
	}
}
