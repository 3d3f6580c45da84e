package jobs_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riverqueue/river/rivertype"

	"github.com/gpuaas/gpuaas/dev/stripe"
	"github.com/gpuaas/gpuaas/dev/stripe/control"
	"github.com/gpuaas/gpuaas/dev/stripe/stripetest"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/money"
	moneyjobs "github.com/gpuaas/gpuaas/jobs/money"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/platform/payment/autotopup"
	paymentstripe "github.com/gpuaas/gpuaas/platform/payment/stripe"
)

const topUp = money.Minor(2500)

// payer contains workers and an in-process payment provider, which sends webhooks as Stripe does.
type payer struct {
	*bundle

	provider *stripetest.Provider
	before   money.Minor
	// refunding is the fault of the next refund request. If it were set earlier, the search for an
	// existing refund would fail instead.
	refunding atomic.Pointer[string]
}

func setupPayer(t *testing.T) *payer {
	t.Helper()
	p := &payer{provider: stripetest.Start(t, stripe.Config{})}
	to, err := url.Parse(p.provider.URL)
	if err != nil {
		t.Fatal(err)
	}
	way := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		if fault := p.refunding.Load(); r.In.Method == http.MethodPost && r.In.URL.Path == "/v1/refunds" && p.refunding.CompareAndSwap(fault, nil) && fault != nil {
			p.arm(*fault)
		}
	}}
	api := httptest.NewServer(way)
	t.Cleanup(api.Close)
	client, err := paymentstripe.New(paymentstripe.Config{Key: stripetest.SecretKey, WebhookSecret: stripetest.WebhookSecret, URL: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	p.bundle = setupPaying(t, client)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = p.deps.Payments.Receive(r.Context(), body, r.Header.Get("Stripe-Signature"))
		}
		switch {
		case errs.CodeOf(err) == errs.SignatureInvalid:
			w.WriteHeader(http.StatusBadRequest)
		case err != nil:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(hook.Close)
	p.provider.SetWebhook(hook.URL)
	p.before = p.balance()
	return p
}

func (p *payer) balance() money.Minor {
	p.t.Helper()
	balance, _, err := p.Ledger.Balance(p.t.Context(), p.DB, p.Caller.Tenant)
	if err != nil {
		p.t.Fatal(err)
	}
	return balance
}

func (p *payer) arm(faults ...string) {
	p.t.Helper()
	for _, f := range faults {
		if err := p.provider.Arm(f, 1); err != nil {
			p.t.Fatalf("%s: %v", f, err)
		}
	}
}

func (p *payer) begin() payment.Session {
	p.t.Helper()
	s, err := p.deps.Payments.Begin(p.t.Context(), identity.Change[payment.Session]{Caller: p.Caller}, topUp)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// pay has a person pay on the page.
func (p *payer) pay(s payment.Session, card string) {
	p.t.Helper()
	if _, err := control.Pay(p.t.Context(), s.URL, card); err != nil {
		p.t.Fatal(err)
	}
}

func (p *payer) state(s payment.Session) payment.Session {
	p.t.Helper()
	s, err := p.deps.Payments.Session(p.t.Context(), p.Caller, s.ID)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// until waits for something that workers do.
func (p *payer) until(what string, done func() bool) {
	p.t.Helper()
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if done() {
			return
		}
	}
	p.t.Fatalf("never: %s\nevents: %v", what, p.eventsOf())
}

func (p *payer) eventsOf() (all []string) {
	rows, err := p.DB.Query(p.t.Context(), "SELECT type || ' ' || status || ' ' || result FROM stripe_events ORDER BY received_at")
	if err != nil {
		p.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		_ = rows.Scan(&line)
		all = append(all, line)
	}
	return all
}

// A payment is credited once, whatever happens to its webhooks.
func TestTopUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		faults []string
		card   string
		state  payment.State // empty: credited
		sweeps bool          // only a sweep credits it
	}{
		"at once":                           {},
		"later":                             {card: stripe.CardLater},
		"never":                             {card: stripe.CardLaterFails, state: payment.Expired},
		"reported twice":                    {faults: []string{"webhook_duplicate"}},
		"reported late":                     {faults: []string{"webhook_delay"}},
		"reported later than its successor": {card: stripe.CardLater, faults: []string{"webhook_reorder"}},
		"reported never":                    {faults: []string{"webhook_drop"}, sweeps: true},
		"forged first":                      {faults: []string{"webhook_forged"}},
		"stale first":                       {faults: []string{"webhook_stale"}},
		"in another version":                {faults: []string{"event_version"}},
		"of another amount":                 {faults: []string{"event_amount"}, state: payment.FailedReconcile},
		"of another currency":               {faults: []string{"event_currency"}, state: payment.FailedReconcile},
		"of another customer":               {faults: []string{"event_customer"}, state: payment.FailedReconcile},
		"of another reference":              {faults: []string{"event_reference"}, state: payment.FailedReconcile},
		"of the other mode":                 {faults: []string{"event_livemode"}, state: payment.FailedReconcile},
		"of another account":                {faults: []string{"event_account"}, state: payment.FailedReconcile},
		"queried while it fails":            {faults: []string{"event_version", "api_error"}, sweeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setupPayer(t)
			s := p.begin()
			p.arm(c.faults...)
			if c.card == "" {
				c.card = stripe.CardPaid
			}
			if c.state == "" {
				c.state = payment.Credited
			}
			p.pay(s, c.card)
			if c.sweeps {
				p.exec("UPDATE payment_sessions SET created_at = created_at - interval '1 hour'")
				p.until("sweeping", func() bool { return p.work(moneyjobs.SweepPayments{}).State == rivertype.JobStateCompleted })
			}
			p.until(string(c.state), func() bool { return p.state(s).State == c.state })
			want := p.before
			if c.state == payment.Credited {
				want += topUp
			}
			if got := p.balance(); got != want {
				t.Errorf("balance is %d, want %d", got, want)
			}
			if c.state != payment.FailedReconcile {
				return
			}
			// An operator starts a reconciliation with the provider, which has the payment.
			s, err := p.deps.Payments.Reconcile(t.Context(), identity.Change[payment.Session]{Caller: p.Operator}, s.ID)
			if err != nil || s.State != payment.Credited || p.balance() != p.before+topUp {
				t.Errorf("reconciled to %s with %d: %v", s.State, p.balance(), err)
			}
		})
	}
}

