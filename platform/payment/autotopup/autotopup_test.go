package autotopup_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	devstripe "github.com/gpuaas/gpuaas/dev/stripe"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/platform/payment/autotopup"
)

// A stored card is charged after the owner has confirmed the amounts, and only the event of the provider
// credits the charge.
func TestALowBalanceIsToppedUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	v := b.stored(devstripe.CardPaid)
	b.run()
	if n := b.charges(); n != 0 {
		t.Fatalf("%d charges before the confirmation", n)
	}
	v, err := b.api.Confirm(b.mine, change[autotopup.View](b.caller), v.ID, terms)
	must(t, err)
	if due, err := b.work.Due(t.Context()); err != nil || len(due) != 1 || due[0] != b.caller.Tenant {
		t.Fatalf("due: %v, %v", due, err)
	}
	b.run()
	b.wantBalance(0)
	b.run() // waits for the event
	b.deliver()
	b.wantBalance(5000)
	b.run() // enough
	if v = b.get(v.ID); b.charges() != 1 || v.Charged != 5000 || v.State != autotopup.Active {
		t.Errorf("%d charges; %+v", b.charges(), v)
	}
	if due, err := b.work.Due(t.Context()); err != nil || len(due) != 0 {
		t.Errorf("due: %v, %v", due, err)
	}
	if got, want := b.subjects(), "auto_topup_changed auto_topup_changed auto_topup_changed balance_credited"; got != want {
		t.Errorf("events %q, want %q", got, want)
	}
	if n := b.count(`SELECT count(*) FROM audit_logs WHERE action IN ('auto_topup.create', 'auto_topup.store', 'auto_topup.confirm', 'payment.charge')`); n != 4 {
		t.Errorf("%d audit rows", n)
	}
	all, err := b.api.Sessions(b.mine, b.caller.Tenant, ids.PaymentSession{}, 9)
	if err != nil || len(all) != 1 || all[0].Mandate != v.ID || all[0].State != payment.Credited || all[0].Number != 1 {
		t.Errorf("sessions %+v, %v", all, err)
	}
}

// INV-31: concurrent triggers charge once, and all charges of a month are within the cap.
func TestINV31NeverAboveTheCap(t *testing.T) {
	t.Parallel()
	b := setup(t)
	limits := terms
	limits.Threshold = 1_000_000
	b.active(devstripe.CardPaid, limits) // the cap permits two
	for round := 1; round <= 4; round++ {
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				if err := b.work.Run(t.Context(), b.caller.Tenant); err != nil && errs.CodeOf(err) != errs.ProviderFailed {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := b.charges(); n != min(round, 2) {
			t.Fatalf("round %d: %d charges", round, n)
		}
		if round <= 2 {
			b.deliver()
		}
	}
	b.wantBalance(10_000)
	// The cap is that of a month, and a charge that has failed does not count.
	b.exec(`UPDATE payment_sessions SET charge_month = charge_month - interval '1 month'`)
	b.exec(`INSERT INTO payment_sessions (id, org_id, principal, amount_minor, currency, status, livemode, expires_at, mandate_id, charge_month, charge_number)
		SELECT gen_random_uuid(), org_id, principal, 1000000, currency, 'expired', livemode, now(), id, date_trunc('month', now() AT TIME ZONE 'UTC'), 7 FROM payment_mandates`)
	b.run()
	b.deliver()
	b.wantBalance(15_000)
}

// A declined charge is repeated a few times, later each time. Then the tenant confirms the amounts again.
func TestDeclinesPauseTheMandate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	v := b.active(devstripe.CardDeclinedLater, terms)
	for i, wait := range []time.Duration{time.Hour, 6 * time.Hour, 24 * time.Hour, 0} {
		b.run()
		b.deliver() // the event reports what the response has reported
		b.run()     // too early
		if n := b.charges(); n != i+1 {
			t.Fatalf("%d charges after decline %d", n, i+1)
		}
		if v = b.get(v.ID); wait > 0 && (v.Failures != i+1 || v.State != autotopup.Active) {
			t.Fatalf("decline %d: %+v", i+1, v)
		}
		b.ahead.Add(int64(wait + time.Minute))
	}
	if v.State != autotopup.Paused || v.Reason != "declined" || v.Charged != 0 {
		t.Fatalf("%+v", v)
	}
	b.ahead.Add(int64(100 * time.Hour))
	b.run()
	if n := b.charges(); n != 4 {
		t.Errorf("%d charges while paused", n)
	}
	v, err := b.api.Confirm(b.mine, change[autotopup.View](b.caller), v.ID, terms)
	if err != nil || v.State != autotopup.Active || v.Failures != 0 || v.Reason != "" {
		t.Fatalf("resumed %+v, %v", v, err)
	}
	b.run()
	if n := b.charges(); n != 5 {
		t.Errorf("%d charges after the resumption", n)
	}
	if got, want := b.subjects(), "auto_topup_changed auto_topup_changed auto_topup_changed auto_topup_paused auto_topup_changed"; got != want {
		t.Errorf("events %q, want %q", got, want)
	}
	b.wantBalance(0)
}

