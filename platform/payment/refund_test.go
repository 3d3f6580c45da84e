package payment_test

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/payment"
)

func (b *bundle) refund(kind payment.Kind, amount money.Minor, named *ids.PaymentSession) (payment.Refund, error) {
	return b.api.Refund(b.ours, identity.Change[payment.Refund]{Caller: b.admin}, payment.RefundRequest{
		User: b.caller.User, Kind: kind, Amount: amount, Session: named, Reason: "requested by the user",
	})
}

// send works on a refund, as the job does.
func (b *bundle) send(id ids.Refund) error {
	said, due, err := b.work.Send(b.t.Context(), id)
	if err != nil || !due {
		return err
	}
	return pgx.BeginFunc(b.t.Context(), b.work.DB, func(tx pgx.Tx) error {
		_, err := b.work.RecordRefund(b.t.Context(), tx, said)
		return err
	})
}

func (b *bundle) refunded(id ids.Refund) payment.Refund {
	b.t.Helper()
	all, err := b.api.Refunds(b.ours, b.caller.Tenant, ids.Refund{}, 100)
	must(b.t, err)
	for _, r := range all {
		if r.ID == id {
			return r
		}
	}
	b.t.Fatalf("refund %s is not listed", id)
	return payment.Refund{}
}

// account returns the balance of a platform account.
func (b *bundle) account(name string) int {
	return b.count(`SELECT coalesce(sum(e.amount_minor), 0)::int FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id WHERE a.name = $1`, name)
}

// spend charges some of the balance for use.
func (b *bundle) spend(amount money.Minor) {
	b.t.Helper()
	b.do(func(tx pgx.Tx) error {
		id := uuid.Must(uuid.NewV7())
		_, err := tx.Exec(b.t.Context(), `INSERT INTO ledger_transfers (id, kind, reference, org_id, amount_minor) VALUES ($1::uuid, 'usage', $1::text, $2, $3)`,
			id, b.caller.Tenant, -amount)
		if err != nil {
			return err
		}
		_, err = tx.Exec(b.t.Context(), `INSERT INTO ledger_entries (transfer_id, account_id, amount_minor, currency)
			SELECT $1::uuid, id, CASE WHEN org_id IS NULL THEN $2::bigint ELSE -$2::bigint END, 'EUR' FROM ledger_accounts WHERE name = 'revenue' OR org_id = $3`,
			id, amount, b.caller.Tenant)
		return err
	})
}

// promise credits an amount that was not paid.
func (b *bundle) promise(amount money.Minor) {
	b.t.Helper()
	b.do(func(tx pgx.Tx) error {
		return (&ledger.Service{DB: b.db}).TestCredit(b.t.Context(), tx, b.caller.Tenant, amount, uuid.NewString())
	})
}

