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

// What a provider of a test is called with.
const (
	SecretKey     = "sk_test_checkouttest"
	WebhookSecret = "whsec_checkouttest"
	ControlToken  = "control-checkouttest"
)

// Provider is a running one.
type Provider struct {
	*stripe.Server

	URL string
}

// Start runs a provider until the test ends. What the configuration leaves out is
// set so that nothing takes longer than a test can wait for.
func Start(t testing.TB, cfg stripe.Config) *Provider {
	t.Helper()
	started := &Provider{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { started.ServeHTTP(w, r) }))
	started.URL, cfg.URL = server.URL, server.URL
	cfg.SecretKey, cfg.WebhookSecret, cfg.ControlToken = SecretKey, WebhookSecret, ControlToken
	if cfg.Settle == 0 {
		cfg.Settle = 50 * time.Millisecond
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
		if err := started.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return started
}
