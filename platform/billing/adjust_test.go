package billing_test

import (
	"math"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/gpuaas/gpuaas/api/asyncapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/platform/billing"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
)

// desk is the service with the database role of the API and the scope of an operator.
type desk struct {
	*allocationtest.Fixture
	*billing.Service
}

func setup(t *testing.T, balance money.Minor) desk {
	t.Helper()
	w := allocationtest.New(t, balance)
	db := pgtest.Scoped(t, w.DB)
	jobs, err := river.NewClient(riverpgxv5.New(db.Pool), &river.Config{Schema: migrations.RiverSchema})
	must(t, err)
	return desk{w, &billing.Service{
		DB: db, Identity: &identity.Service{DB: db, Naming: ids.DefaultNaming}, Ledger: &ledger.Service{DB: db}, Metering: &metering.Service{DB: db},
		Policy: func(ids.Tenant, ids.Project) policies.View { return policies.Snapshot{}.For() },
		Jobs:   jobs, Naming: ids.DefaultNaming, Hints: w.Hints,
	}}
}

// operator adjusts, from another tenant or none, under the platform's scope.
func (d desk) adjust(t *testing.T, key string, amount money.Minor, reason string) (billing.Adjustment, error) {
	t.Helper()
	ch := identity.Change[billing.Adjustment]{
		Caller: identity.Caller{User: ids.New[ids.User](), Role: "billing_operator", CorrelationID: "corr-9"},
		Answer: func(a billing.Adjustment) identity.Reply {
			return identity.Reply{Status: 201, Body: []byte(a.Transfer.String())}
		},
	}
	if key != "" {
		ch.Key = identity.Key{Principal: d.Caller.Principal(), Method: "POST", Route: "/adjust", Key: key}
	}
	return d.Adjust(pg.WithScope(t.Context(), pg.Platform), ch, d.Caller.User, amount, reason)
}

func (d desk) balance(t *testing.T) money.Minor {
	t.Helper()
	balance, _, err := d.Fixture.Ledger.Balance(t.Context(), d.Fixture.DB, d.Caller.Tenant)
	must(t, err)
	return balance
}

// An adjustment is one transfer, one audit row, one event and one check of the balance, in one commit,
// in both directions.
func TestAdjust(t *testing.T) {
	t.Parallel()
	d := setup(t, 100)
	for _, amount := range []money.Minor{250, -300} {
		before := d.balance(t)
		diff := pgtest.Diff(t, d.Fixture.DB, pgtest.MaskIDs(), pgtest.MaskTimes(), pgtest.Mask("xid", "seq", "body_hash"))
		a, err := d.adjust(t, "", amount, " double top-up ")
		must(t, err)
		if got := d.balance(t) - before; got != amount || a.Currency != "EUR" || a.Reason != "double top-up" || a.Tenant != d.Caller.Tenant {
			t.Errorf("moved %d: %+v", got, a)
		}
		changed := diff()
		for table, n := range map[string]int{"ledger_transfers": 1, "ledger_entries": 2, "audit_logs": 1, "outbox_events": 1} {
			if got := strings.Count(changed, "+ "+table+" "); got != n {
				t.Errorf("%d rows of %s, want %d\n%s", got, table, n, changed)
			}
		}
	}
	var looks int
	must(t, d.Fixture.DB.QueryRow(t.Context(), `SELECT count(*) FROM river.river_job WHERE kind = 'check_runway' AND args->>'tenant' = $1`, d.Caller.Tenant.String()).Scan(&looks))
	if looks != 2 {
		t.Errorf("%d checks of the balance", looks)
	}
	var audit, payload string
	must(t, d.Fixture.DB.QueryRow(t.Context(), `SELECT action || ' ' || correlation_id || ' ' || (after->>'amount_minor') || ' ' || (after->>'reason')
		FROM audit_logs WHERE org_id = $1 AND action = 'balance.adjust' ORDER BY at LIMIT 1`, d.Caller.Tenant).Scan(&audit))
	if audit != "balance.adjust corr-9 250 double top-up" {
		t.Errorf("the audit row is %s", audit)
	}
	must(t, d.Fixture.DB.QueryRow(t.Context(), `SELECT payload FROM outbox_events WHERE subject = 'billing.balance_adjusted' LIMIT 1`).Scan(&payload))
	contract, err := asyncapi.Load()
	must(t, err)
	must(t, contract.Payload(billing.SubjectAdjusted, []byte(payload)))
	var kind, note string
	must(t, d.Fixture.DB.QueryRow(t.Context(), `SELECT kind, note FROM ledger_transfers WHERE kind = 'adjustment' LIMIT 1`).Scan(&kind, &note))
	if note != "double top-up" {
		t.Errorf("the ledger's note is %q", note)
	}
}

