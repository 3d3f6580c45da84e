// Package smtptest is a mail server in the process of a test. It fails where a test requests it.
package smtptest

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// Config contains the properties of a server.
type Config struct {
	TLS            *tls.Config // offers STARTTLS
	User, Password string      // require AUTH
	// Fail returns the response to a command (MAIL, RCPT, DATA), or nil; n counts the calls of this command.
	Fail func(command string, n int) error
	// Cut closes the first connection when this command arrives: EHLO, MAIL, RCPT, DATA, "." or QUIT. "accepted" closes it
	// after the message was accepted, and before its response.
	Cut string
}

// Server is a running server.
type Server struct {
	Host string
	Port int

	cfg         Config
	mu          sync.Mutex
	received    []*mail.Message
	bodies      []string
	calls       map[string]int
	connections atomic.Int32
	cut         atomic.Bool
}

// Start runs a server until the test ends.
func Start(t *testing.T, cfg Config) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ends with the test
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, cfg: cfg, calls: map[string]int{}} //nolint:forcetypeassert // a TCP listener
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &session{s: s, in: cfg.User == ""}, nil }))
	server.Domain, server.TLSConfig, server.AllowInsecureAuth = "mail.test", cfg.TLS, true
	server.ReadTimeout, server.WriteTimeout = 10*time.Second, 10*time.Second
	server.ErrorLog = discard{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(&listener{l, s})
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return s
}

type discard struct{}

func (discard) Printf(string, ...any) {}
func (discard) Println(...any)        {}

// Reject returns a response for Config.Fail.
func Reject(code int, enhanced, text string) error {
	var status smtp.EnhancedCode
	if _, err := fmt.Sscanf(enhanced, "%d.%d.%d", &status[0], &status[1], &status[2]); err != nil {
		return fmt.Errorf("enhanced status code %q: %w", enhanced, err)
	}
	return &smtp.SMTPError{Code: code, EnhancedCode: status, Message: text}
}

// Received returns the accepted messages with their bodies.
func (s *Server) Received() ([]*mail.Message, []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.received), slices.Clone(s.bodies)
}

// Connections returns the number of connections so far.
func (s *Server) Connections() int { return int(s.connections.Load()) }

func (s *Server) respond(command string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[command]++
	if s.cfg.Fail == nil {
		return nil
	}
	return s.cfg.Fail(command, s.calls[command])
}

type session struct {
	s  *Server
	in bool
}

func (*session) Reset()        {}
func (*session) Logout() error { return nil }

func (*session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (c *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != c.s.cfg.User || password != c.s.cfg.Password {
			return smtp.ErrAuthFailed
		}
		c.in = true
		return nil
	}), nil
}

func (c *session) Mail(string, *smtp.MailOptions) error {
	if !c.in {
		return smtp.ErrAuthRequired
	}
	return c.s.respond("MAIL")
}

func (c *session) Rcpt(string, *smtp.RcptOptions) error { return c.s.respond("RCPT") }

func (c *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := c.s.respond("DATA"); err != nil {
		return err
	}
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	_, body, _ := strings.Cut(string(raw), "\r\n\r\n")
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.received, c.s.bodies = append(c.s.received, m), append(c.s.bodies, body)
	return nil
}

// listener closes connections at a command.
type listener struct {
	net.Listener

	s *Server
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.s.connections.Add(1)
	return &conn{Conn: c, s: l.s}, nil
}

type conn struct {
	net.Conn

	s     *Server
	ended atomic.Bool // the message has arrived
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	text := string(b[:n])
	at := c.s.cfg.Cut
	if at == "accepted" && strings.HasSuffix(text, "\r\n.\r\n") {
		c.ended.Store(true)
	}
	matches := at == "." && strings.HasSuffix(text, "\r\n.\r\n") || at != "" && at != "." && strings.HasPrefix(text, at)
	if matches && c.s.cut.CompareAndSwap(false, true) {
		_ = c.Close()
		return 0, io.EOF
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	if c.ended.Load() && c.s.cut.CompareAndSwap(false, true) {
		_ = c.Close()
		return 0, io.ErrClosedPipe
	}
	return c.Conn.Write(b)
}