// A bank that wants its customer gets no second request without the customer.
func TestAuthenticationPausesTheMandateAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	v := b.active(devstripe.CardAuthenticates, terms)
	b.run()
	b.run()
	if v = b.get(v.ID); v.State != autotopup.Paused || v.Reason != payment.FailureAuthentication || b.charges() != 1 {
		t.Errorf("%d charges; %+v", b.charges(), v)
	}
	b.deliver()
	if v = b.get(v.ID); v.State != autotopup.Paused {
		t.Errorf("%+v", v)
	}
}

// The response of a charge can be lost or late. The charge is made and credited once.
func TestACrashChargesOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]func(*bundle){
		"not done, answered 500": func(b *bundle) { b.fault.Store(new("api_error")) },
		"done, answered 500":     func(b *bundle) { b.fault.Store(new("api_lost")) },
		"done, 500 for good":     func(b *bundle) { b.fault.Store(new("api_kept")) },
		"the event is first":     func(b *bundle) { b.beforeResponse.Store(new(func() { b.deliver() })) },
		"no response reaches us": func(b *bundle) { b.beforeResponse.Store(new(func() { panic(http.ErrAbortHandler) })) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			v := b.active(devstripe.CardPaid, terms)
			c(b)
			_ = b.work.Run(t.Context(), b.caller.Tenant)
			b.beforeResponse.Store(nil)
			must(t, b.provider.Clear())
			for range 3 {
				b.run()
			}
			for b.count(`SELECT count(*) FROM stripe_events WHERE type = 'payment_intent.succeeded'`) == 0 {
				b.receive()
			}
			b.process()
			b.run()
			if n := b.charges(); n != 1 {
				t.Errorf("%d charges", n)
			}
			b.wantBalance(5000)
			if v = b.get(v.ID); v.Charged != 5000 {
				t.Errorf("%+v", v)
			}
		})
	}
}

