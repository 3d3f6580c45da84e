// Package stripe is the development double of Stripe: the API methods that platform/payment/stripe
// calls, one checkout page, signed webhooks, and faults on demand. It moves no money.
package stripe

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	stripego "github.com/stripe/stripe-go/v76"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/telemetry"
)

// Config describes a double.
type Config struct {
	URL           string // of the double, on a loopback address
	SecretKey     string // sk_test_…
	WebhookSecret string // whsec_…
	ControlToken  string // authorizes control requests; empty: none is accepted
	Path          string // file of the state; empty: the state is in memory only
	Clock         clock.Clock
	Log           *slog.Logger

	// CompleteAfter is the duration of a payment or a refund that does not complete immediately.
	CompleteAfter time.Duration
	// Late is the delay of a delayed webhook.
	Late time.Duration
	// Pause returns the time between two attempts to deliver a webhook.
	Pause func(attempts int) time.Duration
}

// Server is the double.
type Server struct {
	cfg     Config
	base    string // URL without a trailing slash
	host    string
	handler http.Handler
	webhook *http.Client

	mu      sync.Mutex
	state   state
	written []byte // content of the state file
	target  string // URL of the webhook; empty: deliveries wait

	next   time.Time // of the next change by time, as advance has found it
	wakeup chan struct{}
}

const (
	completeAfter  = 5 * time.Second
	late           = 30 * time.Second
	maxBody        = 1 << 20
	webhookTimeout = 10 * time.Second
)

// New reads the state of a former run. The caller serves the double at cfg.URL and calls Run, which
// delivers webhooks.
func New(cfg Config) (*Server, error) {
	at, err := url.Parse(cfg.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("parsing the URL of the payment double: %w", err)
	case at.Hostname() != "localhost" && !net.ParseIP(at.Hostname()).IsLoopback():
		return nil, fmt.Errorf("the payment double accepts any card and therefore serves loopback addresses only, not %q", at.Host)
	case !strings.HasPrefix(cfg.SecretKey, "sk_test_"):
		return nil, errors.New("the payment double moves no money and accepts only keys that start with sk_test_")
	case cfg.WebhookSecret == "":
		return nil, errors.New("the payment double needs a secret to sign webhooks")
	}
	cfg.CompleteAfter, cfg.Late = cmp.Or(cfg.CompleteAfter, completeAfter), cmp.Or(cfg.Late, late)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Pause == nil {
		cfg.Pause = pause
	}
	s := &Server{
		cfg: cfg, base: strings.TrimSuffix(cfg.URL, "/"), host: at.Host, wakeup: make(chan struct{}, 1),
		webhook: &http.Client{
			Timeout:   webhookTimeout,
			Transport: &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute},
			// A redirect would send the event to an address that no configuration names.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if err := s.load(cfg.Clock.Now()); err != nil {
		return nil, err
	}
	s.handler = s.routes()
	return s, nil
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, m := range methods {
		mux.HandleFunc(pattern, s.serveMethod(m))
	}
	mux.HandleFunc("GET /c/pay/{id}", s.servePage)
	mux.HandleFunc("POST /c/pay/{id}", s.servePayment)
	mux.HandleFunc("GET /portal", s.servePortal)
	mux.HandleFunc("GET /style.css", serveStyle)
	s.addControl(mux)
	return telemetry.Traced("gpuaas/checkout", mux)
}

// ServeHTTP rejects requests for another host name: a foreign page may have a name that resolves to
// the local computer.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Host != s.host {
		http.Error(w, "The payment double serves "+s.base+" only.", http.StatusMisdirectedRequest)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	s.handler.ServeHTTP(w, r)
}

// SetWebhook sets the address of the webhook. Deliveries that failed before are due at once: their
// pauses were meant for the former receiver.
func (s *Server) SetWebhook(to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock.Now()
	for _, d := range s.state.Deliveries {
		if d.pending() && d.Fault == "" && d.Due.After(now) {
			d.Due = now
		}
	}
	s.target = to
	s.notify()
}

// update changes the state under lock and writes it before the client gets a response. Expiry is
// first, so that no client gets an open page that has expired.
func (s *Server) update(do func(now time.Time) error) error {
	err := s.apply(do)
	s.notify()
	return err
}

// apply is update without a notification of Run, for Run itself.
func (s *Server) apply(do func(now time.Time) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock.Now()
	s.advance(now)
	err := do(now)
	if saving := s.save(); saving != nil {
		s.cfg.Log.Error("the state of the payment double was not written", "component", "checkout", "err", saving)
		return saving
	}
	return err
}

func (s *Server) notify() {
	select {
	case s.wakeup <- struct{}{}:
	default: // Run is notified already
	}
}

// Run delivers webhooks, settles payments and refunds and expires pages, until ctx ends.
func (s *Server) Run(ctx context.Context) {
	defer s.webhook.CloseIdleConnections()
	for ctx.Err() == nil {
		wait, delivered := s.deliverNext(ctx)
		if delivered {
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-s.wakeup:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// newID returns an id in Stripe's form.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

func invalid(param string, code stripego.ErrorCode, message string) *stripego.Error {
	return &stripego.Error{HTTPStatusCode: http.StatusBadRequest, Type: stripego.ErrorTypeInvalidRequest, Code: code, Param: param, Msg: message}
}

// unknown is the failure of a parameter that names no resource.
func unknown(param, id string) *stripego.Error {
	return invalid(param, stripego.ErrorCodeResourceMissing, "No such "+param+": '"+id+"'")
}

// notFound is the failure of a path that names no resource.
func notFound(kind, id string) *stripego.Error {
	failure := unknown(kind, id)
	failure.HTTPStatusCode = http.StatusNotFound
	return failure
}
