package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/version"
)

// client is the generated client of the contract, signed in, with errors that
// carry their code.
type client struct {
	*oapi.Client
	plain       *oapi.Client // without the bearer token
	correlation string
	clock       clock.Clock
	traded      traded

	mu       sync.Mutex
	settings settings
}

// client connects as the settings say; a command that needs no sign-in takes an
// anonymous one.
func (a *app) client() (*client, error) {
	c, err := a.anonymous()
	if err == nil && c.settings.Token == "" {
		return nil, errs.New(errs.TokenMissing, "there is no token for %s", c.settings.URL)
	}
	return c, err
}

func (a *app) anonymous() (*client, error) {
	s, err := a.settings()
	if err != nil {
		return nil, err
	}
	if err := s.address(); err != nil {
		return nil, err
	}
	return a.connect(s)
}

func (a *app) connect(s settings) (*client, error) {
	c := &client{settings: s, correlation: a.Correlation, clock: a.Clock}
	transport, err := transportFor(s.CA)
	if err != nil {
		return nil, err
	}
	// No redirects: the bearer token belongs to the address that was configured.
	doer := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	c.Client, err = oapi.NewClient(s.URL, oapi.WithHTTPClient(doer), oapi.WithRequestEditorFn(c.sign))
	if err == nil {
		c.plain, err = oapi.NewClient(s.URL, oapi.WithHTTPClient(doer), oapi.WithRequestEditorFn(c.mark))
	}
	if err != nil {
		return nil, fmt.Errorf("making client: %w", err)
	}
	return c, nil
}

func transportFor(ca string) (*http.Transport, error) {
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 30 * time.Second,
		ForceAttemptHTTP2:     true,
	}
	if ca == "" {
		return t, nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("reading the CA of the profile: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errs.Invalid("ca", "%s holds no certificate", ca)
	}
	t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return t, nil
}

func (c *client) sign(ctx context.Context, r *http.Request) error {
	token, err := c.bearer(ctx)
	if err != nil {
		return err
	}
	token, err = c.trade(ctx, token)
	if err != nil {
		return err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return c.mark(ctx, r)
}

func (c *client) mark(_ context.Context, r *http.Request) error {
	r.Header.Set("X-Correlation-Id", c.correlation)
	r.Header.Set("User-Agent", "gpuaas/"+version.Version)
	return nil
}

// inProject goes with the operations that take a project.
func (c *client) inProject(_ context.Context, r *http.Request) error {
	if c.settings.Project != "" {
		r.Header.Set("X-Project-ID", c.settings.Project)
	}
	return nil
}

// intent is a fresh idempotency key: made once for what a person wants, it makes
// all repetitions of the call one call.
func intent() oapi.RequestEditorFn {
	key := uuid.Must(uuid.NewV7()).String()
	return func(_ context.Context, r *http.Request) error {
		r.Header.Set("X-Idempotency-Key", key)
		return nil
	}
}

// answer is what the server said, and the bytes in which it said it.
type answer[T any] struct {
	Value T
	Raw   json.RawMessage
}

type sender func(context.Context) (*http.Response, error)

// Three tries within about two seconds outlast a restart of the server. Reads
// may be repeated by nature, writes because each carries its key.
const (
	tries       = 3
	oneTry      = 40 * time.Second
	bodyLimit   = 64 << 20
	firstPause  = 250 * time.Millisecond
	longestHint = 2 * time.Second // a Retry-After beyond is the person's decision
)

// ask sends until an answer can be had.
func ask[T any](ctx context.Context, c *client, send sender) (answer[T], error) {
	pause := firstPause
	for try := 1; ; try++ {
		got, hint, err := once[T](ctx, c, send)
		if err == nil || try == tries || hint < 0 || hint > longestHint {
			return got, err
		}
		if err := sleep(ctx, max(pause, hint)); err != nil {
			return got, err
		}
		pause *= 4
	}
}

// once also says how long to wait before another try; below zero: it is of no use.
func once[T any](ctx context.Context, c *client, send sender) (got answer[T], hint time.Duration, err error) {
	within, cancel := context.WithTimeout(ctx, oneTry)
	defer cancel()
	resp, err := send(within)
	if err != nil {
		if ctx.Err() != nil {
			return got, -1, ctx.Err()
		}
		if known(err) {
			return got, -1, err // refused before anything was sent
		}
		return got, repeatable(err), c.unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, bodyLimit))
	if err != nil {
		return got, 0, c.unreachable(err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		failed := c.problem(resp, body)
		if codeOf(failed) == errs.IdempotencyInFlight {
			return got, 0, failed // our own try before is still at work
		}
		return got, again(resp), failed
	}
	got.Raw = body
	if resp.StatusCode == http.StatusNoContent {
		return got, -1, nil
	}
	if err := json.Unmarshal(body, &got.Value); err != nil {
		return got, -1, fmt.Errorf("%s did not answer as the contract says: %w", c.settings.URL, err)
	}
	return got, -1, nil
}

// known says that the error has its words already.
func known(err error) bool {
	_, ours := errors.AsType[*failure](err)
	_, coded := errors.AsType[*errs.Error](err)
	return ours || coded
}

// repeatable: nobody listens is an answer, and repeating it only delays it.
func repeatable(err error) time.Duration {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return -1
	}
	return 0
}

func again(resp *http.Response) time.Duration {
	if resp.StatusCode != http.StatusServiceUnavailable && resp.StatusCode != http.StatusTooManyRequests {
		return -1
	}
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil {
		return -1
	}
	return time.Duration(seconds) * time.Second
}

func (c *client) unreachable(err error) error {
	f := &failure{
		Message: fmt.Sprintf("%s does not answer: %v", c.settings.URL, err), Code: string(errs.Unavailable),
		Try: "gpuaas doctor, or start it with gpuaas up", Correlation: c.correlation, Exit: exitFailure,
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		f.Try = "check the address: --url, GPUAAS_URL or the profile"
	}
	return f
}

// problem turns the error envelope into a failure. A proxy may answer instead of
// the server, and does not speak it.
func (c *client) problem(resp *http.Response, body []byte) error {
	var p oapi.Problem
	if json.Unmarshal(body, &p) != nil || p.Code == "" {
		return &failure{
			Message: fmt.Sprintf("%s answered %s, not as GPUaaS does", c.settings.URL, resp.Status), Code: string(errs.Unavailable),
			Try: "check the address: --url, GPUAAS_URL or the profile", Correlation: c.correlation, Exit: exitFailure,
		}
	}
	text := p.Message
	if field, _ := p.Details["field"].(string); field != "" {
		text = field + ": " + text
	}
	suggestion, _ := p.Details["suggestion"].(string)
	code := errs.Code(p.Code)
	return &failure{
		Message: text, Code: string(code), Try: cmp.Or(suggestion, remedy(code, exitOf(code))),
		Correlation: cmp.Or(p.CorrelationId, c.correlation), Exit: exitOf(code), Details: p.Details,
	}
}

func codeOf(err error) errs.Code {
	if f, ok := errors.AsType[*failure](err); ok {
		return errs.Code(f.Code)
	}
	return errs.CodeOf(err)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
