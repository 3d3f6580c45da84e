//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/e2e/check"
)

// types enters text into a field.
func (b *browser) types(selector, text string) {
	b.t.Helper()
	b.must("POST", "/element/"+b.find(selector)+"/value", map[string]any{"text": text}, nil)
}

// paysBy fills in the page of the payment provider.
func (b *browser) paysBy(page, card string) {
	b.t.Helper()
	b.open(page)
	b.types("#number", card)
	b.types("#expiry", "12/49")
	b.types("#cvc", "123")
	b.click("form button")
}

type purse struct {
	Amount     int64      `json:"amount_minor"`
	Burn       int64      `json:"burn_per_hour_minor"`
	Low        bool       `json:"low"`
	ReleasesAt *time.Time `json:"releases_at"`
}

func (h *installation) purse(t testing.TB) (p purse) {
	t.Helper()
	time.Sleep(15 * pollEvery) // below the rate limit
	_, err := h.call("GET", "/api/v1/billing/balance", "", nil, &p)
	must(t, err)
	return p
}

// admin runs a command as an administrator and decodes its output.
func (h *installation) admin(t testing.TB, into any, args ...string) {
	t.Helper()
	got := h.cli(append([]string{"--profile", "default-admin", "-o", "json", "--no-input"}, args...)...)
	if got.code != 0 {
		t.Fatalf("gpuaas %v: %d %s", args, got.code, got.err)
	}
	must(t, json.Unmarshal([]byte(got.out), into))
}

// leaves adjusts the balance to an amount.
func (h *installation) leaves(t testing.TB, minor int64) {
	t.Helper()
	off := minor - h.purse(t).Amount
	text := fmt.Sprintf("EUR %d.%02d", off/100, max(off, -off)%100)
	h.admin(t, &struct{}{}, "admin", "balance", "adjust", "dev@dev.localhost", text, "--reason", "so that it runs out", "--yes")
	if got := h.purse(t).Amount; got > minor || got < minor-100 {
		t.Fatalf("corrected by %s, and there is %d instead of %d", text, got, minor)
	}
}

// states counts the events about the tenant's money.
func (h *installation) states(t *testing.T, subject string) int {
	t.Helper()
	return queryOne[int](t, h, `SELECT count(*) FROM outbox_events WHERE subject = $1`, subject)
}

// TestMoneyFromTopUpToRefund follows one tenant: a person tops up in a browser,
// launches, watches the charge grow, runs low, is warned, is released at zero and
// is refunded; and every figure can be followed down to an observation.
func TestMoneyFromTopUpToRefund(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	h := newInstallation(t)
	h.start()
	server, _ := h.addresses()
	b.signsIn(server, "dev@dev.localhost")
	before := h.purse(t).Amount

	var opened struct{ ID, URL string }
	_, err := h.call("POST", "/api/v1/payments/checkout-session", "top-up", map[string]any{"amount_minor": 3000}, &opened)
	must(t, err)
	b.paysBy(opened.URL, "4000000000000002")
	b.shows("", "declined")
	b.paysBy(opened.URL, "4242424242424242")
	b.shows("/portal/payments/"+opened.ID, "The balance has grown by €30.00")
	b.accessible("payment")
	if now := h.purse(t).Amount; now != before+3000 {
		t.Fatalf("after the top-up %d, before it %d", now, before)
	}

	a := h.create(t, "h100-sxm", 4) // EUR 9.96 an hour
	h.becomes(t, a, "active")
	until(t, patience, "the charge grows", func() error {
		if now := h.purse(t); now.Amount >= before+3000 || now.Burn != 4*249 {
			return fmt.Errorf("%+v", now)
		}
		return nil
	})
	h.leaves(t, 500)
	until(t, patience, "the warning, and the deadline", func() error {
		if now := h.purse(t); !now.Low || now.ReleasesAt == nil || h.states(t, "billing.low_balance_warning") != 1 || h.states(t, "billing.auto_release_pending") != 1 {
			return fmt.Errorf("%+v", now)
		}
		return nil
	})
	if status, err := h.call("POST", "/api/v1/allocations", "too-poor", map[string]any{"sku": "t4", "gpus": 1}, &struct{}{}); status != 402 {
		t.Errorf("requested more with a balance that lasts half an hour: %d, %v", status, err)
	}
	h.leaves(t, 5) // 18 s
	until(t, 2*patience, "the release at zero", func() error {
		time.Sleep(15 * pollEvery)
		var now struct{ Status, Reason string }
		if _, err := h.call("GET", "/api/v1/allocations/"+a.ID, "", nil, &now); err != nil {
			return err
		}
		if now.Status != "released" || now.Reason != "balance_depleted" {
			return fmt.Errorf("%+v", now)
		}
		return nil
	})
	over := h.purse(t).Amount
	if window := int64(10 + 5); over > 0 || over < -(996*window/3600+1) {
		t.Errorf("overdrawn by %d, with a window of %d s at 996 an hour", over, window)
	}
	if n := h.states(t, "billing.balance_depleted"); n != 1 {
		t.Errorf("stated depletion %d times", n)
	}

	refundInABrowser(t, b, h, server)
	until(t, patience, "the refund at the provider", func() error {
		var all struct {
			Items []struct{ Route, Status string }
		}
		if _, err := h.call("GET", "/api/v1/billing/refunds", "", nil, &all); err != nil {
			return err
		}
		if len(all.Items) != 1 || all.Items[0].Route != "card" || all.Items[0].Status != "succeeded" {
			return fmt.Errorf("%+v", all)
		}
		return nil
	})
	follows(t, h, a, before+3000)
	h.converges(t, patience, check.Expect{})
	if got := h.cli("ledger", "verify"); got.code != 0 {
		t.Errorf("ledger verify: %+v", got)
	}
}

