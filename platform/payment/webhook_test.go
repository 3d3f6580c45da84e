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

// INV-31, INV-32: one credit for each payment that agrees with its session, and none for any other,
// however often an event is delivered.
func TestINV31And32OneCreditForEachPaymentOrNone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		deliver func(b *bundle, s payment.Session)
		credits int
		state   payment.State
		reason  string
		events  map[string]int // by result
	}{
		"once": {
			deliver: func(b *bundle, s payment.Session) { b.deliver(b.provider.pay(s, false)) },
			credits: 1, state: payment.Credited, events: map[string]int{"credited": 1},
		},
		"a hundred times": {
			deliver: func(b *bundle, s payment.Session) {
				e := b.provider.pay(s, false)
				for range 100 {
					b.deliver(e)
					b.processAll()
				}
			},
			credits: 1, state: payment.Credited, events: map[string]int{"credited": 1},
		},
		"a hundred events of one payment": {
			deliver: func(b *bundle, s payment.Session) {
				e := b.provider.pay(s, false)
				for i := range 100 {
					b.deliver(with(e, map[string]any{"id": fmt.Sprint("evt_other_", i)}))
				}
			},
			credits: 1, state: payment.Credited, events: map[string]int{"credited": 1, "unchanged": 99},
		},
		"the event of its payment first": {
			deliver: func(b *bundle, s payment.Session) {
				e := b.provider.pay(s, false)
				b.deliver(b.provider.note("payment_intent.succeeded", map[string]any{
					"id": b.provider.checkoutOf(s).Payment, "object": "payment_intent", "amount": int64(s.Amount), "amount_received": int64(s.Amount), "currency": "eur",
					"customer": s.Customer, "status": "succeeded", "metadata": map[string]any{"gpuaas_session": s.ID.String()},
				}))
				b.processAll()
				if got := b.session(s.ID); got.State != payment.Initiated {
					b.t.Errorf("it is %s by the event of its payment", got.State)
				}
				b.deliver(e)
			},
			credits: 1, state: payment.Credited, events: map[string]int{"credited": 1, "ignored": 1},
		},
		"money that arrives later": {
			deliver: func(b *bundle, s payment.Session) {
				b.deliver(b.provider.pay(s, true))
				b.deliver(b.provider.arrives(s, true))
			},
			credits: 1, state: payment.Credited, events: map[string]int{"checkout_completed": 1, "credited": 1},
		},
		"its success delivered first": {
			deliver: func(b *bundle, s payment.Session) {
				first := b.provider.pay(s, true)
				b.deliver(b.provider.arrives(s, true))
				b.processAll()
				b.deliver(first)
			},
			credits: 1, state: payment.Credited, events: map[string]int{"credited": 1, "unchanged": 1},
		},
		"its failure": {
			deliver: func(b *bundle, s payment.Session) {
				b.deliver(b.provider.pay(s, true))
				b.deliver(b.provider.arrives(s, false))
			},
			state: payment.Expired, reason: "payment_failed", events: map[string]int{"checkout_completed": 1, "expired: payment_failed": 1},
		},
		"its failure delivered first": {
			deliver: func(b *bundle, s payment.Session) {
				first := b.provider.pay(s, true)
				b.deliver(b.provider.arrives(s, false))
				b.processAll()
				b.deliver(first)
			},
			state: payment.Expired, reason: "payment_failed", events: map[string]int{"expired: payment_failed": 1, "unchanged": 1},
		},
		"expired": {
			deliver: func(b *bundle, s payment.Session) { b.deliver(b.provider.expires(s)) },
			state:   payment.Expired, reason: "expired", events: map[string]int{"expired: expired": 1},
		},
		"paid, and expired delivered late": {
			deliver: func(b *bundle, s payment.Session) {
				paid := b.provider.pay(s, false)
				b.deliver(with(paid, map[string]any{"id": "evt_expired", "type": "checkout.session.expired", "object.status": "expired", "object.payment_status": "unpaid"}))
				b.processAll()
				b.deliver(paid)
				b.processAll()
				b.deliver(with(paid, map[string]any{"id": "evt_expired_2", "type": "checkout.session.expired", "object.status": "expired", "object.payment_status": "unpaid"}))
			},
			credits: 1, state: payment.Credited, events: map[string]int{"expired: expired": 1, "credited": 1, "unchanged": 1},
		},
		"another version, with a query of the provider": {
			deliver: func(b *bundle, s payment.Session) {
				b.deliver(with(b.provider.pay(s, false), map[string]any{"api_version": "2024-06-20", "object.amount_total": "not a number"}))
			},
			credits: 1, state: payment.Credited, events: map[string]int{"credited": 1},
		},
		"another version of what the provider does not know": {
			deliver: func(b *bundle, s payment.Session) {
				b.deliver(with(b.provider.pay(s, false), map[string]any{"api_version": "2024-06-20", "object.id": "cs_unheard"}))
			},
			state: payment.Initiated, events: map[string]int{"not_ours": 1},
		},
		"wrong, then right": {
			deliver: func(b *bundle, s payment.Session) {
				e := b.provider.pay(s, false)
				b.deliver(with(e, map[string]any{"id": "evt_wrong", "object.amount_total": 2600}))
				b.processAll()
				b.deliver(e)
			},
			credits: 1, state: payment.Credited, events: map[string]int{"failed_reconcile: amount": 1, "credited": 1},
		},
		"right, then wrong": {
			deliver: func(b *bundle, s payment.Session) {
				e := b.provider.pay(s, false)
				b.deliver(e)
				b.processAll()
				b.deliver(with(e, map[string]any{"id": "evt_wrong", "object.amount_total": 2600}))
			},
			credits: 1, state: payment.Credited, events: map[string]int{"disagrees: amount": 1, "credited": 1},
		},
		"two payments of one session": {
			deliver: func(b *bundle, s payment.Session) {
				e := b.provider.pay(s, false)
				b.deliver(e)
				b.processAll()
				b.deliver(with(e, map[string]any{"id": "evt_second", "object.payment_intent": "pi_second"}))
			},
			credits: 1, state: payment.Credited, events: map[string]int{"disagrees: payment": 1, "credited": 1},
		},
		"a payment of another session": {
			deliver: func(b *bundle, s payment.Session) {
				other := b.credited()
				b.deliver(with(b.provider.pay(s, false), map[string]any{"object.payment_intent": other.Payment}))
			},
			credits: 1, state: payment.FailedReconcile, reason: "payment_used", events: map[string]int{"credited": 1, "failed_reconcile: payment_used": 1},
		},
		"wrong amount":                {deliver: wrong("object.amount_total", 2499), state: payment.FailedReconcile, reason: "amount"},
		"an amount of zero":           {deliver: wrong("object.amount_total", 0), state: payment.FailedReconcile, reason: "amount"},
		"a negative amount":           {deliver: wrong("object.amount_total", -2500), state: payment.FailedReconcile, reason: "amount"},
		"the largest amount":          {deliver: wrong("object.amount_total", int64(9223372036854775807)), state: payment.FailedReconcile, reason: "amount"},
		"wrong currency":              {deliver: wrong("object.currency", "usd"), state: payment.FailedReconcile, reason: "currency"},
		"wrong customer":              {deliver: wrong("object.customer", "cus_other"), state: payment.FailedReconcile, reason: "customer"},
		"no customer":                 {deliver: wrong("object.customer", nil), state: payment.FailedReconcile, reason: "customer"},
		"another account":             {deliver: wrong("account", "acct_other"), state: payment.FailedReconcile, reason: "account"},
		"a live event":                {deliver: wrong("livemode", true), state: payment.FailedReconcile, reason: "livemode"},
		"a live checkout":             {deliver: wrong("object.livemode", true), state: payment.FailedReconcile, reason: "livemode"},
		"another reference":           {deliver: wrong("object.client_reference_id", "somebody's"), state: payment.FailedReconcile, reason: "reference"},
		"no reference":                {deliver: wrong("object.client_reference_id", nil), state: payment.FailedReconcile, reason: "reference"},
		"a reference without the key": {deliver: wrong("object.metadata", map[string]any{}), state: payment.FailedReconcile, reason: "reference"},
		"a stored card":               {deliver: wrong("object.mode", "setup"), state: payment.FailedReconcile, reason: "mode"},
		"a subscription":              {deliver: wrong("object.mode", "subscription"), state: payment.FailedReconcile, reason: "mode"},
		"another checkout":            {deliver: wrong("object.id", "cs_other"), state: payment.FailedReconcile, reason: "checkout"},
		"nothing to pay":              {deliver: wrong("object.payment_status", "no_payment_required"), state: payment.FailedReconcile, reason: "not_paid"},
		"paid by no payment":          {deliver: wrong("object.payment_intent", nil), state: payment.FailedReconcile, reason: "payment"},
		"about an unknown checkout":   {deliver: strange, state: payment.Initiated, events: map[string]int{"not_ours": 1}},
		"of an unknown type":          {deliver: typed("checkout_of_tomorrow.done"), state: payment.Initiated, events: map[string]int{"ignored": 1}},
		"of a type without money":     {deliver: typed("customer.updated"), state: payment.Initiated, events: map[string]int{"ignored": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			s := b.begin(price)
			c.deliver(b, s)
			b.processAll()
			if got := b.count("SELECT count(*) FROM ledger_transfers WHERE kind = 'topup'"); got != c.credits {
				t.Errorf("%d credits, want %d", got, c.credits)
			}
			b.expect(price * moneyTimes(c.credits))
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
			if got := strings.Count(b.events(), payment.SubjectCredited); got != c.credits {
				t.Errorf("%d credits were stated", got)
			}
			if failed := strings.Contains(b.events(), payment.SubjectReconcileFailed); failed != (c.reason != "" && c.state == payment.FailedReconcile || name == "wrong, then right") {
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

// Fifty deliveries and as many workers, concurrently with a sweep and a reconciliation by an operator.
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
	b.processAll()
	b.expect(price)
	if got := b.count("SELECT count(*) FROM stripe_events WHERE result = 'credited'"); got > 1 {
		t.Errorf("%d events have credited", got)
	}
	if jobs := b.count("SELECT count(*) FROM river.river_job WHERE kind = 'payment_event'"); jobs > 7 {
		t.Errorf("%d jobs for five events and the sweep's", jobs)
	}
	if strings.Count(b.events(), payment.SubjectCredited) != 1 || b.session(s.ID).State != payment.Credited {
		t.Errorf("stated %s", b.events())
	}
}

// An event without a recent signature of the provider over the exact bytes is not stored.
func TestOnlySignedEventsAreStored(t *testing.T) {
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
		"no signature":                       {body, "", errs.SignatureInvalid},
		"nonsense":                           {body, "so it is", errs.SignatureInvalid},
		"no time":                            {body, "v1=" + good, errs.SignatureInvalid},
		"two times":                          {body, "t=" + stamp + ",t=" + stamp + ",v1=" + good, errs.SignatureInvalid},
		"a time that is none":                {body, "t=now,v1=" + good, errs.SignatureInvalid},
		"only of an old scheme":              {body, "t=" + stamp + ",v0=" + good, errs.SignatureInvalid},
		"another secret":                     {body, stripe.Sign(body, "whsec_other", now), errs.SignatureInvalid},
		"two, and none is good":              {body, "t=" + stamp + ",v1=" + strings.Repeat("0", 64) + ",v1=" + strings.Repeat("f", 64), errs.SignatureInvalid},
		"older than five minutes":            {body, at(-302 * time.Second), errs.SignatureInvalid},
		"of a future time":                   {body, at(305 * time.Second), errs.SignatureInvalid},
		"one byte changed":                   {bytes.Replace(body, []byte("2500"), []byte("2501"), 1), at(0), errs.SignatureInvalid},
		"one space more":                     {append(bytes.Clone(body), ' '), at(0), errs.SignatureInvalid},
		"reformatted":                        {indented.Bytes(), at(0), errs.SignatureInvalid},
		"empty":                              {nil, at(0), errs.SignatureInvalid},
		"empty, and signed":                  {nil, stripe.Sign(nil, secret, now), errs.BadRequest},
		"signed, and no event":               {[]byte(`{"id":"x"}`), stripe.Sign([]byte(`{"id":"x"}`), secret, now), errs.BadRequest},
		"a byte more than the limit":         {make([]byte, 256<<10+1), "", errs.BodyTooLarge},
		"signed, a byte more than the limit": {make([]byte, 256<<10+1), stripe.Sign(make([]byte, 256<<10+1), secret, now), errs.BodyTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			wantCode(t, name, b.api.Receive(t.Context(), c.body, c.signature), c.want)
			if n := b.count("SELECT count(*) FROM stripe_events"); n != 0 {
				t.Errorf("%d events are stored", n)
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
		t.Errorf("%d events are stored unchanged", n)
	}
	if n := b.count("SELECT count(*) FROM river.river_job WHERE kind = 'payment_event'"); n != 1 {
		t.Errorf("%d jobs", n)
	}
}

// Threat: a signed event that cannot be stored is sent again for three days, and hides others in the log.
func TestOddSignedEventsAreStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := with(b.provider.pay(b.begin(price), false), map[string]any{"object.client_reference_id": "a\x00b", "object.customer": "\x00", "account": "\x00"})
	b.deliver(e)
	b.deliver(map[string]any{"id": "evt_thin", "object": "v2.core.event", "type": "v1.billing.meter.no_meter_found", "created": "2026-01-05T09:00:00.000Z", "livemode": false})
	b.processAll()
	b.expect(0)
	for id, result := range map[string]string{e["id"].(string): "failed_reconcile: account", "evt_thin": "ignored"} {
		if n := b.count("SELECT count(*) FROM stripe_events WHERE event_id = $1 AND result = $2", id, result); n != 1 {
			t.Errorf("%s did not lead to %s", id, result)
		}
	}
}

// The event and its job are one commit.
func TestEventWithoutItsJobIsNotStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	body, err := json.Marshal(b.provider.pay(b.begin(price), false))
	must(t, err)
	b.exec("REVOKE INSERT ON river.river_job FROM gpuaas_api")
	if err := b.api.Receive(t.Context(), body, stripe.Sign(body, secret, time.Now())); err == nil {
		t.Error("it was accepted without a job")
	}
	if n := b.count("SELECT count(*) FROM stripe_events"); n != 0 {
		t.Errorf("%d events are stored", n)
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
		b.expect(0)
		if b.session(s.ID).State != payment.Initiated || b.events() != "" || b.count("SELECT count(*) FROM stripe_events WHERE status = 'stored'") != 1 {
			t.Fatalf("dead after %d statements, and something is left", n)
		}
	}
	b.expect(price)
	b.processAll()
	b.expect(price)
}

var _ pg.DB = dying{}
