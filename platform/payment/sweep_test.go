package payment_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/payment"
)

// sweep runs one, and works on what it has found.
func (b *bundle) sweep() payment.Found {
	b.t.Helper()
	found, err := b.work.Sweep(b.t.Context())
	must(b.t, err)
	b.processAll()
	return found
}

// ago makes everything that is known so much older.
func (b *bundle) ago(age string) {
	b.t.Helper()
	b.exec("UPDATE payment_sessions SET created_at = created_at - $1::interval, expires_at = expires_at - $1::interval", age)
	b.exec("UPDATE stripe_events SET received_at = received_at - $1::interval", age)
	b.exec("UPDATE payment_sweeps SET up_to = up_to - $1::interval", age)
	b.exec("UPDATE refund_requests SET created_at = created_at - $1::interval", age)
}

// INV-38: the events of a fifth of a hundred payments are lost. One sweep finds all of them.
func TestINV38DroppedEventsAreFound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var sum money.Minor
	dropped := 0
	for range 100 {
		s := b.begin(price)
		later := rand.IntN(4) == 0
		events := []map[string]any{b.provider.pay(s, later)}
		if later {
			events = append(events, b.provider.arrives(s, true))
		}
		for _, e := range events {
			if rand.IntN(5) == 0 {
				dropped++
				continue
			}
			b.deliver(e)
		}
		sum += price
	}
	b.processAll()
	found := b.sweep()
	b.expect(sum)
	if n := b.count("SELECT count(*) FROM payment_sessions WHERE status <> 'credited'"); n != 0 || found.Events != dropped {
		t.Errorf("%d are not credited; %d events were dropped and %+v found", n, dropped, found)
	}
	if again := b.sweep(); again != (payment.Found{}) {
		t.Errorf("a second sweep finds %+v", again)
	}
	b.expect(sum)
}

// Three days later the provider's list is read from where the last sweep began,
// and its answer about the session would do without.
func TestINV38AnEventOfThreeDaysAgo(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]bool{"listed": false, "forgotten by the provider": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.sweep()
			s := b.begin(price)
			late := b.provider.pay(s, false)
			for range 3 { // of others, that came
				b.credited()
			}
			b.ago("3 days")
			late["created"] = time.Now().Add(-72 * time.Hour).Unix()
			if forget {
				b.provider.events = nil
			}
			b.sweep()
			b.expect(4 * price)
			if got := b.session(s.ID); got.State != payment.Credited || forget == (b.count("SELECT count(*) FROM stripe_events WHERE source = 'sweep'") > 0) {
				t.Errorf("the session is %+v", got)
			}
			b.deliver(late) // the provider tries for three days
			b.processAll()
			b.expect(4 * price)
		})
	}
}

func TestSweepEndsWhatIsOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	closed, open, failed := b.begin(price), b.begin(price), b.begin(price)
	b.provider.expires(closed)
	b.provider.pay(failed, true)
	b.provider.arrives(failed, false)
	b.provider.events = nil
	b.provider.failing["OpenCheckout"] = errs.New(errs.ProviderFailed, "away")
	b.exec(`INSERT INTO payment_sessions (id, org_id, principal, amount_minor, currency, status, livemode, expires_at)
		VALUES (gen_random_uuid(), $1, $1, 5, 'EUR', 'initiated', false, now() + interval '1 hour')`, b.caller.Tenant) // and then the process died
	b.ago("2 hours")
	if found := b.sweep(); found.Sessions != 3 {
		t.Errorf("found %+v", found)
	}
	for id, want := range map[ids.PaymentSession]string{closed.ID: "expired", failed.ID: "payment_failed", open.ID: ""} {
		if s := b.session(id); s.Reason != want || s.CheckedAt == nil {
			t.Errorf("%+v, want %q", s, want)
		}
	}
	if n := b.count("SELECT count(*) FROM payment_sessions WHERE reason = 'never_opened'"); n != 1 {
		t.Errorf("%d were never opened", n)
	}
	b.expect(0)
}

// One session without a response of the provider does not delay the others.
func TestSweepGoesOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lost, paid := b.begin(price), b.begin(price)
	b.provider.pay(paid, false)
	b.provider.events = nil
	delete(b.provider.checkouts, lost.ID)
	b.ago("1 hour")
	if _, err := b.work.Sweep(t.Context()); err == nil || !strings.Contains(err.Error(), lost.ID.String()) {
		t.Errorf("error %v", err)
	}
	b.expect(price)
}

// A lost job is queued again.
func TestSweepAsksAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.credited()
	r, err := b.refund(payment.Unspent, 100, nil)
	must(t, err)
	b.deliver(b.provider.pay(b.begin(price), false))
	b.exec("DELETE FROM river.river_job")
	b.ago("10 minutes")
	found, err := b.work.Sweep(t.Context())
	if err != nil || found.Again != 2 {
		t.Errorf("found %+v, %v", found, err)
	}
	if n := b.count("SELECT count(*) FROM river.river_job WHERE kind IN ('payment_event', 'payment_refund')"); n != 2 {
		t.Errorf("%d jobs", n)
	}
	must(t, b.send(r.ID))
}

// Reconcile applies the same rule, at the request of an operator.
func TestReconcile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.begin(price)
	e := b.provider.pay(s, false)
	b.deliver(with(e, map[string]any{"object.currency": "usd"}))
	b.processAll()
	stuck, err := b.api.AllSessions(b.ours, payment.Filter{Status: string(payment.FailedReconcile), Tenant: b.caller.Tenant}, ids.PaymentSession{}, 10)
	if err != nil || len(stuck) != 1 || stuck[0].ID != s.ID {
		t.Fatalf("stuck are %+v, %v", stuck, err)
	}
	ch := changeOf(b.admin)
	ch.Key = identity.Key{Principal: b.admin.Principal(), Method: "POST", Route: "/r", Key: "k"}
	ch.Answer = func(s payment.Session) identity.Reply { return identity.Reply{Status: 200, Body: []byte(s.State)} }
	got, err := b.api.Reconcile(b.ours, ch, s.ID)
	if err != nil || got.State != payment.Credited || got.Version != b.session(s.ID).Version || got.CheckedAt == nil {
		t.Errorf("became %+v, %v", got, err)
	}
	b.expect(price)
	_, err = b.api.Reconcile(b.ours, ch, s.ID)
	wantCode(t, "the same request", err, errs.IdempotencyInFlight)
	if got, err := b.api.Reconcile(b.ours, changeOf(b.admin), s.ID); err != nil || got.State != payment.Credited {
		t.Errorf("once more: %+v, %v", got, err)
	}
	b.expect(price)
	if n := b.count("SELECT count(*) FROM audit_logs WHERE action = 'payment.reconcile'"); n != 2 {
		t.Errorf("%d audit rows", n)
	}
	if all, err := b.api.AllSessions(b.ours, payment.Filter{Status: payment.StuckStatus}, ids.PaymentSession{}, 10); err != nil || len(all) != 0 {
		t.Errorf("stuck are %+v, %v", all, err)
	}
	_, err = b.api.Reconcile(b.ours, changeOf(b.admin), ids.New[ids.PaymentSession]())
	wantCode(t, "an unknown session", err, errs.NotFound)
}