// Decision 25: which way money goes back.
func TestRefundRoutes(t *testing.T) {
	t.Parallel()
	old := func(b *bundle) { b.exec("UPDATE stripe_payments SET credited_at = now() - interval '31 days'") }
	for name, c := range map[string]struct {
		given   func(*bundle)
		kind    payment.Kind
		amount  money.Minor
		named   bool
		route   payment.Route
		refused errs.Code
		balance money.Minor // afterwards
	}{
		"unspent, all of it":                                  {kind: payment.Unspent, amount: price, route: payment.ToCard, balance: 0},
		"unspent, more than is left":                          {given: func(b *bundle) { b.spend(1) }, kind: payment.Unspent, amount: price, refused: errs.InsufficientBalance, balance: price - 1},
		"unspent, more than was paid":                         {kind: payment.Unspent, amount: price + 1, refused: errs.RefundExceedsPayment, balance: price},
		"unspent, of promotional credit":                      {given: func(b *bundle) { b.spend(price); b.promise(price) }, kind: payment.Unspent, amount: 1, refused: errs.RefundExceedsPayment, balance: price},
		"unspent, with promotional credit":                    {given: func(b *bundle) { b.promise(100); b.spend(60) }, kind: payment.Unspent, amount: price, route: payment.ToCard, balance: 40},
		"a charge, of promotional credit":                     {given: func(b *bundle) { b.promise(100); b.spend(100) }, kind: payment.Charge, amount: 100, route: payment.ToLedger, balance: price + 100},
		"a charge, of promotional credit, of a named payment": {given: func(b *bundle) { b.promise(100); b.spend(100) }, kind: payment.Charge, amount: 1, named: true, refused: errs.RefundExceedsPayment, balance: price},
		"a charge, half of promotional credit":                {given: func(b *bundle) { b.promise(50); b.spend(100) }, kind: payment.Charge, amount: 50, route: payment.ToCard, balance: price - 50},
		"a charge, of nothing charged":                        {kind: payment.Charge, amount: 1, refused: errs.RefundExceedsCharges, balance: price},
		"a charge, more than was charged":                     {given: func(b *bundle) { b.spend(99) }, kind: payment.Charge, amount: 100, refused: errs.RefundExceedsCharges, balance: price - 99},
		"unspent, paid long ago":                              {given: old, kind: payment.Unspent, amount: 1, refused: errs.RefundWindowExceeded, balance: price},
		"unspent, of a named payment":                         {kind: payment.Unspent, amount: 1000, named: true, route: payment.ToCard, balance: price - 1000},
		"a charge, to the card":                               {given: func(b *bundle) { b.spend(price) }, kind: payment.Charge, amount: price, route: payment.ToCard, balance: 0},
		"a charge, more than a payment":                       {given: func(b *bundle) { b.spend(price + 1) }, kind: payment.Charge, amount: price + 1, route: payment.ToLedger, balance: price},
		"a charge, paid long ago":                             {given: func(b *bundle) { b.spend(price); old(b) }, kind: payment.Charge, amount: 1000, route: payment.ToLedger, balance: 1000},
		"a charge, of a named payment":                        {given: func(b *bundle) { b.spend(price) }, kind: payment.Charge, amount: price, named: true, route: payment.ToCard, balance: 0},
		"a charge, of a named old payment":                    {given: old, kind: payment.Charge, amount: 1, named: true, refused: errs.RefundWindowExceeded, balance: price},
		"a charge, more than a named one":                     {kind: payment.Charge, amount: price + 1, named: true, refused: errs.RefundExceedsPayment, balance: price},
		"a charge, while payments are off":                    {given: func(b *bundle) { b.spend(7); b.api.Provider = nil }, kind: payment.Charge, amount: 7, route: payment.ToLedger, balance: price},
		"a charge, of a payment in the past":                  {given: func(b *bundle) { b.spend(7); b.limits.RefundWindow = 0 }, kind: payment.Charge, amount: 7, route: payment.ToLedger, balance: price},
		"nothing":                                             {kind: payment.Charge, amount: 0, refused: errs.ValidationError, balance: price},
		"less than nothing":                                   {kind: payment.Charge, amount: -5, refused: errs.ValidationError, balance: price},
		"more than can be counted":                            {kind: payment.Unspent, amount: 1<<63 - 1, refused: errs.RefundExceedsPayment, balance: price},
		"a charge of more than is thinkable":                  {kind: payment.Charge, amount: 1<<63 - 1, refused: errs.RefundExceedsCharges, balance: price},
		"of no kind":                                          {kind: "gift", amount: 5, refused: errs.ValidationError, balance: price},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			paid := b.credited()
			if c.given != nil {
				c.given(b)
			}
			var named *ids.PaymentSession
			if c.named {
				named = &paid.ID
			}
			r, err := b.refund(c.kind, c.amount, named)
			if c.refused != "" {
				wantCode(t, name, err, c.refused)
				if n := b.count("SELECT count(*) FROM refund_requests"); n != 0 {
					t.Errorf("%d requests", n)
				}
			} else {
				must(t, err)
				if r.Route != c.route || (c.route == payment.ToCard) != (r.Payment == paid.Payment) || (c.route == payment.ToLedger) != (r.State == payment.Succeeded) {
					t.Errorf("went %+v", r)
				}
				must(t, b.send(r.ID))
				if r = b.refunded(r.ID); r.State != payment.Succeeded || r.SettledAt == nil {
					t.Errorf("ended %+v", r)
				}
				if n := strings.Count(b.events(), payment.SubjectRefunded); n != 1 {
					t.Errorf("stated %d times", n)
				}
				if n := b.count("SELECT count(*) FROM audit_logs WHERE action = 'payment.refund' AND actor = $1", b.admin.Actor()); n != 1 {
					t.Errorf("%d audit rows", n)
				}
			}
			b.expect(c.balance)
		})
	}
}

