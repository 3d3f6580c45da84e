// Package mail is a development double of a mail server: it accepts every e-mail over SMTP on loopback, sends none of them
// further, and shows the last ones on a page.
package mail

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/http"
	netmail "net/mail"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/gpuaas/gpuaas/internal/clock"
)

const (
	// stored is the number of e-mails that the page shows. Earlier ones are dropped.
	stored     = 200
	maxMessage = 1 << 20
)

// Message is a received e-mail.
type Message struct {
	ID         int // counts from 1
	From       string
	To         []string
	ReceivedAt time.Time
	Raw        []byte

	Subject    string
	Text, HTML string
}

// Server accepts e-mails. Its zero value is empty.
type Server struct {
	mu   sync.Mutex
	all  []Message
	next int
}

// SMTP returns the server for a listener. It needs no login, because it is on loopback.
func (s *Server) SMTP() *smtp.Server {
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &session{to: s}, nil }))
	server.Domain = "localhost"
	server.MaxMessageBytes = maxMessage
	server.MaxRecipients = 50
	server.ReadTimeout, server.WriteTimeout = time.Minute, time.Minute
	return server
}

// session receives the e-mails of one connection.
type session struct {
	to   *Server
	from string
	rcpt []string
}

func (s *session) Reset()        { s.from, s.rcpt = "", nil }
func (s *session) Logout() error { return nil }

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.from = from
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.rcpt = append(s.rcpt, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("reading an e-mail: %w", err)
	}
	s.to.add(Message{From: s.from, To: slices.Clone(s.rcpt), ReceivedAt: clock.Clock{}.Now().UTC(), Raw: raw})
	return nil
}

func (s *Server) add(m Message) {
	m.parse()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	m.ID = s.next
	s.all = append(s.all, m)
	s.all = s.all[max(0, len(s.all)-stored):]
}

// Messages returns the e-mails, the newest first.
func (s *Server) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.all)
	slices.Reverse(all)
	return all
}

// parse reads the subject and both forms of the body. An e-mail that does not parse is displayed unchanged.
func (m *Message) parse() {
	msg, err := netmail.ReadMessage(bytes.NewReader(m.Raw))
	if err != nil {
		m.Subject, m.Text = "(no e-mail)", string(m.Raw)
		return
	}
	if m.Subject, err = new(mime.WordDecoder).DecodeHeader(msg.Header.Get("Subject")); err != nil {
		m.Subject = msg.Header.Get("Subject")
	}
	m.part(msg.Header.Get("Content-Type"), msg.Header.Get("Content-Transfer-Encoding"), msg.Body)
}

func (m *Message) part(contentType, encoding string, body io.Reader) {
	kind, parameters, err := mime.ParseMediaType(contentType)
	if err == nil && strings.HasPrefix(kind, "multipart/") {
		for parts := multipart.NewReader(body, parameters["boundary"]); ; {
			p, err := parts.NextRawPart()
			if err != nil {
				return
			}
			m.part(p.Header.Get("Content-Type"), p.Header.Get("Content-Transfer-Encoding"), p)
		}
	}
	if strings.EqualFold(encoding, "quoted-printable") {
		body = quotedprintable.NewReader(body)
	}
	text, err := io.ReadAll(body)
	switch {
	case err != nil && len(text) == 0:
	case kind == "text/html":
		m.HTML = string(text)
	default:
		m.Text = string(text)
	}
}

//go:embed inbox.html
var inboxText string

var inbox = template.Must(template.New("inbox").Parse(inboxText))

// ServeHTTP shows the list, one e-mail as text, as HTML, or as it was received.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-src 'self'; frame-ancestors 'self'; base-uri 'none'")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.URL.Path == "/" {
		s.show(w, map[string]any{"All": s.Messages()})
		return
	}
	id, form, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	m, err := s.find(id)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusNotFound)
	case form == "":
		s.show(w, map[string]any{"One": m})
	case form == "html":
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, m.HTML) // a browser that has left needs no page
	case form == "raw":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write(m.Raw)
	default:
		http.NotFound(w, r)
	}
}

func (s *Server) show(w http.ResponseWriter, data any) {
	var page bytes.Buffer
	if err := inbox.Execute(&page, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page.Bytes())
}

var errNotFound = errors.New("this e-mail is not stored any more")

func (s *Server) find(id string) (Message, error) {
	n, err := strconv.Atoi(id)
	if err != nil {
		return Message{}, errNotFound
	}
	for _, m := range s.Messages() {
		if m.ID == n {
			return m, nil
		}
	}
	return Message{}, errNotFound
}
