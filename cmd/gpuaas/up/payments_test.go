package up

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/client"
	"github.com/stripe/stripe-go/v76/webhook"

	"github.com/gpuaas/gpuaas/cmd/gpuaas/serve"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/checkout"
)

// noKeys so that the provider of this start is the one.
func noKeys(t *testing.T) {
	t.Helper()
	for _, name := range []string{"STRIPE_WEBHOOK_SECRET", "STRIPE_SECRET_KEY_FILE", "STRIPE_WEBHOOK_SECRET_FILE", "GPUAAS_PAYMENTS_API_URL"} {
		t.Setenv(name, "")
	}
}

func takes(provider string) desired.Environment {
	return desired.Environment{Development: true, Payments: desired.Payments{Provider: provider}}
}

func begin(t *testing.T, dir string) (*installation, serve.Payments) {
	t.Helper()
	i := &installation{cfg: Config{Dir: dir, PaymentsListen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}, profile: takes("stripe")}
	named, err := i.startPayments(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return i, named
}

func halt(t *testing.T, i *installation) {
	t.Helper()
	if err := i.payments.stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

// The provider speaks to the server by the keys that the server is started with,
// before and after a restart, and the data directory opens it to nobody else.
func TestPaymentsOfUp(t *testing.T) {
	t.Setenv("STRIPE_SECRET_KEY", "")
	noKeys(t)
	heard := make(chan string, 10)
	var secret string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		e, err := webhook.ConstructEvent(body, r.Header.Get("Stripe-Signature"), secret)
		if err != nil || r.URL.Path != "/api/v1/payments/webhook" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		heard <- string(e.Type)
	}))
	t.Cleanup(server.Close)

	dir := t.TempDir()
	i, named := begin(t, dir)
	if err := named.Check(i.profile); err != nil || named.Livemode {
		t.Errorf("%+v, %v", named, err)
	}
	secret = named.WebhookSecret
	api := client.New(named.SecretKey, &stripe.Backends{API: stripe.GetBackendWithConfig(stripe.APIBackend, &stripe.BackendConfig{
		URL: &named.APIURL, LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	})})
	page, err := api.CheckoutSessions.New(&stripe.CheckoutSessionParams{
		Mode: new("payment"), SuccessURL: new("http://127.0.0.1:8080/paid"),
		LineItems: []*stripe.CheckoutSessionLineItemParams{{Quantity: new(int64(1)), PriceData: &stripe.CheckoutSessionLineItemPriceDataParams{
			Currency: new("eur"), UnitAmount: new(int64(2500)), ProductData: &stripe.CheckoutSessionLineItemPriceDataProductDataParams{Name: new("Balance")},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := checkout.Pay(t.Context(), page.URL, checkout.CardPaid); err != nil {
		t.Fatal(err)
	}
	halt(t, i) // with a webhook that nobody was there for

	i, again := begin(t, dir)
	defer halt(t, i)
	if again.SecretKey != named.SecretKey || again.WebhookSecret != named.WebhookSecret {
		t.Error("a restart changed the keys")
	}
	i.payments.SetWebhook(server.URL + webhookPath)
	if got := <-heard; got != "checkout.session.completed" {
		t.Errorf("heard of %s", got)
	}
	access, err := checkout.ReadAccess(PaymentsAccess(dir))
	if err != nil || access.URL != again.APIURL {
		t.Errorf("%s, %v", access.URL, err)
	}
	if s, err := access.Status(t.Context()); err != nil || s.Charges != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if info, err := os.Stat(PaymentsAccess(dir)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// Whoever has a key gets the provider that it is of, and where no money is taken
// none is started.
func TestOnlyWhereMoneyIsTaken(t *testing.T) {
	t.Setenv("STRIPE_SECRET_KEY", "")
	noKeys(t)
	for name, p := range map[string]desired.Environment{
		"nobody takes money": takes("none"),
		"no development":     {Payments: desired.Payments{Provider: "stripe"}},
		"real money":         {Development: true, Payments: desired.Payments{Provider: "stripe", Livemode: true}},
	} {
		i := &installation{cfg: Config{Dir: t.TempDir()}, profile: p}
		if named, err := i.startPayments(t.Context()); err != nil || i.payments != nil || named.SecretKey != "" {
			t.Errorf("%s: %+v, %v", name, named, err)
		}
	}
	t.Setenv("STRIPE_SECRET_KEY", "sk_test_of_an_account")
	i := &installation{cfg: Config{Dir: t.TempDir()}, profile: takes("stripe")}
	if _, err := i.startPayments(t.Context()); err == nil || !strings.Contains(err.Error(), "STRIPE_WEBHOOK_SECRET") {
		t.Errorf("half an account: %v", err)
	}
	t.Setenv("STRIPE_WEBHOOK_SECRET", "whsec_1")
	if named, err := i.startPayments(t.Context()); err != nil || named.SecretKey != "sk_test_of_an_account" || named.APIURL != "" || i.payments != nil {
		t.Errorf("%+v, %v", named, err)
	}
}
