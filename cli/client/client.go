// Package client is the signed-in client of the API: requests with retries, pages, tokens, and names of
// resources.
package client

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
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/version"
)

// Client is the generated client of the contract, signed in, with errors that
// carry their code.
type Client struct {
	*oapi.Client
	plain       *oapi.Client // without the bearer token
	Correlation string
	clock       clock.Clock
	console     *output.Console
	traded      traded

	mu       sync.Mutex
	Settings Settings
}

// Connect connects with the current settings. A command without sign-in uses an anonymous client.
func Connect(a *output.Console) (*Client, error) {
	c, err := ConnectAnonymously(a)
	if err == nil && c.Settings.Token == "" && c.Settings.JobToken == "" {
		return nil, errs.New(errs.TokenMissing, "no token for %s", c.Settings.URL)
	}
	return c, err
}

func ConnectAnonymously(a *output.Console) (*Client, error) {
	s, err := ReadSettings(a)
	if err != nil {
		return nil, err
	}
	if err := s.Address(); err != nil {
		return nil, err
	}
	return ConnectTo(a, s)
}

func ConnectTo(a *output.Console, s Settings) (*Client, error) {
	c := &Client{Settings: s, Correlation: a.Correlation, clock: a.Clock, console: a}
	transport, err := TransportFor(s.CA)
	if err != nil {
		return nil, err
	}
	// No redirects: the bearer token belongs to the address that was configured.
	doer := &http.Client{Transport: &noticing{transport: transport, console: a}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	c.Client, err = oapi.NewClient(s.URL, oapi.WithHTTPClient(doer), oapi.WithRequestEditorFn(c.sign))
	if err == nil {
		c.plain, err = oapi.NewClient(s.URL, oapi.WithHTTPClient(doer), oapi.WithRequestEditorFn(c.mark))
	}
	if err != nil {
		return nil, fmt.Errorf("making client: %w", err)
	}
	return c, nil
}

func TransportFor(ca string) (*http.Transport, error) {
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
		return nil, errs.Invalid("ca", "%s contains no certificate", ca)
	}
	t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return t, nil
}

func (c *Client) sign(ctx context.Context, r *http.Request) error {
	token, err := c.Bearer(ctx)
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

func (c *Client) mark(_ context.Context, r *http.Request) error {
	r.Header.Set("X-Correlation-Id", c.Correlation)
	r.Header.Set("User-Agent", "gpuaas/"+version.Version)
	return nil
}

// InProject adds the project to operations that have one.
func (c *Client) InProject(_ context.Context, r *http.Request) error {
	if c.Settings.Project != "" {
		r.Header.Set("X-Project-ID", c.Settings.Project)
	}
	return nil
}

// IdempotencyKey is a fresh idempotency key: made once for what a person wants, it makes
// all repetitions of the call one call.
func IdempotencyKey() oapi.RequestEditorFn {
	key := uuid.Must(uuid.NewV7()).String()
	return func(_ context.Context, r *http.Request) error {
		r.Header.Set("X-Idempotency-Key", key)
		return nil
	}
}

// Response is the server's response, decoded and as bytes.
type Response[T any] struct {
	Value  T
	Raw    json.RawMessage
	Status int
}

type Sender func(context.Context) (*http.Response, error)

// Three tries within about two seconds outlast a restart of the server. Reads
// may be repeated by nature, writes because each carries its key.
const (
	tries       = 3
	OneTry      = 40 * time.Second
	BodyLimit   = 64 << 20
	firstPause  = 250 * time.Millisecond
	longestHint = 2 * time.Second // a Retry-After beyond is the person's decision
)

// Send sends until an answer can be had.
func Send[T any](ctx context.Context, c *Client, send Sender) (Response[T], error) {
	pause := firstPause
	for try := 1; ; try++ {
		got, hint, err := sendOnce[T](ctx, c, send)
		if CodeOf(err) == errs.StepUpRequired && try == 1 && c.stepUp(ctx) {
			continue
		}
		if err == nil || try == tries || hint < 0 || hint > longestHint {
			return got, err
		}
		if err := Sleep(ctx, max(pause, hint)); err != nil {
			return got, err
		}
		pause *= 4
	}
}

// sendOnce also returns the pause before a retry. Below zero, a retry has no use.
func sendOnce[T any](ctx context.Context, c *Client, send Sender) (got Response[T], hint time.Duration, err error) {
	within, cancel := context.WithTimeout(ctx, OneTry)
	defer cancel()
	return sendAtMost[T](ctx, c, func(context.Context) (*http.Response, error) { return send(within) })
}

// sendAtMost sends once, for as long as the context lasts.
func sendAtMost[T any](ctx context.Context, c *Client, send Sender) (got Response[T], hint time.Duration, err error) {
	resp, err := send(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return got, -1, ctx.Err()
		}
		if hasCode(err) {
			return got, -1, err // failed before the request was sent
		}
		return got, repeatable(err), c.Unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, BodyLimit))
	if err != nil {
		return got, 0, c.Unreachable(err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		failed := c.Problem(resp, body)
		if CodeOf(failed) == errs.IdempotencyInFlight {
			return got, 0, failed // our own try before is still at work
		}
		return got, again(resp), failed
	}
	got.Raw, got.Status = body, resp.StatusCode
	if len(body) == 0 {
		return got, -1, nil
	}
	if err := json.Unmarshal(body, &got.Value); err != nil {
		return got, -1, fmt.Errorf("the response of %s does not match the contract: %w", c.Settings.URL, err)
	}
	return got, -1, nil
}