// The platform or the tenant can end the permission between the reservation and the charge. The charge is not
// made, and its reservation ends.
func TestAReservedChargeIsNotSentWithoutPermission(t *testing.T) {
	t.Parallel()
	for name, withdraw := range map[string]func(*bundle, ids.Mandate){
		"policy off": func(b *bundle, _ ids.Mandate) { b.allowed.Store(false) },
		"mandate ended": func(b *bundle, id ids.Mandate) {
			must(b.t, b.api.End(b.mine, change[autotopup.Mandate](b.caller), id))
		},
		"maximum lowered": func(b *bundle, _ ids.Mandate) {
			b.work.Limits = func(identity.Caller) payment.Limits { return payment.Limits{Max: 4999, AutoTopup: true} }
		},
		"tenant deleted": func(b *bundle, _ ids.Mandate) {
			must(b.t, pgx.BeginFunc(b.t.Context(), b.db, func(tx pgx.Tx) error {
				return b.work.EndOf(b.t.Context(), tx, b.caller.Tenant, audit.By{Actor: "user:x"})
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			v := b.active(devstripe.CardPaid, terms)
			must(t, b.provider.Arm("api_error", 100)) // the reservation stays
			wantCode(t, "away", b.work.Run(t.Context(), b.caller.Tenant), errs.ProviderFailed)
			must(t, b.provider.Clear())
			withdraw(b, v.ID)
			b.run()
			if pending, err := b.api.Pending(b.mine, b.api.DB, b.caller.Tenant); err != nil || pending != 5000 {
				t.Errorf("%d pending, %v", pending, err)
			}
			b.exec(`UPDATE payment_sessions SET expires_at = now() - interval '1 second'`)
			b.run()
			if n := b.count(`SELECT count(*) FROM payment_sessions WHERE status = 'expired' AND reason = 'never_opened'`); n != 1 || b.charges() != 0 {
				t.Errorf("%d reservations have ended, %d charges", n, b.charges())
			}
			b.run()
			if n := b.count(`SELECT count(*) FROM payment_sessions`); n != 1 || b.charges() != 0 {
				t.Errorf("%d sessions, %d charges", n, b.charges())
			}
		})
	}
}

// A reservation of an amount that the owner has replaced since is not charged.
func TestOtherTermsEndAReservation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	v := b.active(devstripe.CardPaid, terms)
	must(t, b.provider.Arm("api_error", 100))
	wantCode(t, "away", b.work.Run(t.Context(), b.caller.Tenant), errs.ProviderFailed)
	must(t, b.provider.Clear())
	lower := terms
	lower.Amount = terms.Amount / 2
	_, err := b.api.Confirm(b.mine, change[autotopup.View](b.caller), v.ID, lower)
	must(t, err)
	b.run()
	if b.charges() != 0 {
		t.Errorf("%d charges of the old amount", b.charges())
	}
}

// A request that is repeated with its key ends no mandate.
func TestARepeatedBeginEndsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ch := identity.Change[autotopup.View]{
		Caller: b.caller, Key: identity.Key{Principal: b.caller.User.UUID, Method: "POST", Route: "/payments/auto-topups", Key: "k"},
		Answer: func(autotopup.View) identity.Reply { return identity.Reply{Status: 201, Body: []byte("{}")} },
	}
	first, err := b.api.Begin(b.mine, ch)
	must(t, err)
	_, err = b.api.Begin(b.mine, ch)
	wantCode(t, "repeated", err, errs.IdempotencyInFlight)
	if v := b.get(first.ID); v.State != autotopup.Pending || b.count(`SELECT count(*) FROM payment_mandates`) != 1 {
		t.Errorf("%+v", v)
	}
}

// endsMeanwhile ends each mandate while its page is opened.
type endsMeanwhile struct {
	payment.Provider

	b *bundle
}

func (p endsMeanwhile) OpenSetup(ctx context.Context, n payment.NewSetup) (payment.Checkout, error) {
	p.b.exec(`UPDATE payment_mandates SET status = 'ended'`)
	return p.Provider.OpenSetup(ctx, n)
}

// Another request can end a mandate while its page is opened. Its page is not returned.
func TestAnEndedMandateHasNoPage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.api.Provider = endsMeanwhile{b.api.Provider, b}
	_, err := b.api.Begin(b.mine, change[autotopup.View](b.caller))
	wantCode(t, "ended meanwhile", err, errs.Conflict)
}

// An operator reconciles a charge whose response was lost.
func TestALostChargeIsReconciled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.active(devstripe.CardPaid, terms)
	b.fault.Store(new("api_kept"))
	wantCode(t, "lost", b.work.Run(t.Context(), b.caller.Tenant), errs.ProviderFailed)
	var id ids.PaymentSession
	must(t, b.db.QueryRow(t.Context(), `SELECT id FROM payment_sessions WHERE status = 'initiated' AND provider_session IS NULL`).Scan(&id))
	done, err := b.work.Reconcile(pg.WithScope(t.Context(), pg.Platform), change[payment.Session](b.caller), id)
	if err != nil || done.State != payment.Credited {
		t.Errorf("%+v, %v", done, err)
	}
	b.wantBalance(5000)
}

// rejects rejects charges: all calls, or only searches.
type rejects struct {
	payment.Provider

	all bool
}

func (p rejects) Charge(ctx context.Context, c payment.NewCharge) (payment.Checkout, error) {
	if p.all || c.Method == "" {
		return payment.Checkout{}, payment.ErrRejected
	}
	return p.Provider.Charge(ctx, c)
}

