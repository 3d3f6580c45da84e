package nodeapi

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// transportBundle is a transport whose handler records the requests.
type transportBundle struct {
	*transport

	t      *testing.T
	addr   string
	config *tls.Config
	stop   context.CancelFunc
	ended  chan error

	mu     sync.Mutex
	lines  []string
	parked chan *parked // hides the field of transport
}

func setupTransport(t *testing.T, change func(*transport)) *transportBundle {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cert := selfSigned(t)
	b := &transportBundle{t: t, addr: l.Addr().String(), config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}, ended: make(chan error, 1), parked: make(chan *parked, 16)}
	b.transport = &transport{
		handler: http.HandlerFunc(b.answer), tls: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}}, log: slog.New(slog.DiscardHandler),
		handshakeWithin: 5 * time.Second, headerWithin: 5 * time.Second, bodyWithin: 5 * time.Second, writeWithin: 5 * time.Second, idleFor: 5 * time.Second, drainFor: 5 * time.Second,
	}
	if change != nil {
		change(b.transport)
	}
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	go func() { b.ended <- b.serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-b.ended; err != nil {
			t.Error(err)
		}
	})
	return b
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// answer echoes; the path chooses what else.
func (b *transportBundle) answer(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/unread":
	case "/park":
		p, err := park(w, r)
		if err != nil {
			b.t.Error(err)
		}
		b.parked <- p
		return
	case "/panic":
		panic("on purpose")
	case "/large":
		for range 100 {
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<10))
		}
		return
	case "/announced":
		w.Header().Set("Content-Length", "102400")
		for range 100 {
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<10))
		}
		return
	case "/short":
		w.Header().Set("Content-Length", "102400")
		_, _ = io.WriteString(w, strings.Repeat("x", 20<<10))
		return
	case "/none":
		w.WriteHeader(http.StatusNoContent)
		return
	}
	body := ""
	if r.URL.Path != "/unread" {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		body = string(text)
	}
	b.mu.Lock()
	b.lines = append(b.lines, r.Method+" "+r.URL.Path+" "+body)
	b.mu.Unlock()
	_, _ = io.WriteString(w, "saw "+r.Method+" "+r.URL.Path+" "+body)
}

func (b *transportBundle) saw() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines, "\n")
}

// wire is a connection that sends any bytes.
type wire struct {
	*tls.Conn

	t *testing.T
	r *bufio.Reader
}

func (b *transportBundle) dial() *wire {
	b.t.Helper()
	c, err := tls.Dial("tcp", b.addr, b.config)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		b.t.Fatal(err)
	}
	return &wire{c, b.t, bufio.NewReader(c)}
}

func (w *wire) send(text string) {
	w.t.Helper()
	if _, err := io.WriteString(w.Conn, text); err != nil {
		w.t.Error(err)
	}
}

// hear is the next answer: its status, its body, and whether the server ends the
// connection with it.
func (w *wire) hear() (status int, body string, last bool) {
	w.t.Helper()
	r, err := http.ReadResponse(w.r, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if r.Header.Get("Date") == "" {
		w.t.Error("an answer without a date")
	}
	return r.StatusCode, string(text), r.Close
}

// silent returns whether the connection ends here without another byte. A server that ends a connection before it has read the
// end of the handshake resets it.
func (w *wire) silent() bool {
	_, err := w.r.ReadByte()
	return err == io.EOF || errors.Is(err, syscall.ECONNRESET)
}
