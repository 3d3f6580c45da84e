package smtp

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/race"
	"github.com/gpuaas/gpuaas/platform/notification/mail"
	"github.com/gpuaas/gpuaas/platform/notification/smtp/smtptest"
)

func message(to string) mail.Message {
	return mail.Message{
		ID: "01990f46-1111-7222-8333-444455556666@gpuaas.test", From: "GPUaaS <noreply@gpuaas.test>", To: to, Subject: "Balance is low",
		Text: "The balance is EUR 9.00.\n", HTML: "<p>The balance is EUR 9.00.</p>", Thread: "resource-1@gpuaas.test",
		UnsubscribeURL: "https://gpuaas.test/notifications/unsubscribe?link=abc", Kind: "low_balance",
	}
}

func sender(t *testing.T, s *smtptest.Server, change func(*Config)) *Sender {
	t.Helper()
	cfg := Config{Host: s.Host, Port: s.Port, Timeout: race.Slower * 5 * time.Second}
	if change != nil {
		change(&cfg)
	}
	sender := New(cfg)
	t.Cleanup(sender.Close)
	return sender
}

// certificate returns the certificate of mail.test, and a pool that trusts it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"mail.test"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// A message is sent over TLS only, to a server with a trusted certificate, after a login. Loopback is an exception.
func TestTLSAndLogin(t *testing.T) {
	t.Parallel()
	own, pool := certificate(t)
	encrypted := &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}
	login := func(password string) func(context.Context) (string, string, error) {
		return func(context.Context) (string, string, error) { return "gpuaas", password, nil }
	}
	for name, c := range map[string]struct {
		server   smtptest.Config
		roots    *x509.CertPool
		password string
		sent     bool
	}{
		"trusted":            {smtptest.Config{TLS: encrypted, User: "gpuaas", Password: "secret"}, pool, "secret", true},
		"without TLS":        {smtptest.Config{User: "gpuaas", Password: "secret"}, pool, "secret", false},
		"not trusted":        {smtptest.Config{TLS: encrypted, User: "gpuaas", Password: "secret"}, x509.NewCertPool(), "secret", false},
		"the wrong password": {smtptest.Config{TLS: encrypted, User: "gpuaas", Password: "secret"}, pool, "other", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := smtptest.Start(t, c.server)
			to := sender(t, s, func(cfg *Config) {
				cfg.Host, cfg.Credentials = "mail.test", login(c.password)
				cfg.TLS = &tls.Config{RootCAs: c.roots, ServerName: "mail.test", MinVersion: tls.VersionTLS12}
				cfg.dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
					return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(s.Host, strconv.Itoa(s.Port)))
				}
			})
			err := to.Send(t.Context(), message("dev@example.test"))
			received, _ := s.Received()
			if (err == nil) != c.sent || len(received) != map[bool]int{true: 1}[c.sent] {
				t.Errorf("%d messages, %v", len(received), err)
			}
			if _, rejected := errors.AsType[*mail.RejectedError](err); rejected {
				t.Errorf("the address is blamed: %v", err)
			}
		})
	}
}

// Only a permanent response about the recipient rejects the address.
func TestWhichResponsesRejectTheAddress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		command  string
		code     int
		enhanced string
		rejected bool
	}{
		{"MAIL", 451, "4.1.1", false},
		{"RCPT", 450, "4.1.1", false},
		{"DATA", 452, "4.1.1", false},
		{"MAIL", 550, "5.1.1", false},
		{"RCPT", 550, "5.1.1", true},
		{"RCPT", 550, "5.2.1", true},
		{"RCPT", 554, "5.7.1", false}, // relay access denied: no recipient would be accepted
		{"RCPT", 552, "5.2.2", false}, // the mailbox is full
		{"DATA", 554, "5.7.1", false}, // the content or our domain
		{"DATA", 554, "5.1.1", false},
	} {
		t.Run(fmt.Sprint(c.command, c.code, c.enhanced), func(t *testing.T) {
			t.Parallel()
			s := smtptest.Start(t, smtptest.Config{Fail: func(command string, n int) error {
				if command == c.command && n == 1 {
					return smtptest.Reject(c.code, c.enhanced, "<dev@example.test>: no such user")
				}
				return nil
			}})
			to := sender(t, s, nil)
			err := to.Send(t.Context(), message("dev@example.test"))
			rejected, ok := errors.AsType[*mail.RejectedError](err)
			if err == nil || ok != c.rejected || strings.Contains(err.Error(), "dev@example.test") {
				t.Errorf("%v", err)
			}
			if ok && (rejected.Code != c.code || !strings.Contains(rejected.Text, "no such user")) {
				t.Errorf("%+v", rejected)
			}
			// The next message uses the same connection.
			if err := to.Send(t.Context(), message("dev@example.test")); err != nil || s.Connections() != 1 {
				t.Errorf("%v after %d connections", err, s.Connections())
			}
		})
	}
}