func TestRefundOfWhatIsNotTheirs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	open := b.begin(price)
	unknown := ids.New[ids.PaymentSession]()
	for what, named := range map[string]*ids.PaymentSession{"an unknown payment": &unknown, "an unpaid session": &open.ID} {
		_, err := b.refund(payment.Charge, 5, named)
		wantCode(t, what, err, errs.NotFound)
	}
	for what, change := range map[string]func(*payment.RefundRequest){
		"no reason": func(r *payment.RefundRequest) { r.Reason = " " }, "a novel": func(r *payment.RefundRequest) { r.Reason = strings.Repeat("é", 513) },
		"two lines": func(r *payment.RefundRequest) { r.Reason = "requested by the user\r\ngiven" },
	} {
		r := payment.RefundRequest{User: b.caller.User, Kind: payment.Charge, Amount: 5, Reason: "why"}
		change(&r)
		_, err := b.api.Refund(b.ours, identity.Change[payment.Refund]{Caller: b.admin}, r)
		wantCode(t, what, err, errs.ValidationError)
	}
	_, err := b.api.Refund(b.ours, identity.Change[payment.Refund]{Caller: b.admin}, payment.RefundRequest{User: ids.New[ids.User](), Kind: payment.Charge, Amount: 5, Reason: "why"})
	wantCode(t, "nobody", err, errs.UserNotFound)
	b.expect(0)
}

// Threat: an operator, or a stolen session of one, pays out more than the tenant was ever charged.
func TestChargesAreRefundedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.credited()
	b.spend(100)
	r, err := b.refund(payment.Charge, 60, nil) // to the card
	must(t, err)
	_, err = b.refund(payment.Charge, 41, nil)
	wantCode(t, "more than is left", err, errs.RefundExceedsCharges)
	b.limits.RefundWindow = 0
	_, err = b.refund(payment.Charge, 40, nil) // as credit
	must(t, err)
	_, err = b.refund(payment.Charge, 1, nil)
	wantCode(t, "everything is refunded", err, errs.RefundExceedsCharges)
	b.provider.stage = payment.RefundFailed
	must(t, b.send(r.ID)) // the card rejects the first one
	_, err = b.refund(payment.Charge, 60, nil)
	must(t, err)
	b.expect(price)
}

