package cli

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
)

// purse is the part of the fake for billing and payments.
type purse struct {
	balance    oapi.Balance
	limits     oapi.BillingLimits
	payments   []oapi.PaymentSession // newest first
	refunds    []oapi.Refund
	autoTopups []oapi.AutoTopup
	entries    []oapi.LedgerEntry
}

func newPurse() purse {
	runway, spent, threshold := int64(616017), int64(96), int64(2000)
	use := id(41)
	return purse{
		balance: oapi.Balance{AmountMinor: 98904, Currency: "EUR", BurnPerHourMinor: 578, RunwaySeconds: &runway, SpentThisMonthMinor: &spent, LowThresholdMinor: &threshold},
		limits:  oapi.BillingLimits{Currency: "EUR", MonthlyBudgetMinor: 100000, EffectiveMonthlyBudgetMinor: 100000, MonthlyManagedBy: new("fleet at policies.cue:7:3"), CommittedPerHourMinor: 578, SpentThisMonthMinor: 96, Version: "3"},
		entries: []oapi.LedgerEntry{
			{Id: 1, OccurredAt: birth, TransferId: id(61), Kind: "topup", Reference: "pi_1", AmountMinor: 99000, Currency: "EUR"},
			{Id: 2, OccurredAt: birth.Add(299 * time.Second), TransferId: id(62), Kind: "usage", Reference: "1767603900", AmountMinor: -96, Currency: "EUR", AllocationId: &use, AllocationName: new("brave-otter"), ProjectId: new(id(2)), ProjectName: new("default"), Sku: new("h100-80gb")},
			{Id: 3, OccurredAt: birth, TransferId: id(63), Kind: "adjustment", Reference: "x", Note: new("good\x1b[2J\nwill"), AmountMinor: 5, Currency: "EUR"},
		},
	}
}

// money answers the operations of money; false: it is none of them.
func (f *fake) money(w http.ResponseWriter, r *http.Request, operation string, params map[string]string, body []byte) bool {
	p := &f.purse
	answers := map[string]func(){
		"getTenantBalance": func() { reply(w, http.StatusOK, p.balance) },
		"getUsageSummary": func() {
			by := r.URL.Query().Get("by")
			reply(w, http.StatusOK, map[string]any{"by": by, "from": birth, "to": birth.Add(time.Hour), "items": []oapi.UsageSum{
				{Key: "k1", Name: "one", Seconds: 600, GpuSeconds: 1200, Gross: eur(100), Credited: eur(4), Cost: eur(96)},
			}})
		},
		"listUsageIntervals": func() { f.page(w, r, toAny(fakeIntervals()), 1) },
		"exportUsage":        func() { f.export(w, r) },
		"listLedger":         func() { f.page(w, r, toAny(p.entries), 2) },
		"listTenantLedger":   func() { f.page(w, r, toAny(p.entries), 2) },
		"exportLedger":       func() { f.export(w, r) },
		"getBillingEvidence": func() { reply(w, http.StatusOK, fakeEvidence()) },
		"listStatements":     func() { f.page(w, r, []any{fakeStatement().totals()}, 50) },
		"getStatement":       func() { f.month(w, r, params, func() { reply(w, http.StatusOK, fakeStatement()) }) },
		"exportStatement":    func() { f.month(w, r, params, func() { f.export(w, r) }) },
		"getStatementPage": func() {
			f.month(w, r, params, func() {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				_, _ = fmt.Fprint(w, "<!doctype html><title>Statement 2026-01</title>")
			})
		},
		"getBillingLimits": func() { f.showLimits(w, r) },
		"putBillingLimits": func() {
			f.fresh(w, r, 3, func() {
				read(body, &p.limits)
				p.limits.EffectiveHourlySpendMinor, p.limits.EffectiveMonthlyBudgetMinor = p.limits.HourlySpendMinor, p.limits.MonthlyBudgetMinor
				f.showLimits(w, r)
			})
		},
		"createCheckoutSession": func() { f.checkout(w, r, body) },
		"listPaymentSessions":   func() { f.page(w, r, toAny(p.payments), 1) },
		"getPaymentSession":     func() { f.paying(w, r, params["id"]) },
		"createPortalSession":   func() { reply(w, http.StatusCreated, oapi.PortalSession{Url: "https://portal.example/p/1"}) },
		"listAutoTopups":        func() { f.page(w, r, toAny(p.autoTopups), 50) },
		"createAutoTopup": func() {
			p.autoTopups = []oapi.AutoTopup{{Id: id(67), Status: "pending", Currency: "EUR", CreatedAt: birth, Url: new("https://checkout.example/c/pay/cs_2")}}
			w.Header().Set("Location", "/x")
			reply(w, http.StatusCreated, p.autoTopups[0])
		},
		"getAutoTopup": func() { reply(w, http.StatusOK, p.autoTopups[0]) },
		"confirmAutoTopup": func() {
			m := &p.autoTopups[0]
			read(body, m)
			m.Status, m.Url = "paused", nil // by the next charge
			m.Reason = new("declined")
			reply(w, http.StatusOK, *m)
		},
		"deleteAutoTopup":  func() { w.WriteHeader(http.StatusNoContent) },
		"listRefunds":      func() { f.page(w, r, toAny(p.refunds), 50) },
		"listAdminRefunds": func() { f.page(w, r, toAny(p.refunds), 50) },
		"listDisputes":     func() { f.page(w, r, []any{openDispute()}, 50) },
		"createRefund":     func() { f.refund(w, r, body) },
		"adjustBalance": func() {
			var asked oapi.AdjustmentRequest
			read(body, &asked)
			p.balance.AmountMinor += asked.AmountMinor
			w.Header().Set("Location", "/x")
			reply(w, http.StatusCreated, oapi.Adjustment{TransferId: id(64), TenantId: id(4), Amount: eur(asked.AmountMinor), Reason: asked.Reason})
		},
		"listAdminPaymentSessions": func() { f.page(w, r, []any{stuckPayment("failed_reconcile")}, 50) },
		"reconcilePaymentSession":  func() { reply(w, http.StatusOK, stuckPayment("credited")) },
	}
	do, ok := answers[operation]
	if ok {
		do()
	}
	return ok
}