// A connection that ends at any command costs at most one duplicate, with the same id.
func TestCutConnections(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"EHLO", "MAIL", "RCPT", "DATA", ".", "accepted", "NOOP", "RSET", "QUIT"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			s := smtptest.Start(t, smtptest.Config{Cut: at})
			to := sender(t, s, nil)
			first := to.Send(t.Context(), message("dev@example.test"))
			if _, rejected := errors.AsType[*mail.RejectedError](first); rejected {
				t.Errorf("%v", first)
			}
			want := 1
			if first != nil {
				if err := to.Send(t.Context(), message("dev@example.test")); err != nil {
					t.Fatal(err)
				}
				if at == "accepted" {
					want = 2
				}
			}
			received, _ := s.Received()
			if len(received) != want {
				t.Errorf("%d messages after %v", len(received), first)
			}
			for _, m := range received {
				if m.Header.Get("Message-Id") != "<01990f46-1111-7222-8333-444455556666@gpuaas.test>" {
					t.Errorf("%v", m.Header)
				}
			}
		})
	}
}

// A server that does not respond costs no more than the timeout.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := smtptest.Start(t, smtptest.Config{Fail: func(command string, _ int) error {
		if command == "RCPT" {
			<-release
		}
		return nil
	}})
	t.Cleanup(func() { close(release) })
	to := sender(t, s, func(cfg *Config) { cfg.Timeout = race.Slower * 200 * time.Millisecond })
	began := time.Now()
	if err := to.Send(t.Context(), message("dev@example.test")); err == nil || time.Since(began) > race.Slower*5*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}

// A domain receives no more messages at once than its burst, and another domain is not affected.
func TestRateOfADomain(t *testing.T) {
	t.Parallel()
	s := smtptest.Start(t, smtptest.Config{})
	to := sender(t, s, func(cfg *Config) { cfg.PerDomain = 0.001 })
	for i := range burst {
		if err := to.Send(t.Context(), message(fmt.Sprintf("user%d@example.test", i))); err != nil {
			t.Fatal(err)
		}
	}
	busy, ok := errors.AsType[*mail.BusyError](to.Send(t.Context(), message("more@Example.test")))
	if !ok || busy.After <= 0 {
		t.Errorf("%+v", busy)
	}
	if err := to.Send(t.Context(), message("dev@other.test")); err != nil || s.Connections() != 1 {
		t.Errorf("%v over %d connections", err, s.Connections())
	}
}

// The headers and both forms of the body arrive as they were written, and an unusual text adds no header.
func TestMessagesAreParsedBack(t *testing.T) {
	t.Parallel()
	s := smtptest.Start(t, smtptest.Config{})
	to := sender(t, s, nil)
	m := message("dev@example.test")
	m.Subject = "Größe\r\nBcc: other@example.test"
	m.Text, m.HTML = strings.Repeat("Größe = 1. ", 30)+"\n.\n", "<p>"+strings.Repeat("Größe = 1. ", 30)+"</p>"
	if err := to.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	all, bodies := s.Received()
	got := all[0]
	for name, want := range map[string]string{
		"Auto-Submitted": "auto-generated", "References": "<resource-1@gpuaas.test>", "In-Reply-To": "<resource-1@gpuaas.test>", "Bcc": "",
		"List-Unsubscribe": "<https://gpuaas.test/notifications/unsubscribe?link=abc>", "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
	} {
		if got.Header.Get(name) != want {
			t.Errorf("%s: %q", name, got.Header.Get(name))
		}
	}
	if subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject")); err != nil || !strings.HasPrefix(subject, "Größe") {
		t.Errorf("%q, %v", subject, err)
	}
	text, html := parts(t, got, bodies[0])
	if strings.ReplaceAll(text, "\r\n", "\n") != m.Text || html != m.HTML {
		t.Errorf("%q and %q", text, html)
	}
}

func parts(t *testing.T, m *netmail.Message, body string) (text, html string) {
	t.Helper()
	kind, parameters, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("%s, %v", kind, err)
	}
	r := multipart.NewReader(strings.NewReader(body), parameters["boundary"])
	for {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return text, html
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(quotedprintable.NewReader(p))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(p.Header.Get("Content-Type"), "text/html") {
			html = string(content)
		} else {
			text = string(content)
		}
	}
}

// An address with a line break or more than one recipient is rejected before it reaches the server.
func TestHostileAddresses(t *testing.T) {
	t.Parallel()
	s := smtptest.Start(t, smtptest.Config{})
	to := sender(t, s, nil)
	for _, address := range []string{"a@example.test\r\nRCPT TO:<b@example.test>", "a@example.test, b@example.test", "a@", "", "a b@example.test", "a@example.test>\r\nDATA"} {
		err := to.Send(t.Context(), message(address))
		if _, rejected := errors.AsType[*mail.RejectedError](err); !rejected {
			t.Errorf("%q: %v", address, err)
		}
	}
	if err := to.Send(t.Context(), message(`"quoted part"@example.test`)); err != nil {
		t.Errorf("a quoted address: %v", err)
	}
	if all, _ := s.Received(); len(all) != 1 {
		t.Errorf("%d messages", len(all))
	}
}
