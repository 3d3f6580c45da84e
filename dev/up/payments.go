package up

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/dev/stripe"
	"github.com/gpuaas/gpuaas/dev/stripe/control"
	"github.com/gpuaas/gpuaas/server"
)

// webhookPath is the server's path for payment webhooks.
const webhookPath = "/api/v1/payments/webhook"

// payments is the development payment provider and its listener.
type payments struct {
	*stripe.Server

	url       string
	http      *http.Server
	stopWork  context.CancelFunc
	workEnded chan struct{}
	ended     chan struct{}
}

// startPayments runs the provider that development pays at, unless the
// environment has the key of another.
func (i *installation) startPayments(ctx context.Context) (named server.Payments, err error) {
	if named, err = server.PaymentsFromEnv(os.Getenv); err != nil || named.SecretKey != "" {
		return named, err
	}
	if p := i.profile; !p.Development || p.Payments.Provider != desired.ProviderStripe || p.Payments.Livemode {
		return named, nil
	}
	secrets := filepath.Join(i.cfg.Dir, "secrets")
	if err := os.MkdirAll(secrets, 0o700); err != nil {
		return named, fmt.Errorf("making the folder of secrets: %w", err)
	}
	listener, err := server.Listen(ctx, i.cfg.PaymentsListen, true)
	if err != nil {
		return named, err
	}
	url := "http://" + listener.Addr().String()
	access, err := control.KeepAccess(PaymentsAccess(i.cfg.Dir), url)
	if err != nil {
		return named, errors.Join(err, listener.Close())
	}
	p := &payments{url: url, workEnded: make(chan struct{}), ended: make(chan struct{})}
	if p.Server, err = stripe.New(stripe.Config{
		URL: url, SecretKey: access.SecretKey, WebhookSecret: access.WebhookSecret, ControlToken: access.ControlToken,
		Path: filepath.Join(i.cfg.Dir, "payments.state.json"), Log: i.cfg.Log,
	}); err != nil {
		return named, errors.Join(err, listener.Close())
	}
	p.run(context.WithoutCancel(ctx), i, listener)
	i.payments = p
	return server.Payments{SecretKey: access.SecretKey, WebhookSecret: access.WebhookSecret, APIURL: url}, nil
}

// PaymentsAccess returns the file with the provider's keys in a data directory.
func PaymentsAccess(dir string) string { return filepath.Join(dir, "secrets", "payments.json") }

func (p *payments) run(ctx context.Context, i *installation, listener net.Listener) {
	p.http = &http.Server{
		Handler: p.Server, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go func() {
		defer close(p.ended)
		if err := p.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			i.cfg.Log.ErrorContext(ctx, "the development payment provider ended", "component", "up", "err", err)
		}
	}()
	work, cancel := context.WithCancel(ctx)
	p.stopWork = cancel
	go func() {
		defer close(p.workEnded)
		p.Run(work)
	}()
}

// stop stops the deliveries first, so that no webhook is interrupted by the end of the listener.
func (p *payments) stop(ctx context.Context) error {
	p.stopWork()
	<-p.workEnded
	err := p.http.Shutdown(ctx)
	if err == nil {
		<-p.ended
	}
	if err != nil {
		return fmt.Errorf("stopping the development payment provider: %w", err)
	}
	return nil
}
