package rest_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/api/rest"
)

const webhook = "/api/v1/payments/webhook"

// send sends what the payment provider would.
func (b *fixture) send(t *testing.T, body io.Reader, change ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, webhook, body)
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	for _, c := range change {
		c(req)
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, req)
	b.documented(req, w.Code)
	return w
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// The signature covers the bytes: the service gets them as they were sent, with any content type and whether or not
// they are JSON. A repeated event is stored once.
func TestWebhookBodiesAreUnchanged(t *testing.T) {
	t.Parallel()

	event := signedEvent("evt_1")
	for what, c := range map[string]struct {
		body   string
		change func(*http.Request)
		want   int
	}{
		"as the provider sends it":  {strings.Replace(event, `{"id"`, "{\r\n  \"a\":1.0,\"a\":2, \"id\"", 1) + "\n", header("User-Agent", "Stripe/1.0"), 200},
		"without a media type":      {event, func(r *http.Request) { r.Header.Del("Content-Type") }, 200},
		"of another media type":     {event, header("Content-Type", "application/x-www-form-urlencoded"), 200},
		"not JSON, not UTF-8":       {"\xff\x00{", header("Accept", "*/*"), 400},
		"from a browser's page":     {event, header("Origin", "https://elsewhere.example"), 200},
		"with a token that is none": {event, header("Authorization", "Bearer "+tokenUnknown), 200},
		"with an idempotency key":   {event, header("X-Idempotency-Key", "k1"), 200},
		"of exactly 256 KiB":        {event + strings.Repeat(" ", 256<<10-len(event)), header("Content-Encoding", "identity"), 200},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			for range 2 {
				w := b.send(t, strings.NewReader(c.body), c.change, header("Stripe-Signature", signature(c.body)))
				if w.Code != c.want || w.Header().Get("Idempotency-Replayed") != "" {
					t.Fatalf("%d %s", w.Code, w.Body)
				}
				// The signature is checked before the body is read.
				if c.want == 400 && problem(t, w).Code != "bad_request" {
					t.Errorf("%s", w.Body)
				}
			}
			if stored := b.count("stripe_events"); stored != map[bool]int{true: 1, false: 0}[c.want == 200] {
				t.Errorf("%d events are stored", stored)
			}
		})
	}
}

func TestWebhookRefusals(t *testing.T) {
	t.Parallel()

	large := strings.Repeat("x", 256<<10+1)
	for what, c := range map[string]struct {
		body   io.Reader
		change func(*http.Request)
		status int
		code   string
	}{
		"a byte too much":                        {strings.NewReader(large), header("Stripe-Signature", signature("")), 413, "body_too_large"},
		"a byte too much, of no length":          {struct{ io.Reader }{strings.NewReader(large)}, header("Stripe-Signature", signature("")), 413, "body_too_large"},
		"packed":                                 {bytes.NewReader([]byte("\x1f\x8b")), header("Content-Encoding", "gzip"), 415, "media_type_unsupported"},
		"empty":                                  {strings.NewReader(""), header("Stripe-Signature", signature("")), 400, "validation_error"},
		"signed with another key":                {strings.NewReader("{}"), header("Stripe-Signature", "t=1,v1=wrong"), 400, "signature_invalid"},
		"a signature longer than any":            {strings.NewReader("{}"), header("Stripe-Signature", strings.Repeat("v", 5000)), 400, "validation_error"},
		"an unknown parameter                  ": {strings.NewReader("{}"), func(r *http.Request) { r.URL.RawQuery = "a=b" }, 400, "unknown_parameter"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			w := b.send(t, c.body, c.change)
			if p := problem(t, w); w.Code != c.status || string(p.Code) != c.code || b.count("stripe_events") != 0 {
				t.Errorf("%d %s, stored %d", w.Code, w.Body, b.count("stripe_events"))
			}
		})
	}
}

// Guesses of signatures are limited by address, as guesses of tokens are;
// the provider, which signs, is not, not even from there.
func TestFailedSignaturesAreCharged(t *testing.T) {
	t.Parallel()

	b := setup(t, slow(3))
	wrong, from := header("Stripe-Signature", "t=1,v1=wrong"), func(address string) func(*http.Request) {
		return func(r *http.Request) { r.RemoteAddr = address }
	}
	for try, want := range []int{400, 400, 400, 429} {
		w := b.send(t, strings.NewReader("{}"), wrong, from("192.0.2.7:1"))
		if w.Code != want || (w.Header().Get("Retry-After") != "") != (want == 429) {
			t.Errorf("try %d: %d %s", try, w.Code, w.Body)
		}
	}
	if w := b.do(t, call{method: "GET", path: "/api/v1/skus", token: tokenUnknown, from: "192.0.2.7:2"}); w.Code != 429 {
		t.Errorf("a token from there: %d", w.Code)
	}
	if w := b.send(t, strings.NewReader("{}"), wrong, from("192.0.2.8:1")); w.Code != 400 {
		t.Errorf("from another address: %d", w.Code)
	}
	event := signedEvent("evt_1")
	for range 20 {
		if w := b.send(t, strings.NewReader(event), header("Stripe-Signature", signature(event)), from("192.0.2.7:1")); w.Code != 200 {
			t.Fatalf("the provider: %d %s", w.Code, w.Body)
		}
	}
}

// Without the table of limits no payment is possible; webhooks of the provider still work.
func TestPaymentsFailClosed(t *testing.T) {
	t.Parallel()

	b := setup(t, func(_ *fixture, c *rest.Config) { c.SharedLimits = away() })
	for path, token := range map[string]string{
		"/api/v1/payments/checkout-session": tokenOwner, "/api/v1/payments/customer-portal-session": tokenOwner,
		"/api/v1/admin/users/" + users[tokenMember].String() + "/refunds": tokenAdmin, "/api/v1/admin/users/" + users[tokenMember].String() + "/balance": tokenAdmin,
	} {
		if w := b.do(t, call{method: "POST", path: path, token: token, body: `{}`}); w.Code != 503 || problem(t, w).Code != "limiter_unavailable" {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	event := signedEvent("evt_1")
	if w := b.send(t, strings.NewReader(event), header("Stripe-Signature", signature(event))); w.Code != 200 {
		t.Errorf("the provider: %d %s", w.Code, w.Body)
	}
}
