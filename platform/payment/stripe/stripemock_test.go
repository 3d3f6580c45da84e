package stripe_test

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/platform/payment/stripe"
)

// mock builds and runs the official mock, which rejects requests that differ from Stripe's own API
// description.
func mock(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "stripe-mock")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "github.com/stripe/stripe-mock")
	build.Dir, build.Env = "stripemock", append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if said, err := build.CombinedOutput(); err != nil {
		if text := string(said); strings.Contains(text, "dial tcp") || strings.Contains(text, "module lookup disabled") || strings.Contains(text, "no such host") {
			t.Skipf("the official mock cannot be downloaded here, so requests are not compared with Stripe's description:\n%s", said)
		}
		t.Fatalf("building the official mock: %v\n%s", err, said)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	run := exec.CommandContext(ctx, binary, "-http-addr", "127.0.0.1:", "-https-addr", "127.0.0.1:")
	out, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = run.Wait() // it was killed
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, address, found := strings.Cut(lines.Text(), "Listening for HTTP at address: "); found {
			if _, port, err := net.SplitHostPort(address); err == nil {
				return "http://127.0.0.1:" + port
			}
		}
	}
	t.Fatal("the official mock does not print its address")
	return ""
}

// Every call of the port, against Stripe's own API description. The mock stores nothing: its responses
// are samples, and it ignores idempotency keys. This test therefore only checks the format of paths,
// parameters and responses. dev/stripe tests the behaviour.
func TestShapesAreStripes(t *testing.T) {
	t.Parallel()
	c, err := stripe.New(stripe.Config{Key: "sk_test_123", WebhookSecret: "whsec_x", URL: mock(t)})
	if err != nil {
		t.Fatal(err)
	}
	customer, err := c.CreateCustomer(t.Context(), payment.NewCustomer{Tenant: ids.New[ids.Tenant](), Name: "Tenant"})
	if err != nil || !strings.HasPrefix(customer, "cus_") {
		t.Fatalf("customer %q: %v", customer, err)
	}
	opened, err := c.OpenCheckout(t.Context(), payment.NewCheckout{
		Session: ids.New[ids.PaymentSession](), Tenant: ids.New[ids.Tenant](), Customer: customer, Amount: 2500, Currency: "EUR",
		SuccessURL: "https://gpuaas.example/billing/payments/1", CancelURL: "https://gpuaas.example/billing", ExpiresAt: time.Now().Add(time.Hour),
	})
	if err != nil || opened.ID == "" {
		t.Fatalf("checkout %+v: %v", opened, err)
	}
	if found, err := c.Checkout(t.Context(), opened.ID); err != nil || found.ID != opened.ID {
		t.Errorf("checkout %+v: %v", found, err)
	}
	if url, err := c.OpenPortal(t.Context(), customer, "https://gpuaas.example/billing"); err != nil || url == "" {
		t.Errorf("portal %q: %v", url, err)
	}
	if setup, err := c.OpenSetup(t.Context(), payment.NewSetup{
		Mandate: ids.New[ids.Mandate](), Tenant: ids.New[ids.Tenant](), Customer: customer, Currency: "EUR",
		SuccessURL: "https://gpuaas.example/", CancelURL: "https://gpuaas.example/", ExpiresAt: time.Now().Add(time.Hour),
	}); err != nil || setup.ID == "" {
		t.Errorf("setup %+v: %v", setup, err)
	}
	if charge, err := c.Charge(t.Context(), payment.NewCharge{
		Session: ids.New[ids.PaymentSession](), Tenant: ids.New[ids.Tenant](), Month: "2026-01", Number: 1, Customer: customer, Method: "pm_123",
		Amount: 2500, Currency: "EUR", CreatedAt: time.Now(),
	}); err != nil || !strings.HasPrefix(charge.ID, "pi_") {
		t.Errorf("charge %+v: %v", charge, err)
	}
	refund := payment.NewRefund{ID: ids.New[ids.Refund](), Payment: "pi_123", Amount: 100}
	made, err := c.Refund(t.Context(), refund)
	if err != nil || !strings.HasPrefix(made.ID, "re_") || made.Stage != payment.RefundSucceeded {
		t.Errorf("refund %+v: %v", made, err)
	}
	refund.ProviderID = "re_123"
	if found, err := c.Refund(t.Context(), refund); err != nil || found.ID != "re_123" {
		t.Errorf("refund %+v: %v", found, err)
	}
	events := 0
	if err := c.Events(t.Context(), time.Now().Add(-time.Hour), func(page []payment.Event) error { events += len(page); return nil }); err != nil || events == 0 {
		t.Errorf("%d events: %v", events, err)
	}
}