// A rejected request is no decline: it is repeated later, and the mandate stays active.
func TestARejectedRequestIsRepeated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	v := b.active(devstripe.CardPaid, terms)
	provider := b.work.Provider
	b.work.Provider = rejects{provider, true}
	for round := range 5 {
		wantCode(t, "rejected", b.work.Run(t.Context(), b.caller.Tenant), errs.ProviderFailed)
		if v = b.get(v.ID); v.State != autotopup.Active || v.Failures != 0 || time.Until(v.NextAt) < 59*time.Minute {
			t.Fatalf("round %d: %+v", round, v)
		}
	}
	b.work.Provider = provider
	b.exec(`UPDATE payment_sessions SET expires_at = now() - interval '1 second'`)
	b.run() // ends the reservation
	b.run()
	if n := b.charges(); n != 0 {
		t.Errorf("%d charges before the delay has passed", n)
	}
	b.ahead.Add(int64(61 * time.Minute))
	b.run()
	b.deliver()
	b.wantBalance(5000)
}

// A charge whose search is rejected for ever ends after a day, so that its tenant can be deleted. An operator and a late
// report of the provider settle it.
func TestAnUnreportedChargeEnds(t *testing.T) {
	t.Parallel()
	made := func(b *bundle) { b.fault.Store(new("api_kept")) }
	for name, c := range map[string]struct {
		lose   func(*bundle)
		settle func(*bundle, ids.PaymentSession)
		state  payment.State
	}{
		"not made, reconciled": {func(b *bundle) { must(b.t, b.provider.Arm("api_error", 100)) }, reconcile, payment.Expired},
		"made, reconciled":     {made, reconcile, payment.Credited},
		"made, reported": {made, func(b *bundle, _ ids.PaymentSession) {
			for b.count(`SELECT count(*) FROM stripe_events WHERE type = 'payment_intent.succeeded'`) == 0 {
				b.receive()
			}
			b.process()
		}, payment.Credited},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			v := b.active(devstripe.CardPaid, terms)
			c.lose(b)
			wantCode(t, "lost", b.work.Run(t.Context(), b.caller.Tenant), errs.ProviderFailed)
			must(t, b.provider.Clear())
			provider := b.work.Provider
			b.work.Provider = rejects{provider, false}
			b.exec(`UPDATE payment_sessions SET created_at = now() - interval '23 hours', expires_at = now() - interval '22 hours'`)
			if _, err := b.work.Sweep(t.Context()); err == nil {
				t.Error("a rejected search is no error")
			}
			if pending, err := b.api.Pending(b.mine, b.api.DB, b.caller.Tenant); err != nil || pending != 5000 {
				t.Errorf("%d pending, %v", pending, err)
			}
			b.exec(`UPDATE payment_sessions SET created_at = now() - interval '25 hours'`)
			_, err := b.work.Sweep(t.Context())
			must(t, err)
			if pending, err := b.api.Pending(b.mine, b.api.DB, b.caller.Tenant); err != nil || pending != 0 {
				t.Errorf("%d pending after a day, %v", pending, err)
			}
			stuck, err := b.work.AllSessions(pg.WithScope(t.Context(), pg.Platform), payment.Filter{Status: "stuck"}, ids.PaymentSession{}, 9)
			if err != nil || len(stuck) != 1 || stuck[0].State != payment.FailedReconcile || stuck[0].Reason != "unreported" {
				t.Fatalf("%+v, %v", stuck, err)
			}
			b.work.Provider = provider
			c.settle(b, stuck[0].ID)
			if s, err := b.work.SessionOf(pg.WithScope(t.Context(), pg.Platform), stuck[0].ID); err != nil || s.State != c.state {
				t.Errorf("%+v, %v", s, err)
			}
			if v = b.get(v.ID); v.State != autotopup.Active || v.Failures != 0 {
				t.Errorf("%+v", v)
			}
			b.subjects()
		})
	}
}

func reconcile(b *bundle, id ids.PaymentSession) {
	b.t.Helper()
	_, err := b.work.Reconcile(pg.WithScope(b.t.Context(), pg.Platform), change[payment.Session](b.caller), id)
	must(b.t, err)
}