// hasCode reports whether the error has a code already.
func hasCode(err error) bool {
	_, ours := errors.AsType[*output.CommandError](err)
	_, coded := errors.AsType[*errs.Error](err)
	return ours || coded
}

// repeatable returns the pause before a retry. A closed port is final, and a retry would
// only delay the error.
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

func (c *Client) Unreachable(err error) error {
	f := &output.CommandError{
		Message: fmt.Sprintf("%s is not reachable: %v", c.Settings.URL, err), Code: string(errs.Unavailable),
		Try: "gpuaas doctor, or start it with gpuaas up", Correlation: c.Correlation, Exit: output.ExitFailure,
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		f.Try = "check the address: --url, GPUAAS_URL or the profile"
	}
	return f
}

// Problem turns the error envelope into a failure. A proxy may answer instead of
// the server, and does not speak it.
func (c *Client) Problem(resp *http.Response, body []byte) error {
	var p oapi.Problem
	if json.Unmarshal(body, &p) != nil || p.Code == "" {
		return &output.CommandError{
			Message: fmt.Sprintf("%s responded %s, which is not a response of GPUaaS", c.Settings.URL, resp.Status), Code: string(errs.Unavailable),
			Try: "check the address: --url, GPUAAS_URL or the profile", Correlation: c.Correlation, Exit: output.ExitFailure,
		}
	}
	text := p.Message
	if field, _ := p.Details["field"].(string); field != "" {
		text = field + ": " + text
	}
	suggestion, _ := p.Details["suggestion"].(string)
	code := errs.Code(p.Code)
	return &output.CommandError{
		Message: text, Code: string(code), Try: cmp.Or(suggestion, output.Remedy(code, output.ExitOf(code))),
		Correlation: cmp.Or(p.CorrelationId, c.Correlation), Exit: output.ExitOf(code), Details: p.Details,
	}
}

func CodeOf(err error) errs.Code {
	if f, ok := errors.AsType[*output.CommandError](err); ok {
		return errs.Code(f.Code)
	}
	return errs.CodeOf(err)
}

func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// IsForbidden reports whether an error means that only operators may read a value. A command then
// prints the rest without it.
func IsForbidden(err error) bool {
	var f *output.CommandError
	return errors.As(err, &f) && f.Exit == output.ExitDenied
}

// PollEvery is the polling interval. Events notify the wait earlier, and the poll decides; without
// events the wait is only slower by this much.
const PollEvery = time.Second