// interval is the one usage interval of an allocation.
type interval struct {
	Cost struct {
		Minor int64 `json:"amount_minor"`
	}
	Seconds  int64
	Opened   map[string]any `json:"opened_observation"`
	ClosedBy string         `json:"closed_by"`
}

func (h *installation) interval(t *testing.T, a allocation) interval {
	t.Helper()
	var intervals struct{ Items []interval }
	_, err := h.call("GET", "/api/v1/billing/usage/intervals?allocation_id="+a.ID, "", nil, &intervals)
	must(t, err)
	if len(intervals.Items) != 1 {
		t.Fatalf("the allocation has the intervals %+v", intervals)
	}
	return intervals.Items[0]
}

// charged sums the ledger's entries of use, which are all of one allocation.
func (h *installation) charged(t *testing.T, a allocation) (sum int64) {
	t.Helper()
	var ledger struct {
		Items []struct {
			Amount     int64  `json:"amount_minor"`
			Allocation string `json:"allocation_id"`
		}
	}
	_, err := h.call("GET", "/api/v1/billing/ledger?limit=200&kind=usage", "", nil, &ledger)
	must(t, err)
	for _, e := range ledger.Items {
		sum += e.Amount
		if e.Allocation != a.ID {
			t.Errorf("%+v is of another allocation", e)
		}
	}
	return sum
}

// follows goes from the statement over the ledger to the intervals and what was
// observed.
func follows(t *testing.T, h *installation, a allocation, credited int64) {
	t.Helper()
	var statement struct {
		Opening     int64 `json:"opening_minor"`
		TopUps      int64 `json:"topups_minor"`
		Usage       int64 `json:"usage_minor"`
		Credits     int64 `json:"credits_minor"`
		Refunds     int64 `json:"refunds_minor"`
		Adjustments int64 `json:"adjustments_minor"`
		Closing     int64 `json:"closing_minor"`
	}
	// The last tick charges the end of the interval after the allocation is released.
	until(t, patience, "the charge of the whole interval", func() error {
		if cost, charged := h.interval(t, a).Cost.Minor, h.charged(t, a); cost != -charged {
			return fmt.Errorf("the interval costs %d, and %d is charged", cost, -charged)
		}
		return nil
	})
	month := time.Now().UTC().Format("2006-01")
	_, err := h.call("GET", "/api/v1/billing/statements/"+month, "", nil, &statement)
	must(t, err)
	s := statement
	if s.TopUps != credited || s.Opening+s.TopUps+s.Usage+s.Credits+s.Refunds+s.Adjustments != s.Closing || s.Closing != h.purse(t).Amount {
		t.Errorf("the statement does not add up: %+v, balance %d", s, h.purse(t).Amount)
	}
	charged := h.charged(t, a)
	i := h.interval(t, a)
	if -i.Cost.Minor != charged || s.Usage != charged {
		t.Fatalf("the statement has %d, the ledger %d, the interval %+v", s.Usage, charged, i)
	}
	if i.Cost.Minor != 996*i.Seconds/3600 || i.ClosedBy != "release_requested" || i.Opened["node_id"] == nil {
		t.Errorf("interval %+v", i)
	}
	node := queryOne[string](t, h, `SELECT node_id::text FROM allocations WHERE id = $1`, a.ID)
	if i.Opened["node_id"] != node {
		t.Errorf("observed on %v, and it ran on %s", i.Opened["node_id"], node)
	}
	t.Logf("charged %d for %s s: statement, ledger and interval agree", -charged, strconv.FormatInt(i.Seconds, 10))
}