// The same key posts once, and is answered as the first time.
func TestAdjustOncePerKey(t *testing.T) {
	t.Parallel()
	d := setup(t, 100)
	first, err := d.adjust(t, "k", 50, "why")
	must(t, err)
	if _, err := d.adjust(t, "k", 50, "why"); errs.CodeOf(err) != errs.IdempotencyInFlight {
		t.Errorf("again: %v", err)
	}
	kept, found, err := d.Allocations.Identity.Replay(t.Context(), identity.Key{Principal: d.Caller.Principal(), Method: "POST", Route: "/adjust", Key: "k"})
	if err != nil || !found || string(kept.Body) != first.Transfer.String() || d.balance(t) != 150 {
		t.Errorf("balance %d, replayed %s, %v", d.balance(t), kept.Body, err)
	}
}

// A rejected adjustment posts nothing.
func TestAdjustRejects(t *testing.T) {
	t.Parallel()
	d := setup(t, 100)
	stray := ids.New[ids.User]()
	d.Do(t, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `INSERT INTO users (id, oidc_subject, email, name, role) VALUES ($1, 'stray', 'stray', 'stray', 'user')`, stray)
		return err
	})
	diff := pgtest.Diff(t, d.Fixture.DB)
	for name, c := range map[string]struct {
		user   ids.User
		amount money.Minor
		reason string
		want   errs.Code
	}{
		"zero":                      {d.Caller.User, 0, "why", errs.ValidationError},
		"too much":                  {d.Caller.User, 1e11 + 1, "why", errs.ValidationError},
		"a debit that is too large": {d.Caller.User, -1e11 - 1, "why", errs.ValidationError},
		"overflow":                  {d.Caller.User, math.MaxInt64, "why", errs.ValidationError},
		"overflow below":            {d.Caller.User, math.MinInt64, "why", errs.ValidationError},
		"no reason":                 {d.Caller.User, 1, " ", errs.ValidationError},
		"a reason of lines":         {d.Caller.User, 1, "a\nb", errs.ValidationError},
		"a long reason":             {d.Caller.User, 1, strings.Repeat("ä", 513), errs.ValidationError},
		"unknown user":              {ids.New[ids.User](), 1, "why", errs.UserNotFound},
		"of no tenant":              {stray, 1, "why", errs.Conflict},
	} {
		ctx := pg.WithScope(t.Context(), pg.Platform)
		_, err := d.Adjust(ctx, identity.Change[billing.Adjustment]{Caller: d.Operator}, c.user, c.amount, c.reason)
		if errs.CodeOf(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The scope of a tenant contains no other tenant, and a tenant cannot adjust its own balance.
	own := pg.WithScope(t.Context(), d.Caller.Scope(false))
	if _, err := d.Adjust(own, identity.Change[billing.Adjustment]{Caller: d.Caller}, d.Caller.User, 1, "why"); err == nil {
		t.Error("a tenant gave itself credit")
	}
	if left := diff(); left != "" {
		t.Errorf("refusals left\n%s", left)
	}
}

// The status is the part of a tenant's billing state that the API displays.
func TestStatus(t *testing.T) {
	t.Parallel()
	d := setup(t, 2000)
	ctx := pg.WithScope(t.Context(), d.Caller.Scope(false))
	s, err := d.Status(ctx, d.Service.DB, d.Caller.Tenant)
	must(t, err)
	if s.BalanceMinor != 2000 || s.Currency != "EUR" || s.BurnMinor != 0 || s.RunwaySeconds != nil || s.Low || s.ReleasesAt != nil || s.ThresholdMinor != 1000 {
		t.Errorf("idle: %+v", s)
	}
	d.Node(t, "node-1", 8)
	d.Active(t, 8) // 2000 an hour
	_, err = d.adjust(t, "", -1100, "why")
	must(t, err)
	d.Do(t, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `INSERT INTO balance_notices (org_id, pending_since, releases_at) VALUES ($1, now(), now())`, d.Caller.Tenant)
		return err
	})
	s, err = d.Status(ctx, d.Service.DB, d.Caller.Tenant)
	must(t, err)
	if s.BalanceMinor != 900 || s.BurnMinor != 2000 || s.RunwaySeconds == nil || *s.RunwaySeconds != 1620 || !s.Low || s.ReleasesAt == nil || s.SpentMonthMinor > 5 {
		t.Errorf("running: %+v", s)
	}
	other := ids.New[ids.Tenant]()
	if _, err := d.Status(ctx, d.Service.DB, other); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("a tenant that is not there: %v", err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
