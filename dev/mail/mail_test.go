package mail

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/platform/notification/mail"
	"github.com/gpuaas/gpuaas/platform/notification/smtp"
)

// start runs the server, and returns a Mailer that sends to it.
func start(t *testing.T, s *Server) *smtp.Sender {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accept, ended := s.SMTP(), make(chan error, 1)
	go func() { ended <- accept.Serve(l) }()
	address, _ := l.Addr().(*net.TCPAddr)
	sender := smtp.New(smtp.Config{Host: "127.0.0.1", Port: address.Port})
	t.Cleanup(func() {
		sender.Close()
		if err := accept.Close(); err != nil {
			t.Error(err)
		}
		<-ended //nolint:errcheck // it ends with its listener
	})
	return sender
}

func get(t *testing.T, s *Server, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// An e-mail that was sent over SMTP is on the page, in both forms, and its subject adds no element.
func TestAnEmailIsOnThePage(t *testing.T) {
	t.Parallel()
	s := &Server{}
	sender := start(t, s)
	m := mail.Message{ID: "1@x", From: "GPUaaS <noreply@dev.localhost>", To: "dev@dev.localhost", Subject: "Größe <script>", Text: "Größe = 1\n", HTML: "<p>Größe = 1</p>"}
	if err := sender.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if code, page := get(t, s, "/"); code != http.StatusOK || !strings.Contains(page, "Größe &lt;script&gt;") || !strings.Contains(page, "dev@dev.localhost") {
		t.Errorf("%d %s", code, page)
	}
	if _, page := get(t, s, "/1"); !strings.Contains(page, "Größe = 1") {
		t.Error(page)
	}
	if _, page := get(t, s, "/1/html"); page != m.HTML {
		t.Errorf("%q", page)
	}
	if _, raw := get(t, s, "/1/raw"); !strings.Contains(raw, "Message-ID: <1@x>") {
		t.Errorf("%q", raw)
	}
	for _, path := range []string{"/2", "/x", "/1/other"} {
		if code, _ := get(t, s, path); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
}

// The page has the last e-mails only, whatever they contain.
func TestOldEmailsAreDropped(t *testing.T) {
	t.Parallel()
	s := &Server{}
	for i := range stored + 5 {
		s.add(Message{Raw: []byte("Subject: " + strconv.Itoa(i) + "\r\n\r\nx")})
	}
	s.add(Message{Raw: []byte("no e-mail")})
	all := s.Messages()
	if len(all) != stored || all[0].Text != "no e-mail" || all[1].Subject != strconv.Itoa(stored+4) {
		t.Errorf("%d e-mails, %+v", len(all), all[:2])
	}
}
