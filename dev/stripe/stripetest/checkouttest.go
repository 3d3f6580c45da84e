// Package stripetest starts the development double of Stripe for tests.
package stripetest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/dev/stripe"
)

// Keys of the double in tests.
const (
	SecretKey     = "sk_test_checkouttest"
	WebhookSecret = "whsec_checkouttest"
	ControlToken  = "control-checkouttest"
)

// Provider is a running double.
type Provider struct {
	*stripe.Server

	URL string
}

// Start runs a double until the test ends. Durations that the configuration omits are short enough for
// a test.
func Start(t testing.TB, cfg stripe.Config) *Provider {
	t.Helper()
	started := &Provider{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { started.ServeHTTP(w, r) }))
	started.URL, cfg.URL = server.URL, server.URL
	cfg.SecretKey, cfg.WebhookSecret, cfg.ControlToken = SecretKey, WebhookSecret, ControlToken
	if cfg.CompleteAfter == 0 {
		cfg.CompleteAfter = 50 * time.Millisecond
	}
	if cfg.Late == 0 {
		cfg.Late = 200 * time.Millisecond
	}
	if cfg.Pause == nil {
		cfg.Pause = func(int) time.Duration { return 10 * time.Millisecond }
	}
	var err error
	if started.Server, err = stripe.New(cfg); err != nil {
		server.Close()
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		started.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		server.Close()
	})
	return started
}