func (f *fake) showLimits(w http.ResponseWriter, r *http.Request) {
	l := f.purse.limits
	if project := r.URL.Query().Get("project_id"); project != "" {
		of := uuid.MustParse(project)
		l.ProjectId = &of
	}
	w.Header().Set("ETag", strconv.Quote(l.Version))
	reply(w, http.StatusOK, l)
}

// month knows one month.
func (f *fake) month(w http.ResponseWriter, r *http.Request, params map[string]string, do func()) {
	if params["month"] != "2026-01" {
		f.problem(w, r, http.StatusNotFound, "not_found", "no statement of this month", nil)
		return
	}
	do()
}

// checkout opens one whose end depends on its amount.
func (f *fake) checkout(w http.ResponseWriter, r *http.Request, body []byte) {
	var asked oapi.CheckoutRequest
	read(body, &asked)
	if asked.AmountMinor < 500 {
		f.problem(w, r, http.StatusUnprocessableEntity, "payment_amount_out_of_range", "at least EUR 5.00", nil)
		return
	}
	url := "https://checkout.example/c/pay/cs_1"
	s := oapi.PaymentSession{Id: f.people.id(), Amount: eur(asked.AmountMinor), Status: "initiated", Url: &url, CreatedAt: birth, ExpiresAt: birth.Add(time.Hour)}
	f.purse.payments = slices.Insert(f.purse.payments, 0, s)
	w.Header().Set("Location", "/api/v1/payments/sessions/"+s.Id.String())
	reply(w, http.StatusCreated, s)
}

// paying advances a checkout with each request.
func (f *fake) paying(w http.ResponseWriter, r *http.Request, id string) {
	s := at(f.purse.payments, id, func(s oapi.PaymentSession) uuid.UUID { return s.Id })
	if s.CreatedAt.IsZero() {
		f.problem(w, r, http.StatusNotFound, "not_found", "there is no such payment", nil)
		return
	}
	switch reason := "the provider says EUR 49.00"; {
	case s.Amount.AmountMinor == 8800: // unpaid
	case s.Amount.AmountMinor == 6600:
		s.Status, s.Url = "expired", nil
	case s.Status == "initiated":
		s.Status, s.Url = "checkout_completed", nil
	case s.Status == "checkout_completed" && s.Amount.AmountMinor == 7700:
		s.Status, s.Reason = "failed_reconcile", &reason
	case s.Status == "checkout_completed":
		now := birth.Add(time.Minute)
		s.Status, s.CreditedAt = "credited", &now
		f.purse.balance.AmountMinor += s.Amount.AmountMinor
	}
	select {
	case f.changed <- struct{}{}:
	default:
	}
	reply(w, http.StatusOK, s)
}

