package matrix_test

import (
	"net/http"
	"testing"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/dev/stripe"
	"github.com/gpuaas/gpuaas/dev/stripe/stripetest"
	"github.com/gpuaas/gpuaas/server"
)

// takeMoney makes the server pay at a provider of this test. It notifies no server of
// what is paid: no cell of the matrix waits for that.
func takeMoney(t testing.TB, c *server.Config) {
	t.Helper()
	at := stripetest.Start(t, stripe.Config{})
	c.Payments = server.Payments{SecretKey: stripetest.SecretKey, WebhookSecret: stripetest.WebhookSecret, APIURL: at.URL}
	c.Profile.Payments, c.Profile.Development = desired.Payments{Provider: desired.ProviderStripe}, true
}

// checkout begins a payment, as the side's owner.
func (w *fixture) checkout(s *side) string {
	got := w.send(request{http.MethodPost, "/api/v1/payments/checkout-session", s.owner.header(), []byte(`{"amount_minor":500000}`)})
	if got.status != http.StatusCreated {
		w.Fatalf("beginning a payment: %d %s", got.status, got.body)
	}
	return field(got.body, "id")
}

// pay marks a checkout session as paid, as a worker would.
func (w *fixture) pay(session string) {
	payment, transfer := w.unique("pi"), id()
	w.sql(`UPDATE payment_sessions SET status = 'credited', payment = $2, url = '', status_at = now(), version = version + 1 WHERE id = $1`, session, payment)
	w.sql(`INSERT INTO stripe_payments (payment, session_id, org_id, amount_minor, currency, transfer_id)
		SELECT $2, id, org_id, amount_minor, currency, $3 FROM payment_sessions WHERE id = $1`, session, payment, transfer)
}