// Concurrent requests with one idempotency key begin one mandate.
func TestConcurrentRequestsBeginOneMandate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for round := range 5 {
		b.exec(`DELETE FROM payment_mandates`)
		ch := identity.Change[autotopup.View]{
			Caller: b.caller, Key: identity.Key{Principal: b.caller.User.UUID, Method: "POST", Route: "/payments/auto-topups", Key: fmt.Sprint(round)},
			Answer: func(autotopup.View) identity.Reply { return identity.Reply{Status: 201, Body: []byte("{}")} },
		}
		var all sync.WaitGroup
		var begun atomic.Int64
		for range 16 {
			all.Go(func() {
				switch _, err := b.api.Begin(b.mine, ch); errs.CodeOf(err) {
				case "":
					begun.Add(1)
				case errs.IdempotencyInFlight, errs.Conflict: // a repetition gets the response of the first
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := b.count(`SELECT count(*) FROM payment_mandates WHERE status = 'pending' AND url <> ''`); n != 1 || begun.Load() != 1 {
			t.Errorf("round %d: %d mandates with a page, %d responses", round, n, begun.Load())
		}
		if n := b.count(`SELECT count(*) FROM payment_mandates`); n != 1 {
			t.Errorf("round %d: %d mandates", round, n)
		}
	}
}

// A request whose first try has ended without a response continues with its mandate.
func TestARequestContinuesItsMandate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ch := identity.Change[autotopup.View]{
		Caller: b.caller, Key: identity.Key{Principal: b.caller.User.UUID, Method: "POST", Route: "/payments/auto-topups", Key: "k"},
		Answer: func(autotopup.View) identity.Reply { return identity.Reply{Status: 201, Body: []byte("{}")} },
	}
	first, err := b.api.Begin(b.mine, ch)
	must(t, err)
	b.exec(`DELETE FROM idempotency_keys`)
	_, err = b.api.Begin(b.mine, ch)
	wantCode(t, "at work", err, errs.IdempotencyInFlight)
	b.ahead.Store(int64(2 * time.Minute))
	if again, err := b.api.Begin(b.mine, ch); err != nil || again.ID != first.ID || again.Session != first.Session {
		t.Errorf("%+v, %v, first %+v", again, err, first)
	}
	b.exec(`DELETE FROM idempotency_keys`)
	b.ahead.Store(int64(40 * time.Minute))
	next, err := b.api.Begin(b.mine, ch)
	if v := b.get(first.ID); err != nil || next.ID == first.ID || v.State != autotopup.Ended {
		t.Errorf("%+v, %v, first %+v", next, err, v)
	}
}

// Policy is read again immediately before the call.
func TestPolicyIsReadBeforeTheCall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.active(devstripe.CardPaid, terms)
	var reads atomic.Int64
	b.work.Limits = func(identity.Caller) payment.Limits {
		return payment.Limits{Max: 500_000, AutoTopup: reads.Add(1) == 1} // on for the reservation only
	}
	b.run()
	if n := b.count(`SELECT count(*) FROM payment_sessions WHERE status = 'initiated'`); n != 1 || b.charges() != 0 {
		t.Errorf("%d reserved, %d charges", n, b.charges())
	}
}

// Another tenant reaches a mandate in no way, and the amounts are within the limits and in the currency of the
// tenant.
func TestMandatesAreOfTheirTenant(t *testing.T) {
	t.Parallel()
	b := setup(t)
	v := b.stored(devstripe.CardPaid)
	other := b.caller
	other.Tenant, other.User = ids.New[ids.Tenant](), ids.New[ids.User]()
	theirs := pg.WithScope(t.Context(), other.Scope(false))
	_, read := b.api.Get(theirs, other, v.ID)
	_, confirmed := b.api.Confirm(theirs, change[autotopup.View](other), v.ID, terms)
	for what, err := range map[string]error{
		"read": read, "confirm": confirmed, "end": b.api.End(theirs, change[autotopup.Mandate](other), v.ID),
	} {
		wantCode(t, what, err, errs.NotFound)
	}
	if all, err := b.api.List(theirs, b.caller, ids.Mandate{}, 9); err != nil || len(all) != 0 {
		t.Errorf("lists %v, %v", all, err)
	}
	for what, c := range map[string]struct {
		change func(*autotopup.Terms)
		code   errs.Code
	}{
		"another currency": {func(t *autotopup.Terms) { t.Currency = "USD" }, errs.ValidationError},
		"too little":       {func(t *autotopup.Terms) { t.Amount = 499 }, errs.PaymentAmountOutOfRange},
		"too much":         {func(t *autotopup.Terms) { t.Amount, t.Cap = 500_001, 600_000 }, errs.PaymentAmountOutOfRange},
		"a cap below it":   {func(t *autotopup.Terms) { t.Cap = t.Amount - 1 }, errs.ValidationError},
	} {
		changed := terms
		c.change(&changed)
		_, err := b.api.Confirm(b.mine, change[autotopup.View](b.caller), v.ID, changed)
		wantCode(t, what, err, c.code)
	}
	b.allowed.Store(false)
	_, err := b.api.Confirm(b.mine, change[autotopup.View](b.caller), v.ID, terms)
	wantCode(t, "confirm without the policy", err, errs.PolicyDenied)
	_, err = b.api.Begin(b.mine, change[autotopup.View](b.caller))
	wantCode(t, "begin without the policy", err, errs.PolicyDenied)
	b.allowed.Store(true)
	// The currency of the balance can differ from that of the mandate only by a fault. Nothing is charged then.
	v, err = b.api.Confirm(b.mine, change[autotopup.View](b.caller), v.ID, terms)
	must(t, err)
	b.exec(`UPDATE payment_mandates SET currency = 'USD'`)
	b.run()
	if v = b.get(v.ID); v.State != autotopup.Paused || v.Reason != "currency" || b.charges() != 0 {
		t.Errorf("%d charges; %+v", b.charges(), v)
	}
}

// A new card replaces the confirmed one when it is confirmed, and a page that was never used ends.
func TestMandatesReplaceEachOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	old := b.active(devstripe.CardPaid, terms)
	unused, err := b.api.Begin(b.mine, change[autotopup.View](b.caller))
	must(t, err)
	_, err = b.api.Confirm(b.mine, change[autotopup.View](b.caller), unused.ID, terms)
	wantCode(t, "no card", err, errs.Conflict)
	next := b.stored(devstripe.CardPaid)
	if v := b.get(unused.ID); v.State != autotopup.Ended || v.Reason != "replaced" {
		t.Errorf("unused: %+v", v)
	}
	if v := b.get(old.ID); v.State != autotopup.Active {
		t.Errorf("before the confirmation: %+v", v)
	}
	_, err = b.api.Confirm(b.mine, change[autotopup.View](b.caller), next.ID, terms)
	must(t, err)
	if v := b.get(old.ID); v.State != autotopup.Ended || v.Reason != "replaced" {
		t.Errorf("after the confirmation: %+v", v)
	}
	_, err = b.api.Confirm(b.mine, change[autotopup.View](b.caller), old.ID, terms)
	wantCode(t, "an ended one", err, errs.Conflict)
	must(t, b.api.End(b.mine, change[autotopup.Mandate](b.caller), next.ID))
	wantCode(t, "end twice", b.api.End(b.mine, change[autotopup.Mandate](b.caller), next.ID), errs.NotFound)
	b.run()
	if n := b.charges(); n != 0 {
		t.Errorf("%d charges after the end", n)
	}
}

