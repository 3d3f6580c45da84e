package allocation_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/catalog"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
)

const price = allocationtest.Price

// INV-07: the balance must cover the running and the requested allocations for the minimum runway; an
// empty balance covers none. A rejected request leaves nothing.
func TestINV07Balance(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		balance money.Minor
		runway  time.Duration
		runs    int
		gpus    int
		want    errs.Code
	}{
		"enough":                       {2 * price, time.Hour, 0, 2, ""},
		"one cent short":               {2*price - 1, time.Hour, 0, 2, errs.RunwayTooShort},
		"nothing":                      {0, 0, 0, 1, errs.InsufficientBalance},
		"a cent, no minimum runway":    {1, 0, 0, 1, ""},
		"half an hour":                 {price / 2, 30 * time.Minute, 0, 1, ""},
		"half an hour of two":          {price / 2, 30 * time.Minute, 0, 2, errs.RunwayTooShort},
		"enough with running ones":     {3 * price, time.Hour, 2, 1, ""},
		"not enough with running ones": {3*price - 1, time.Hour, 2, 1, errs.RunwayTooShort},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := allocationtest.New(t, c.balance)
			w.Node(t, "node-1", 4)
			if w.Limits.MinimumRunway = c.runway; c.runs > 0 {
				w.Request(t, c.runs)
			}
			expectRejected(t, w, c.gpus, c.want, "")
		})
	}
}

// INV-07: the cost per hour includes allocations that wait for their node, and excludes those that are
// being released.
func TestINV07SpendLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits func(*allocation.Limits)
		scope  string
	}{
		"no limit":       {func(*allocation.Limits) {}, ""},
		"just":           {func(l *allocation.Limits) { l.HourlyTenant, l.HourlyProject = 4*price, 4*price }, ""},
		"of the tenant":  {func(l *allocation.Limits) { l.HourlyTenant = 4*price - 1 }, "tenant"},
		"of the project": {func(l *allocation.Limits) { l.HourlyTenant, l.HourlyProject = 9*price, 4*price-1 }, "project"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := allocationtest.New(t, rich)
			w.Node(t, "node-1", 8)
			w.Request(t, 1)
			w.Active(t, 1)
			w.Releasing(t, 1)
			elsewhere(t, w)
			c.limits(&w.Limits)
			want := errs.Code("")
			if c.scope != "" {
				want = errs.SpendLimitExceeded
			}
			n := 1 // one waits, one runs, one runs in another project
			if c.scope == "project" {
				n = 2
			}
			expectRejected(t, w, n, want, c.scope)
		})
	}
}

// elsewhere has one GPU run in another project of the tenant.
func elsewhere(t *testing.T, w *allocationtest.Fixture) {
	t.Helper()
	other := w.Caller
	other.Project = ids.New[ids.Project]()
	w.Do(t, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `INSERT INTO projects (id, org_id, name) VALUES ($1, $2, 'elsewhere')`, other.Project, other.Tenant)
		return err
	})
	_, err := w.Allocations.Request(t.Context(), allocation.Request{Caller: other, SKU: allocationtest.SKU, GPUs: 1})
	must(t, err)
}

// expectRejected requests n GPUs, expects that code, and checks that nothing was written.
func expectRejected(t *testing.T, w *allocationtest.Fixture, n int, want errs.Code, scope string) {
	t.Helper()
	diff := pgtest.Diff(t, w.DB)
	_, err := w.Allocations.Request(t.Context(), allocation.Request{Caller: w.Caller, SKU: allocationtest.SKU, GPUs: n})
	if errs.CodeOf(err) != want {
		t.Fatalf("%v, want %q", err, want)
	}
	if want == "" {
		return
	}
	if left := diff(); left != "" {
		t.Errorf("a rejected request left\n%s", left)
	}
	if coded, _ := errors.AsType[*errs.Error](err); coded.Suggestion == "" || scope != "" && coded.Details["scope"] != scope {
		t.Errorf("message %q, try %q, details %v", coded.Message, coded.Suggestion, coded.Details)
	}
}

// A month's budget stops what is new once it is spent, and nothing before.
func TestMonthlyBudget(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tenant, project money.Minor
		want            errs.Code
	}{
		"none":           {0, 0, ""},
		"not spent yet":  {price + 2, price + 2, ""},
		"of the tenant":  {price, 0, errs.SpendLimitExceeded},
		"of the project": {2 * price, price, errs.SpendLimitExceeded},
		"far away":       {rich, rich, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := allocationtest.New(t, rich)
			w.Node(t, "node-1", 4)
			used(t, w, w.Active(t, 1).ID, time.Hour)
			w.Limits.MonthlyTenant, w.Limits.MonthlyProject = c.tenant, c.project
			scope := ""
			if c.want != "" {
				scope = map[bool]string{true: "project", false: "tenant"}[c.project > 0]
			}
			expectRejected(t, w, 1, c.want, scope)
		})
	}
}

// used makes it so that an active allocation has run for so long, this month.
func used(t *testing.T, w *allocationtest.Fixture, id ids.Allocation, d time.Duration) {
	t.Helper()
	month := queryOne[time.Time](t, w, `SELECT date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'`)
	if time.Since(month) < d {
		t.Skip("the month is too young")
	}
	w.Do(t, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(`SET LOCAL session_replication_role = replica`) // an interval is a fact to everyone else
		b.Queue(`UPDATE usage_records SET start_s = start_s - $2 WHERE allocation_id = $1`, id, int64(d/time.Second))
		return tx.SendBatch(t.Context(), b).Close()
	})
}

// An SKU in another currency than the tenant's is rejected with its own code.
func TestAnotherCurrency(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	w.Node(t, "node-1", 1)
	w.Do(t, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE sku_prices SET currency = 'USD'`)
		return err
	})
	w.Catalog = &catalog.Service{DB: w.DB, Hints: w.Hints}
	w.Allocations = w.Server()
	expectRejected(t, w, 1, errs.ValidationError, "")
}

// INV-07: 200 at once, at the edge of what the balance or a limit bears, make as
// many as fit, through two servers that know nothing of each other.
func TestINV07MoneyAtTheEdge(t *testing.T) {
	t.Parallel()
	const fit = 5
	for name, c := range map[string]struct {
		balance money.Minor
		limits  func(*allocation.Limits)
		want    errs.Code
	}{
		"balance":       {(fit+1)*price - 1, func(*allocation.Limits) {}, errs.RunwayTooShort},
		"tenant limit":  {rich, func(l *allocation.Limits) { l.HourlyTenant = (fit+1)*price - 1 }, errs.SpendLimitExceeded},
		"project limit": {rich, func(l *allocation.Limits) { l.HourlyProject = (fit+1)*price - 1 }, errs.SpendLimitExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := allocationtest.New(t, c.balance)
			for i := range 7 {
				w.Node(t, fmt.Sprintf("node-%d", i), 16)
			}
			c.limits(&w.Limits)
			servers := []*allocation.Service{w.Allocations, w.Server()}
			callers := []identity.Caller{w.Caller, w.Operator} // one tenant
			won, failures := everyone(200, func(i int) error {
				_, err := servers[i%2].Request(t.Context(), allocation.Request{Caller: callers[i/2%2], SKU: allocationtest.SKU, GPUs: 1})
				return err
			})
			if won != fit || failures[c.want] != 200-fit {
				t.Errorf("%d won, want %d; the others %v", won, fit, failures)
			}
		})
	}
}
