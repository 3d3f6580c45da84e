package relay_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/enrol"
	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/agent/relay"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// listen returns the listener of a terminal server, and the hash of its key.
func listen(t testing.TB) (l net.Listener, serverKey string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	leaf, err := x509.ParseCertificate(der)
	must(t, err)
	sum := sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
	l, err = tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l, hex.EncodeToString(sum[:])
}

// INV-53: an agent sends nothing to a server with another key than the request names, also over a resumed session.
func TestINV53TheKeyOfTheServerIsThatOfTheRequest(t *testing.T) {
	t.Parallel()
	l, right := listen(t)
	received := make(chan string, 10)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			text := make([]byte, 4)
			_, _ = io.ReadFull(conn, text)
			received <- strings.TrimRight(string(text), "\x00")
			_ = conn.Close()
		}
	}()
	identity := &enrol.Identity{Node: ids.New[ids.Node]()}
	var serverKey string
	r := &relay.Relay{
		Identity: func() *enrol.Identity { return identity }, Log: slog.New(slog.DiscardHandler),
		Stream: func(context.Context, protocol.Signed) (helper.Stream, error) {
			return helper.Stream{ID: ids.New[ids.Task](), Address: l.Addr().String(), ServerKey: serverKey, Reason: "not_active: a reason"}, nil
		},
	}
	for _, try := range []struct{ key, want string }{
		{strings.Repeat("0", 64), ""}, {right, "GET "}, {right, "GET "}, {strings.Repeat("0", 64), ""}, {right[:32] + strings.Repeat("0", 32), ""},
	} {
		serverKey = try.key
		must(t, r.Open(t.Context(), protocol.Signed{}))
		if got := <-received; got != try.want {
			t.Errorf("key %s: the server received %q, want %q", try.key, got, try.want)
		}
	}
	if r.Streams() != 0 {
		t.Errorf("%d streams are left", r.Streams())
	}
}