// A report that differs from the mandate stores nothing and is marked for an operator.
func TestReportsOfAStoredCardAreCompared(t *testing.T) {
	t.Parallel()
	b := setup(t)
	v, err := b.api.Begin(b.mine, change[autotopup.View](b.caller))
	must(t, err)
	right := payment.Claim{Checkout: payment.Checkout{
		ID: v.Session, Mode: payment.ModeSetup, Reference: v.ID.String(), Mandate: v.ID.String(), Customer: v.Customer, Stage: payment.StageComplete, Method: "pm_1",
	}}
	for what, c := range map[string]func(*payment.Claim){
		"account": func(c *payment.Claim) { c.Account = "acct_1" }, "livemode": func(c *payment.Claim) { c.Live = true },
		"reference": func(c *payment.Claim) { c.Reference = "x" }, "checkout": func(c *payment.Claim) { c.ID = "cs_other" },
		"customer": func(c *payment.Claim) { c.Customer = "cus_other" }, "payment_method": func(c *payment.Claim) { c.Method = "" },
	} {
		wrong := right
		c(&wrong)
		must(t, pgx.BeginFunc(t.Context(), b.work.DB, func(tx pgx.Tx) error {
			o, err := b.work.Stored(t.Context(), tx, wrong)
			if o.Result != payment.ResultDisagrees || o.Reason != what || !o.Attention {
				t.Errorf("%s: %+v", what, o)
			}
			return err
		}))
	}
	if v := b.get(v.ID); v.State != autotopup.Pending {
		t.Errorf("%+v", v)
	}
}
