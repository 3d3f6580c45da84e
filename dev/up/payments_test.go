package up

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/dev/stripe"
	"github.com/gpuaas/gpuaas/dev/stripe/control"
	"github.com/gpuaas/gpuaas/server"
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

func begin(t *testing.T, dir string) (*installation, server.Payments) {
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

// openPage creates a page for EUR 25.00, as the server does.
func openPage(t *testing.T, at server.Payments) string {
	t.Helper()
	form := url.Values{
		"mode": {"payment"}, "success_url": {"http://127.0.0.1:8080/paid"}, "line_items[0][quantity]": {"1"},
		"line_items[0][price_data][currency]": {"eur"}, "line_items[0][price_data][unit_amount]": {"2500"},
		"line_items[0][price_data][product_data][name]": {"Credit"},
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at.APIURL+"/v1/checkout/sessions", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "Bearer "+at.SecretKey)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var page struct{ URL string }
	if err := json.NewDecoder(answer.Body).Decode(&page); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", answer.Status, err)
	}
	return page.URL
}

// The provider uses the keys that the server is started with, before and after a restart. Only the
// owner can read them in the data directory.
func TestPaymentsOfUp(t *testing.T) {
	t.Setenv("STRIPE_SECRET_KEY", "")
	noKeys(t)
	heard := make(chan string, 10)
	var secret string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		header := r.Header.Get("Stripe-Signature")
		stamp, _, _ := strings.Cut(strings.TrimPrefix(header, "t="), ",")
		at, err := strconv.ParseInt(stamp, 10, 64)
		if err != nil || header != stripe.Sign(body, secret, time.Unix(at, 0)) || r.URL.Path != "/api/v1/payments/webhook" {
			t.Errorf("%s is signed %q: %v", r.URL.Path, header, err)
		}
		var e struct{ Type string }
		if err := json.Unmarshal(body, &e); err != nil {
			t.Error(err)
		}
		heard <- e.Type
	}))
	t.Cleanup(server.Close)

	dir := t.TempDir()
	i, named := begin(t, dir)
	if err := named.Check(i.profile); err != nil || named.Livemode {
		t.Errorf("%+v, %v", named, err)
	}
	secret = named.WebhookSecret
	if _, err := control.Pay(t.Context(), openPage(t, named), stripe.CardPaid); err != nil {
		t.Fatal(err)
	}
	halt(t, i) // with a webhook that no receiver has accepted

	i, again := begin(t, dir)
	defer halt(t, i)
	if again.SecretKey != named.SecretKey || again.WebhookSecret != named.WebhookSecret {
		t.Error("a restart changed the keys")
	}
	i.payments.SetWebhook(server.URL + webhookPath)
	if got := <-heard; got != "checkout.session.completed" {
		t.Errorf("heard of %s", got)
	}
	access, err := control.ReadAccess(PaymentsAccess(dir))
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

// With a configured key the real provider is used. Without payments none is started.
func TestOnlyWhereMoneyIsTaken(t *testing.T) {
	t.Setenv("STRIPE_SECRET_KEY", "")
	noKeys(t)
	for name, p := range map[string]desired.Environment{
		"without payments": takes("none"),
		"no development":   {Payments: desired.Payments{Provider: "stripe"}},
		"real money":       {Development: true, Payments: desired.Payments{Provider: "stripe", Livemode: true}},
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
