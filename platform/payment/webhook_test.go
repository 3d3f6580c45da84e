package payment_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/dev/stripe"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/payment"
)

// INV-31, INV-32: one credit for each payment that is what was begun, and none for
// any other, whatever is told how often.
func TestINV31And32OneCreditForEachPaymentOrNone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tell    func(b *bundle, s payment.Session)
		credits int
		state   payment.State
		reason  string
		events  map[string]int // by result
	}{
		"once": {
			tell:    func(b *bundle, s payment.Session) { b.deliver(b.provider.pay(s, false)) },
			credits: 1, state: payment.Credited, events: map[string]int{"credited": 1},
		},
		"a hundred times": {
			tell: func(b *bundle, s payment.Session) {
				e := b.provider.pay(s, false)
				for range 100 {
					b.deliver(e)
					b.settle()
				}
			},
			credits: 1, state: payment.Credited, events: map[string]int{"credited": 1},
		},
		"a hundred events of one payment": {
			tell: func(b *bundle, s payment.Session) {
				e := b.provider.pay(s, false)
				for i := range 100 {
					b.deliver(with(e, map[string]any{"id": fmt.Sprint("evt_other_", i)}))
				}
			},
			credits: 1, state: payment.Credited, events: map[string]int{"credited": 1, "unchanged": 99},
		},
		"money that takes its time": {
			tell: func(b *bundle, s payment.Session) {
				b.deliver(b.provider.pay(s, true))
				b.deliver(b.provider.arrives(s, true))
			},
			credits: 1, state: payment.Credited, events: map[string]int{"checkout_completed": 1, "credited": 1},
		},
		"its success told first": {
			tell: func(b *bundle, s payment.Session) {
				first := b.provider.pay(s, true)
				b.deliver(b.provider.arrives(s, true))
				b.settle()
				b.deliver(first)
			},
			credits: 1, state: payment.Credited, events: map[string]int{"credited": 1, "unchanged": 1},
		},
		"its failure": {
			tell: func(b *bundle, s payment.Session) {
				b.deliver(b.provider.pay(s, true))
				b.deliver(b.provider.arrives(s, false))
			},
			state: payment.Expired, reason: "payment_failed", events: map[string]int{"checkout_completed": 1, "expired: payment_failed": 1},
		},
		"its failure told first": {
			tell: func(b *bundle, s payment.Session) {
				first := b.provider.pay(s, true)
				b.deliver(b.provider.arrives(s, false))
				b.settle()
				b.deliver(first)
			},
			state: payment.Expired, reason: "payment_failed", events: map[string]int{"expired: payment_failed": 1, "unchanged": 1},
		},
		"expired": {
			tell:  func(b *bundle, s payment.Session) { b.deliver(b.provider.expires(s)) },
			state: payment.Expired, reason: "expired", events: map[string]int{"expired: expired": 1},
		},
		"paid, and expired told late": {
			tell: func(b *bundle, s payment.Session) {
				paid := b.provider.pay(s, false)
				b.deliver(with(paid, map[string]any{"id": "evt_expired", "type": "checkout.session.expired", "object.status": "expired", "object.payment_status": "unpaid"}))
				b.settle()
				b.deliver(paid)
				b.settle()
				b.deliver(with(paid, map[string]any{"id": "evt_expired_2", "type": "checkout.session.expired", "object.status": "expired", "object.payment_status": "unpaid"}))
			},
			credits: 1, state: payment.Credited, events: map[string]int{"expired: expired": 1, "credited": 1, "unchanged": 1},
		},
		"another version, which is asked about": {
			tell: func(b *bundle, s payment.Session) {
				b.deliver(with(b.provider.pay(s, false), map[string]any{"api_version": "2024-06-20", "object.amount_total": "not a number"}))
			},
			credits: 1, state: payment.Credited, events: map[string]int{"credited": 1},
		},
		"another version of what the provider does not know": {
			tell: func(b *bundle, s payment.Session) {
				b.deliver(with(b.provider.pay(s, false), map[string]any{"api_version": "2024-06-20", "object.id": "cs_unheard"}))
			},
			state: payment.Initiated, events: map[string]int{"not_ours": 1},
		},
		"wrong, then right": {
			tell: func(b *bundle, s payment.Session) {
				e := b.provider.pay(s, false)
				b.deliver(with(e, map[string]any{"id": "evt_wrong", "object.amount_total": 2600}))
				b.settle()
				b.deliver(e)
			},
			credits: 1, state: payment.Credited, events: map[string]int{"failed_reconcile: amount": 1, "credited": 1},
		},
		"right, then wrong": {
			tell: func(b *bundle, s payment.Session) {
				e := b.provider.pay(s, false)
				b.deliver(e)
				b.settle()
				b.deliver(with(e, map[string]any{"id": "evt_wrong", "object.amount_total": 2600}))
			},
			credits: 1, state: payment.Credited, events: map[string]int{"disagrees: amount": 1, "credited": 1},
		},
		"two payments of one session": {
			tell: func(b *bundle, s payment.Session) {
				e := b.provider.pay(s, false)
				b.deliver(e)
				b.settle()
				b.deliver(with(e, map[string]any{"id": "evt_second", "object.payment_intent": "pi_second"}))
			},
			credits: 1, state: payment.Credited, events: map[string]int{"disagrees: payment": 1, "credited": 1},
		},
		"a payment of another session": {
			tell: func(b *bundle, s payment.Session) {
				other := b.credited()
				b.deliver(with(b.provider.pay(s, false), map[string]any{"object.payment_intent": other.Payment}))
			},
			credits: 1, state: payment.FailedReconcile, reason: "payment_used", events: map[string]int{"credited": 1, "failed_reconcile: payment_used": 1},
		},
		"wrong amount":                 {tell: wrong("object.amount_total", 2499), state: payment.FailedReconcile, reason: "amount"},
		"an amount of zero":            {tell: wrong("object.amount_total", 0), state: payment.FailedReconcile, reason: "amount"},
		"a negative amount":            {tell: wrong("object.amount_total", -2500), state: payment.FailedReconcile, reason: "amount"},
		"the largest amount":           {tell: wrong("object.amount_total", int64(9223372036854775807)), state: payment.FailedReconcile, reason: "amount"},
		"wrong currency":               {tell: wrong("object.currency", "usd"), state: payment.FailedReconcile, reason: "currency"},
		"wrong customer":               {tell: wrong("object.customer", "cus_other"), state: payment.FailedReconcile, reason: "customer"},
		"no customer":                  {tell: wrong("object.customer", nil), state: payment.FailedReconcile, reason: "customer"},
		"another account":              {tell: wrong("account", "acct_other"), state: payment.FailedReconcile, reason: "account"},
		"a live event":                 {tell: wrong("livemode", true), state: payment.FailedReconcile, reason: "livemode"},
		"a live checkout":              {tell: wrong("object.livemode", true), state: payment.FailedReconcile, reason: "livemode"},
		"another reference":            {tell: wrong("object.client_reference_id", "somebody's"), state: payment.FailedReconcile, reason: "reference"},
		"no reference":                 {tell: wrong("object.client_reference_id", nil), state: payment.FailedReconcile, reason: "reference"},
		"another checkout":             {tell: wrong("object.id", "cs_other"), state: payment.FailedReconcile, reason: "checkout"},
		"nothing to pay":               {tell: wrong("object.payment_status", "no_payment_required"), state: payment.FailedReconcile, reason: "not_paid"},
		"paid by no payment":           {tell: wrong("object.payment_intent", nil), state: payment.FailedReconcile, reason: "payment"},
		"about a checkout of nobody's": {tell: strange, state: payment.Initiated, events: map[string]int{"not_ours": 1}},
		"of an unknown type":           {tell: typed("checkout_of_tomorrow.done"), state: payment.Initiated, events: map[string]int{"ignored": 1}},
		"of a type without money":      {tell: typed("customer.updated"), state: payment.Initiated, events: map[string]int{"ignored": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			s := b.begin(price)
			c.tell(b, s)
			b.settle()
			if got := b.count("SELECT count(*) FROM ledger_transfers WHERE kind = 'topup'"); got != c.credits {
				t.Errorf("%d credits, want %d", got, c.credits)
			}
			b.holds(price * moneyTimes(c.credits))
			if s = b.session(s.ID); s.State != c.state || s.Reason != c.reason {
				t.Errorf("the session is %s (%s), want %s (%s)", s.State, s.Reason, c.state, c.reason)
			}
			if c.state == payment.FailedReconcile && c.events == nil {
				c.events = map[string]int{"failed_reconcile: " + c.reason: 1}
			}
			for result, n := range c.events {
				if got := b.count("SELECT count(*) FROM stripe_events WHERE result = $1", result); got != n {
					t.Errorf("%d events came to %q, want %d", got, result, n)
				}
			}
			if got := strings.Count(b.facts(), payment.SubjectCredited); got != c.credits {
				t.Errorf("%d credits were stated", got)
			}
			if failed := strings.Contains(b.facts(), payment.SubjectReconcileFailed); failed != (c.reason != "" && c.state == payment.FailedReconcile || name == "wrong, then right") {
				t.Errorf("stated as failed: %v", failed)
			}
		})
	}
}