// INV-36: 64 at once, of one payment, by both kinds.
func TestINV36RefundsNeverExceedThePayment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.credited()
	b.spend(price) // so that as much was charged as is unspent
	paid := b.credited()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var sum money.Minor
	for i := range 64 {
		wg.Go(func() {
			kind, amount := payment.Charge, money.Minor(1+rand.Int64N(120))
			if i%2 == 0 {
				kind = payment.Unspent
			}
			r, err := b.refund(kind, amount, &paid.ID)
			switch errs.CodeOf(err) {
			case "":
				mu.Lock()
				sum += amount
				mu.Unlock()
				if err := b.send(r.ID); err != nil {
					t.Error(err)
				}
			case errs.RefundExceedsPayment:
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if sum > price || sum < price-120 {
		t.Errorf("%d went back of %d", sum, price)
	}
	if got := b.count("SELECT refunded_minor FROM stripe_payments WHERE payment = $1", paid.Payment); got != int(sum) {
		t.Errorf("the payment has %d, the responses %d", got, sum)
	}
	var there money.Minor
	for _, r := range b.provider.refunds {
		there += r.Amount
	}
	if there != sum {
		t.Errorf("the provider refunded %d, and %d was requested", there, sum)
	}
	b.expect(price - money.Minor(b.count("SELECT coalesce(sum(amount_minor), 0) FROM refund_requests WHERE kind = 'unspent'")))
}

// A refund that the card rejects is reversed completely, even long after it had succeeded.
func TestRefundThatFailsIsTakenBack(t *testing.T) {
	t.Parallel()
	for _, kind := range []payment.Kind{payment.Unspent, payment.Charge} {
		for name, fail := range map[string]func(*bundle, payment.Refund){
			"at once": func(b *bundle, r payment.Refund) {
				b.provider.stage = payment.RefundFailed
				must(b.t, b.send(r.ID))
			},
			"refused": func(b *bundle, r payment.Refund) {
				b.provider.failing["Refund"] = payment.ErrRejected
				must(b.t, b.send(r.ID))
			},
			"reported after it was pending": func(b *bundle, r payment.Refund) {
				b.provider.stage = payment.RefundPending
				must(b.t, b.send(r.ID))
				if state := b.refunded(r.ID).State; state != payment.Requested {
					b.t.Errorf("is %s while it is pending", state)
				}
				b.deliver(b.refundEvent(r, "failed"))
				b.processAll()
			},
			"reported after it had succeeded": func(b *bundle, r payment.Refund) {
				must(b.t, b.send(r.ID))
				for range 3 {
					b.deliver(b.refundEvent(r, "failed"))
					b.processAll()
				}
				b.deliver(b.refundEvent(r, "succeeded")) // late
				b.processAll()
			},
		} {
			t.Run(string(kind)+" "+name, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				b.credited()
				balance := price
				if kind == payment.Charge {
					b.spend(1000)
					balance -= 1000
				}
				r, err := b.refund(kind, 1000, nil)
				must(t, err)
				fail(b, r)
				b.expect(balance)
				if got := b.refunded(r.ID); got.State != payment.Failed || got.Failure == "" || b.account("refunds") != 0 {
					t.Errorf("ended %+v", got)
				}
				if n := b.count("SELECT refunded_minor FROM stripe_payments"); n != 0 {
					t.Errorf("%d are still subtracted from the payment", n)
				}
				must(t, b.send(r.ID)) // it is over
				b.expect(balance)
			})
		}
	}
}

// refundEvent returns Stripe's event of a refund.
func (b *bundle) refundEvent(r payment.Refund, status string) map[string]any {
	object := map[string]any{
		"id": b.provider.refunds[r.ID].ID, "object": "refund", "amount": int64(r.Amount), "status": status, "payment_intent": r.Payment,
		"metadata": map[string]any{"gpuaas_refund": r.ID.String()},
	}
	if status == "failed" {
		object["failure_reason"] = "declined"
	}
	return b.provider.note("refund.updated", object)
}

// The provider executes the refund and responds with 500. A repeated call finds the existing refund.
func TestRefundIsMadeOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.credited()
	r, err := b.refund(payment.Unspent, 1000, nil)
	must(t, err)
	b.provider.failing["Refund"] = errs.New(errs.ProviderFailed, "500")
	for range 3 {
		wantCode(t, "while the provider is away", b.send(r.ID), errs.ProviderFailed)
	}
	if got := b.refunded(r.ID); got.State != payment.Requested {
		t.Errorf("is %s while the result is unknown", got.State)
	}
	b.expect(price - 1000)
	b.provider.failing = map[string]error{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := b.send(r.ID); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for range 5 {
		b.deliver(b.refundEvent(r, "succeeded"))
		b.processAll()
	}
	if len(b.provider.refunds) != 1 || strings.Count(b.events(), payment.SubjectRefunded) != 1 || b.refunded(r.ID).State != payment.Succeeded {
		t.Errorf("%d refunds, stated %s", len(b.provider.refunds), b.events())
	}
	b.expect(price - 1000)
}

// A repeated request with a key receives the stored response, and refunds once.
func TestRefundKeepsItsReply(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.credited()
	ch := identity.Change[payment.Refund]{
		Caller: b.admin, Key: identity.Key{Principal: b.admin.Principal(), Method: "POST", Route: "/admin/users/{id}/refunds", Key: "k"},
		Answer: func(r payment.Refund) identity.Reply { return identity.Reply{Status: 201, Body: []byte(r.ID.String())} },
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, err := b.api.Refund(b.ours, ch, payment.RefundRequest{User: b.caller.User, Kind: payment.Unspent, Amount: 100, Reason: "why"})
			if err != nil && errs.CodeOf(err) != errs.IdempotencyInFlight {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := b.count("SELECT count(*) FROM refund_requests"); n != 1 {
		t.Errorf("%d refunds by one request", n)
	}
	b.expect(price - 100)
}
