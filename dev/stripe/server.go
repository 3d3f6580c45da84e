// Package stripe is the development double of Stripe: the API methods that the product calls, a checkout
// page, signed webhooks, and faults on demand.
package stripe

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/telemetry"
)

// Version of the API that is spoken.
const Version = "2023-10-16"

// Config is what a provider is made from.
type Config struct {
	URL           string // its own, of a loopback name
	SecretKey     string // sk_test_…
	WebhookSecret string // whsec_…
	ControlToken  string // opens what makes trouble; empty: nothing does
	Path          string // the file that it remembers by; empty: in memory alone
	Clock         clock.Clock
	Log           *slog.Logger

	// Settle is how long a payment or a refund takes that is not done at once.
	Settle time.Duration
	// Late is how long a delayed webhook is held.
	Late time.Duration
	// Pause is what lies between two attempts to deliver a webhook.
	Pause func(attempts int) time.Duration
}

// Server is the provider.
type Server struct {
	cfg     Config
	base    string // its URL without a slash at its end
	host    string
	handler http.Handler
	webhook *http.Client
	// Another page could otherwise pay here on behalf of whoever looks at it.
	sameOrigin *http.CrossOriginProtection

	mu      sync.Mutex
	state   state
	journal *journal // nil: none is kept
	busy    map[string]bool
	target  string // where webhooks go; empty: nobody takes them yet
	request struct{ id, key string }

	wake  chan struct{}
	ended chan struct{} // closed when nothing is answered late any more
	once  sync.Once
}

const (
	settle = 5 * time.Second
	late   = 30 * time.Second
)

// New makes a provider, with what the file knows; it must answer at cfg.URL, and
// delivers while Run runs.
func New(cfg Config) (*Server, error) {
	at, err := url.Parse(cfg.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the provider's URL: %w", err)
	case at.Hostname() != "localhost" && !net.ParseIP(at.Hostname()).IsLoopback():
		return nil, fmt.Errorf("a provider that takes any card serves loopback names alone, not %q", at.Host)
	case !strings.HasPrefix(cfg.SecretKey, "sk_test_"):
		return nil, fmt.Errorf("a provider that moves no money takes keys that begin with sk_test_ alone")
	case cfg.WebhookSecret == "":
		return nil, fmt.Errorf("webhooks need a secret to be signed with")
	}
	cfg.Settle, cfg.Late = cmp.Or(cfg.Settle, settle), cmp.Or(cfg.Late, late)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Pause == nil {
		cfg.Pause = pause
	}
	s := &Server{
		cfg: cfg, base: strings.TrimSuffix(cfg.URL, "/"), host: at.Host, sameOrigin: http.NewCrossOriginProtection(),
		busy: map[string]bool{}, wake: make(chan struct{}, 1), ended: make(chan struct{}),
		webhook: &http.Client{
			Timeout:   takeWithin,
			Transport: &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute},
			// A redirect is no answer: the body would go where nobody has asked for it.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if cfg.Path != "" {
		if s.journal, err = openJournal(cfg.Path, &s.state, cfg.Clock.Now()); err != nil {
			return nil, err
		}
	}
	s.handler = s.routes()
	return s, nil
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, e := range endpoints() {
		mux.Handle(pattern, s.api(e))
	}
	mux.HandleFunc("/v1/", s.unknown)
	mux.HandleFunc("GET /c/pay/{id}", s.askCard)
	mux.HandleFunc("POST /c/pay/{id}", s.takeCard)
	mux.HandleFunc("GET /p/session/{secret}", s.showPayments)
	mux.HandleFunc("GET /style.css", style)
	s.controls(mux)
	return telemetry.Door("gpuaas/checkout", mux)
}

// ServeHTTP answers at the provider's own name. Another Host may be a foreign
// page's name that was made to point here, so it is refused.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Host != s.host {
		http.Error(w, "This provider answers at "+s.base+" only.", http.StatusMisdirectedRequest)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	s.handler.ServeHTTP(w, r)
}

const maxBody = 1 << 20

// SetWebhook says where webhooks go: who takes them may only be known after it
// has found this provider. What it has missed is sent at once: it was away, and
// the pauses were for somebody who refuses.
func (s *Server) SetWebhook(to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock.Now()
	for _, d := range s.state.deliveries.rows {
		if !d.over() && d.Fault == "" && d.DueAt.After(now) {
			d.DueAt = now
		}
	}
	s.target = to
	s.stir()
}

// change does something to the state, and keeps it before anyone is told. What
// time alone has changed comes first, so that nobody sees a page that is over.
func (s *Server) change(do func(now time.Time) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock.Now()
	s.pass(now)
	err := do(now)
	if kept := s.keep(); kept != nil {
		return kept
	}
	s.stir()
	return err
}

// keep writes down what was changed.
func (s *Server) keep() error {
	if s.journal != nil {
		if err := s.journal.add(s.state.fresh()); err != nil {
			return err
		}
	}
	s.state.seen()
	return nil
}

// stir makes Run look what is due.
func (s *Server) stir() {
	select {
	case s.wake <- struct{}{}:
	default: // it looks already
	}
}

// Run does what becomes due, until ctx ends: it delivers webhooks, settles what
// takes its time, and ends what is over.
func (s *Server) Run(ctx context.Context) {
	defer s.webhook.CloseIdleConnections()
	for ctx.Err() == nil {
		var next time.Duration
		if s.step(ctx, &next) {
			continue
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Release answers whoever is kept waiting on purpose, now and from now on.
func (s *Server) Release() { s.once.Do(func() { close(s.ended) }) }

// Close lets go of the file. What is asked after it is not kept.
func (s *Server) Close() error {
	s.Release()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.journal == nil {
		return nil
	}
	err := s.journal.close()
	s.journal = nil
	return err
}

// named makes an id in the manner of the API.
func named(prefix string) string { return prefix + strings.ToLower(rand.Text()) }