func moneyTimes(n int) (times paymentAmount) { return paymentAmount(n) }

func wrong(field string, value any) func(*bundle, payment.Session) {
	return func(b *bundle, s payment.Session) {
		b.deliver(with(b.provider.pay(s, false), map[string]any{field: value}))
	}
}

func typed(kind string) func(*bundle, payment.Session) { return wrong("type", kind) }

func strange(b *bundle, s payment.Session) {
	b.deliver(with(b.provider.pay(s, false), map[string]any{"object.id": "cs_other", "object.client_reference_id": "0199aaaa-0000-7000-8000-000000000000"}))
}

// Fifty deliveries, and as many workers, beside a sweep and a person who asks.
func TestINV31OneCreditUnderConcurrency(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.begin(price)
	e := b.provider.pay(s, false)
	b.exec("UPDATE payment_sessions SET created_at = now() - interval '1 hour'")
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			id := fmt.Sprint("evt_", i%5) // each ten times
			body, _ := json.Marshal(with(e, map[string]any{"id": id}))
			if err := b.api.Receive(t.Context(), body, stripe.Sign(body, secret, time.Now())); err != nil {
				t.Error(err)
			}
			if err := b.process(id); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Go(func() {
		if _, err := b.work.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
	})
	wg.Go(func() {
		if _, err := b.api.Reconcile(b.ours, changeOf(b.admin), s.ID); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	b.settle()
	b.holds(price)
	if got := b.count("SELECT count(*) FROM stripe_events WHERE result = 'credited'"); got > 1 {
		t.Errorf("%d events have credited", got)
	}
	if jobs := b.count("SELECT count(*) FROM river.river_job WHERE kind = 'payment_event'"); jobs > 7 {
		t.Errorf("%d jobs for five events and the sweep's", jobs)
	}
	if strings.Count(b.facts(), payment.SubjectCredited) != 1 || b.session(s.ID).State != payment.Credited {
		t.Errorf("stated %s", b.facts())
	}
}

// What is not signed by the provider, just now, byte for byte, is not kept.
func TestOnlySignedEventsAreKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.provider.pay(b.begin(price), false)
	body, err := json.Marshal(e)
	must(t, err)
	now := time.Now()
	at := func(off time.Duration) string { return stripe.Sign(body, secret, now.Add(off)) }
	value := func(key string) string { return at(0)[strings.Index(at(0), key)+len(key):] }
	stamp, good := strings.Split(value("t="), ",")[0], value("v1=")
	var indented bytes.Buffer
	must(t, json.Indent(&indented, body, "", " "))
	for name, c := range map[string]struct {
		body      []byte
		signature string
		want      errs.Code
	}{
		"no signature":                   {body, "", errs.SignatureInvalid},
		"nonsense":                       {body, "so it is", errs.SignatureInvalid},
		"no time":                        {body, "v1=" + good, errs.SignatureInvalid},
		"two times":                      {body, "t=" + stamp + ",t=" + stamp + ",v1=" + good, errs.SignatureInvalid},
		"a time that is none":            {body, "t=now,v1=" + good, errs.SignatureInvalid},
		"only of an old scheme":          {body, "t=" + stamp + ",v0=" + good, errs.SignatureInvalid},
		"another secret":                 {body, stripe.Sign(body, "whsec_other", now), errs.SignatureInvalid},
		"two, and none is good":          {body, "t=" + stamp + ",v1=" + strings.Repeat("0", 64) + ",v1=" + strings.Repeat("f", 64), errs.SignatureInvalid},
		"older than five minutes":        {body, at(-302 * time.Second), errs.SignatureInvalid},
		"of a time to come":              {body, at(305 * time.Second), errs.SignatureInvalid},
		"one byte changed":               {bytes.Replace(body, []byte("2500"), []byte("2501"), 1), at(0), errs.SignatureInvalid},
		"one space more":                 {append(bytes.Clone(body), ' '), at(0), errs.SignatureInvalid},
		"written anew":                   {indented.Bytes(), at(0), errs.SignatureInvalid},
		"empty":                          {nil, at(0), errs.SignatureInvalid},
		"empty, and signed":              {nil, stripe.Sign(nil, secret, now), errs.BadRequest},
		"signed, and no event":           {[]byte(`{"id":"x"}`), stripe.Sign([]byte(`{"id":"x"}`), secret, now), errs.BadRequest},
		"a byte more than is taken":      {make([]byte, 256<<10+1), "", errs.BodyTooLarge},
		"signed, a byte more than taken": {make([]byte, 256<<10+1), stripe.Sign(make([]byte, 256<<10+1), secret, now), errs.BodyTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			wantCode(t, name, b.api.Receive(t.Context(), c.body, c.signature), c.want)
			if n := b.count("SELECT count(*) FROM stripe_events"); n != 0 {
				t.Errorf("%d events are kept", n)
			}
		})
	}
	for name, signature := range map[string]string{
		"now": at(0), "four minutes ago": at(-290 * time.Second), "in four minutes": at(290 * time.Second),
		// While a secret is rolled, Stripe signs with the old one and the new one.
		"the second is good": "t=" + stamp + ",v1=" + strings.Repeat("0", 64) + ",v1=" + good,
		"the first is good":  "t=" + stamp + ",v1=" + good + ",v1=" + strings.Repeat("0", 64) + ",v0=x",
	} {
		t.Run(name, func(t *testing.T) { must(t, b.api.Receive(t.Context(), body, signature)) })
	}
	if n := b.count("SELECT count(*) FROM stripe_events WHERE body = $1", body); n != 1 {
		t.Errorf("%d events are kept as they came", n)
	}
	if n := b.count("SELECT count(*) FROM river.river_job WHERE kind = 'payment_event'"); n != 1 {
		t.Errorf("%d jobs", n)
	}
}

