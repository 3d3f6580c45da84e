// Package smtp sends e-mails to a mail server. It repeats nothing: the caller knows which errors are temporary.
package smtp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"strings"
	"sync"
	"time"

	gomail "github.com/wneessen/go-mail"
	"golang.org/x/time/rate"

	"github.com/gpuaas/gpuaas/platform/notification/mail"
)

// Config is a mail server.
type Config struct {
	Host string
	Port int
	// Credentials returns the login; nil: none. It is called for each connection, so that a new password needs no restart.
	Credentials func(context.Context) (user, password string, err error)
	// TLS is for tests; nil: the trusted certificates of the system.
	TLS *tls.Config
	// PerDomain bounds the messages per second to one domain; zero: perDomain.
	PerDomain rate.Limit
	// Timeout bounds one connection or message; zero: timeout.
	Timeout time.Duration

	dial func(ctx context.Context, network, address string) (net.Conn, error) // for tests
}

const (
	// implicitTLS is the port on which TLS begins at once.
	implicitTLS = 465
	timeout     = 20 * time.Second
	// Without a limit, the mails of a large tenant would fill the queue of its mail server, which would then defer all of them.
	perDomain rate.Limit = 10
	burst     int        = 20
	// A mail that must wait is tried again after leastWait and a random time up to spread, so that many mails to one domain do not
	// return at once.
	leastWait, spread = time.Second, 5 * time.Second
	// idleConns is the number of connections that wait for the next message, as many as workers send at once.
	idleConns = 8
	// maxDomains bounds the memory of the limits.
	maxDomains = 10_000
)

// Sender is a mail.Mailer. It reuses connections.
type Sender struct {
	cfg  Config
	idle chan *gomail.Client

	mu     sync.Mutex
	limits map[string]*rate.Limiter
}

var _ mail.Mailer = (*Sender)(nil)

// New connects with the first message.
func New(cfg Config) *Sender {
	if cfg.Timeout == 0 {
		cfg.Timeout = timeout
	}
	if cfg.PerDomain == 0 {
		cfg.PerDomain = perDomain
	}
	return &Sender{cfg: cfg, idle: make(chan *gomail.Client, idleConns), limits: map[string]*rate.Limiter{}}
}

// Loopback reports whether a name or an address is that of the local machine. Only then TLS is optional.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Send sends one message over an idle connection, or a new one. A server may have closed an idle connection meanwhile: the
// next one is used then, as nothing was sent.
func (s *Sender) Send(ctx context.Context, m mail.Message) error {
	if wait := s.reserve(m.To); wait > 0 {
		return &mail.BusyError{After: wait + leastWait + rand.N(spread)} //nolint:gosec // no secret
	}
	msg, err := compose(m)
	if err != nil {
		return err
	}
	for {
		client, reused, err := s.connection(ctx)
		if err != nil {
			return fmt.Errorf("connecting to the mail server: %w", err)
		}
		err = client.Send(msg)
		if msg.IsDelivered() {
			s.release(client)
			return nil // the server has accepted the message, whatever followed
		}
		failed, ok := errors.AsType[*gomail.SendError](err)
		if reused && ok && failed.Reason == gomail.ErrConnCheck {
			_ = client.Close()
			continue
		}
		if ok && failed.ErrorCode() != 0 {
			s.release(client) // the server has responded
		} else {
			_ = client.Close()
		}
		return outcome(err, failed, m.To)
	}
}

// badAddress are the enhanced status codes of an address that does not exist or is disabled (RFC 3463). With any other
// code a server rejects our sender, our login or the content: that is corrected here, and no address is suppressed for it.
var badAddress = regexp.MustCompile(`^5\.(1\.[0-9]+|2\.1)$`)

// outcome returns a permanent rejection of the recipient as such.
func outcome(err error, failed *gomail.SendError, address string) error {
	text := withoutAddress(err, address)
	if failed != nil && failed.Reason == gomail.ErrSMTPRcptTo && !failed.IsTemp() && badAddress.MatchString(failed.EnhancedStatusCode()) {
		_, text, _ = strings.Cut(text, ": ")
		return &mail.RejectedError{Code: failed.ErrorCode(), Text: text}
	}
	return fmt.Errorf("sending an e-mail: %s", text)
}