// Opening a checkout of which the first answer was lost.
func TestBeginWhileTheProviderFails(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"api_error", "api_lost", "api_kept"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			p := setupPayer(t)
			p.begin() // makes the customer
			p.arm(fault)
			ch := identity.Change[payment.Session]{
				Caller: p.Caller, Key: identity.Key{Principal: p.Caller.Principal(), Method: "POST", Route: "/payments/checkout-session", Key: "k"},
				Answer: func(s payment.Session) identity.Reply {
					return identity.Reply{Status: http.StatusCreated, Body: []byte(s.URL)}
				},
			}
			_, err := p.deps.Payments.Begin(t.Context(), ch, topUp)
			if errs.CodeOf(err) != errs.ProviderFailed {
				t.Fatalf("got %v", err)
			}
			s, err := p.deps.Payments.Begin(t.Context(), ch, topUp)
			if err != nil {
				t.Fatal(err)
			}
			p.pay(s, stripe.CardPaid)
			p.until("credited", func() bool { return p.state(s).State == payment.Credited })
			if got := p.balance(); got != p.before+topUp {
				t.Errorf("balance is %d", got)
			}
		})
	}
}

// A refund to the card is paid once or credited back, whatever the provider responds.
func TestRefundToTheCard(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault, card string
		back        bool
		untold      bool // no event reports the result
	}{
		"at once":                 {},
		"pending for a while":     {fault: "refund_pending"},
		"failing after a while":   {fault: "refund_failed", back: true},
		"answered 500, not done":  {fault: "api_error"},
		"done, answered 500":      {fault: "api_lost"},
		"done, 500 for good":      {fault: "api_kept"},
		"done, without a report":  {fault: "api_kept", untold: true},
		"a card that is slow":     {card: "4000000000007726"},
		"a card that is declined": {card: "4000000000005126", back: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setupPayer(t)
			s := p.begin()
			if c.card == "" {
				c.card = stripe.CardPaid
			}
			p.pay(s, c.card)
			p.until("credited", func() bool { return p.state(s).State == payment.Credited })
			if c.untold {
				if err := p.provider.Arm("webhook_drop", 100); err != nil {
					t.Fatal(err)
				}
			}
			if c.fault != "" {
				p.refunding.Store(&c.fault)
			}
			r, err := p.deps.Payments.Refund(t.Context(), identity.Change[payment.Refund]{Caller: p.Operator}, payment.RefundRequest{
				User: p.Caller.User, Kind: payment.Unspent, Amount: 1000, Session: &s.ID, Reason: "not needed",
			})
			if err != nil {
				t.Fatal(err)
			}
			state := payment.Succeeded
			want := p.before + topUp - 1000
			if c.back {
				state, want = payment.Failed, p.before+topUp
			}
			p.until("the refund is "+string(state), func() bool {
				all, err := p.deps.Payments.Refunds(t.Context(), p.Caller.Tenant, payment.Refund{}.ID, 10)
				return err == nil && len(all) == 1 && all[0].ID == r.ID && all[0].State == state
			})
			if got := p.balance(); got != want {
				t.Errorf("balance is %d, want %d", got, want)
			}
			status, err := p.provider.Status()
			if err != nil || status.Refunds != 1 {
				t.Errorf("the provider has made %d refunds, %v", status.Refunds, err)
			}
		})
	}
}

// The periodic job finds a low balance, and the charge is credited by its event. The next round charges nothing.
func TestAutoTopUp(t *testing.T) {
	t.Parallel()
	p := setupPayer(t)
	v, err := p.deps.AutoTopups.Begin(t.Context(), identity.Change[autotopup.View]{Caller: p.Caller})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := control.Pay(t.Context(), v.URL, stripe.CardPaid); err != nil {
		t.Fatal(err)
	}
	p.until("stored", func() bool {
		v, err = p.deps.AutoTopups.Get(t.Context(), p.Caller, v.ID)
		return err == nil && v.State == autotopup.Unconfirmed
	})
	terms := autotopup.Terms{Threshold: p.before + 1, Amount: topUp, Cap: 10 * topUp, Currency: "EUR"}
	if _, err := p.deps.AutoTopups.Confirm(t.Context(), identity.Change[autotopup.View]{Caller: p.Caller}, v.ID, terms); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p.done(moneyjobs.FindTopUps{})
		p.until("credited", func() bool { return p.balance() == p.before+topUp })
		p.idle(autotopup.TopUp{}.Kind())
	}
	if status, err := p.provider.Status(); err != nil || status.Charges != 1 {
		t.Errorf("%d charges, %v", status.Charges, err)
	}
}