// The event and its job are one commit.
func TestEventWithoutItsJobIsNotKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	body, err := json.Marshal(b.provider.pay(b.begin(price), false))
	must(t, err)
	b.exec("REVOKE INSERT ON river.river_job FROM gpuaas_api")
	if err := b.api.Receive(t.Context(), body, stripe.Sign(body, secret, time.Now())); err == nil {
		t.Error("it was taken without a job")
	}
	if n := b.count("SELECT count(*) FROM stripe_events"); n != 0 {
		t.Errorf("%d events are kept", n)
	}
}

// A crash after any statement leaves nothing, and the next time is the first.
func TestINV31EachStatementOfACreditMayBeTheLast(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.begin(price)
	e := b.provider.pay(s, false)
	b.deliver(e)
	told, err := b.work.Gather(t.Context(), e["id"].(string))
	must(t, err)
	for n := 1; ; n++ {
		err := pgx.BeginFunc(t.Context(), dying{b.work.DB, &n}, func(tx pgx.Tx) error {
			_, err := b.work.Process(t.Context(), tx, told)
			return err
		})
		if err == nil {
			if n < 5 {
				t.Errorf("a credit has %d statements: this counts something else", n)
			}
			break
		}
		b.holds(0)
		if b.session(s.ID).State != payment.Initiated || b.facts() != "" || b.count("SELECT count(*) FROM stripe_events WHERE status = 'stored'") != 1 {
			t.Fatalf("dead after %d statements, and something is left", n)
		}
	}
	b.holds(price)
	b.settle()
	b.holds(price)
}

var _ pg.DB = dying{}