func (f *fake) refund(w http.ResponseWriter, r *http.Request, body []byte) {
	var asked oapi.RefundRequest
	read(body, &asked)
	if asked.AmountMinor > 99000 {
		f.problem(w, r, http.StatusUnprocessableEntity, "refund_exceeds_payment", "EUR 990.00 is left of it", nil)
		return
	}
	v := oapi.Refund{
		Id: f.people.id(), TenantId: id(4), Kind: oapi.RefundKind(asked.Kind), Route: "card", Amount: eur(asked.AmountMinor), Reason: asked.Reason, Status: "requested",
		PaymentSessionId: asked.PaymentSessionId, TransferId: id(65), RequestedBy: "user:" + id(3).String(), CreatedAt: birth,
	}
	f.purse.refunds = append(f.purse.refunds, v)
	w.Header().Set("Location", "/x")
	reply(w, http.StatusCreated, v)
}

func stuckPayment(status oapi.PaymentStatus) oapi.AdminPaymentSession {
	reason, provider := "the provider says EUR 49.00", "cs_1"
	return oapi.AdminPaymentSession{
		Id: id(66), TenantId: id(4), PrincipalId: id(3), Amount: eur(5000), Status: status, Reason: &reason, ProviderSession: &provider,
		CreatedAt: birth, ExpiresAt: birth.Add(time.Hour), StatusAt: birth,
	}
}

func fakeIntervals() []oapi.UsageInterval {
	end, closed, because := birth.Add(10*time.Minute), oapi.UsageIntervalClosedBy("observation_stale"), oapi.UsageIntervalCreditedBecause("observation_stale")
	seen := map[string]any{"node_id": id(20).String(), "fence": 3}
	return []oapi.UsageInterval{
		{
			Id: id(51), AllocationId: id(41), AllocationName: new("brave-otter"), ProjectId: id(2), ProjectName: new("default"), Sku: "h100-80gb", Gpus: 2, Price: eur(289), StartedAt: birth, EndedAt: &end, OpenedBy: "observed_ready", OpenedObservation: &seen,
			ClosedBy: &closed, ClosedObservation: &seen, Seconds: 600, Cost: eur(96),
			Credited: eur(9), CreditedBecause: &because,
		},
		{Id: id(52), AllocationId: id(41), ProjectId: id(2), Sku: "h100-80gb", Gpus: 2, Price: eur(289), StartedAt: end, OpenedBy: "observed_again", Seconds: 60, Cost: eur(9), Credited: eur(0)},
	}
}

// fakeEvidence is that of a day with one interval, whose charge is missing.
func fakeEvidence() map[string]any {
	day := birth.Truncate(24 * time.Hour)
	return map[string]any{
		"from": day, "to": day.AddDate(0, 0, 1), "created_at": day.AddDate(0, 0, 1),
		"ledger": map[string]any{"account_id": id(5), "tenant_id": id(4), "currency": "EUR", "before": map[string]any{}, "seals": []any{}, "entries": []any{}},
		"stored": []any{},
		"ticks":  []any{map[string]any{"from": birth, "to": birth.Add(10 * time.Minute)}},
		"intervals": []any{map[string]any{
			"id": id(51), "allocation_id": id(41), "project_id": id(2), "sku": "h100-80gb", "gpus": 2, "price_minor": 289, "start_s": birth.Unix(), "end_s": nil, "opened_by": "observed_ready",
		}},
	}
}

type month struct{ oapi.Statement }

func (m month) totals() oapi.StatementTotals {
	return oapi.StatementTotals{
		Month: m.Month, From: m.From, To: m.To, Final: m.Final, Currency: m.Currency, TopupsMinor: m.TopupsMinor, UsageMinor: m.UsageMinor, ClosingMinor: m.ClosingMinor,
	}
}

func fakeStatement() month {
	return month{oapi.Statement{
		Month: "2026-01", From: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), Final: true, Currency: "EUR",
		TopupsMinor: 99000, UsageMinor: -96, ClosingMinor: 98904, Tenant: oapi.StatementTenant{Id: id(4), Name: "dev"},
		Projects: []oapi.StatementProject{{ProjectId: id(2), Project: "default", Seconds: 600, GrossMinor: 96, CostMinor: 96}},
		Usage: []oapi.StatementUsage{{
			ProjectId: id(2), Project: "default", Sku: "h100-80gb", AllocationId: id(41), Gpus: 2, Seconds: 600, GrossMinor: 96, CostMinor: 96,
		}},
		Storage: []oapi.StatementStorage{}, Movements: []oapi.StatementMovement{{OccurredAt: birth, Kind: "topup", Reference: "pi_1", TransferId: id(61), AmountMinor: 99000}},
	}}
}

func openDispute() oapi.Dispute {
	return oapi.Dispute{Id: "du_1", TenantId: id(4), PaymentSessionId: id(66), Amount: eur(2500), Reason: "fraudulent", Stage: "open", CreatedAt: time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC), StageAt: time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)}
}