// withoutAddress removes the recipient from the error, because errors of jobs are stored and displayed. Servers repeat it.
func withoutAddress(err error, address string) string {
	text, _, _ := strings.Cut(err.Error(), ", affected")
	return regexp.MustCompile("(?i)"+regexp.QuoteMeta(address)).ReplaceAllString(text, "the address")
}

// reserve returns how long the domain of the address must wait.
func (s *Sender) reserve(address string) time.Duration {
	domain := strings.ToLower(address[strings.LastIndexByte(address, '@')+1:])
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.limits[domain]
	if limit == nil {
		if len(s.limits) >= maxDomains {
			clear(s.limits)
		}
		limit = rate.NewLimiter(s.cfg.PerDomain, burst)
		s.limits[domain] = limit
	}
	r := limit.Reserve()
	wait := r.Delay()
	if wait > 0 {
		r.Cancel()
	}
	return wait
}

func (s *Sender) connection(ctx context.Context) (client *gomail.Client, reused bool, err error) {
	select {
	case client = <-s.idle:
		return client, true, nil
	default:
	}
	options := []gomail.Option{gomail.WithPort(s.cfg.Port), gomail.WithTimeout(s.cfg.Timeout), gomail.WithTLSPolicy(gomail.TLSMandatory)}
	switch {
	case s.cfg.Port == implicitTLS:
		options = append(options, gomail.WithSSL())
	case Loopback(s.cfg.Host):
		options = append(options, gomail.WithTLSPolicy(gomail.TLSOpportunistic))
	}
	if s.cfg.dial != nil {
		options = append(options, gomail.WithDialContextFunc(s.cfg.dial))
	}
	if s.cfg.TLS != nil {
		options = append(options, gomail.WithTLSConfig(s.cfg.TLS))
	}
	if s.cfg.Credentials != nil {
		user, password, err := s.cfg.Credentials(ctx)
		if err != nil {
			return nil, false, err
		}
		options = append(options, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover), gomail.WithUsername(user), gomail.WithPassword(password))
	}
	if client, err = gomail.NewClient(s.cfg.Host, options...); err == nil {
		err = client.DialWithContext(ctx)
	}
	return client, false, err
}

func (s *Sender) release(client *gomail.Client) {
	select {
	case s.idle <- client:
	default:
		_ = client.Close()
	}
}

// Close ends the idle connections.
func (s *Sender) Close() {
	for {
		select {
		case client := <-s.idle:
			_ = client.Close()
		default:
			return
		}
	}
}

// compose writes the headers. The library encodes and folds them.
func compose(m mail.Message) (*gomail.Msg, error) {
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	if err := msg.From(m.From); err != nil {
		return nil, fmt.Errorf("the sender of e-mails: %w", err)
	}
	if err := msg.To(m.To); err != nil {
		// Nothing can be sent to this address, now or later. Its text is that of a user.
		return nil, &mail.RejectedError{Text: "the address is not a valid e-mail address"}
	}
	msg.Subject(m.Subject)
	msg.SetMessageIDWithValue(m.ID)
	msg.SetDate()
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	if m.CorrelationID != "" {
		msg.SetGenHeader("X-Correlation-ID", m.CorrelationID)
	}
	if m.Thread != "" {
		msg.SetGenHeader(gomail.HeaderReferences, "<"+m.Thread+">")
		msg.SetGenHeader(gomail.HeaderInReplyTo, "<"+m.Thread+">")
	}
	if m.UnsubscribeURL != "" {
		msg.SetGenHeaderPreformatted(gomail.HeaderListUnsubscribe, "<"+m.UnsubscribeURL+">")
		msg.SetGenHeader(gomail.HeaderListUnsubscribePost, "List-Unsubscribe=One-Click")
	}
	msg.SetBodyString(gomail.TypeTextPlain, m.Text)
	msg.AddAlternativeString(gomail.TypeTextHTML, m.HTML)
	return msg, nil
}
