package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/jobs"
	moneyjobs "github.com/gpuaas/gpuaas/jobs/money"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
)

// hasBalance makes the tenant's balance what a test wants it to be.
func (b *bundle) hasBalance(want money.Minor) {
	b.t.Helper()
	b.Do(b.t, func(tx pgx.Tx) error { return b.credit(tx, b.Caller.Tenant, want) })
}

// credit posts what is missing, or too much.
func (b *bundle) credit(tx pgx.Tx, tenant ids.Tenant, want money.Minor) error {
	balance, _, err := b.Ledger.Balance(b.t.Context(), tx, tenant)
	if err != nil || want == balance {
		return err
	}
	t := ledger.Transfer{
		ID: uuid.Must(uuid.NewV7()), Kind: ledger.Adjustment, From: ledger.Adjustments, To: ledger.BalanceOf(tenant), Amount: want - balance, Currency: "EUR",
	}
	if t.Reference = t.ID.String(); t.Amount < 0 {
		t.From, t.To, t.Amount = t.To, t.From, -t.Amount
	}
	_, err = b.Ledger.Transfer(b.t.Context(), tx, t)
	return err
}

// notices checks the tenant's balance and returns the notices of this check.
func (b *bundle) notices() string {
	b.t.Helper()
	before := b.count(`SELECT coalesce(max(seq), 0) FROM outbox_events`)
	b.done(ledger.CheckRunway{Tenant: b.Caller.Tenant.UUID})
	var told string
	must(b.t, b.DB.QueryRow(b.t.Context(), `
		SELECT coalesce(string_agg(replace(subject, 'billing.', ''), ' ' ORDER BY seq), '') FROM outbox_events
		WHERE seq > $1 AND subject LIKE 'billing.%'`, before).Scan(&told))
	return told
}

// AT-041: one warning for a crossing, a reminder after a day, a pending release
// with its deadline, and a credit that clears it.
func TestTenantsAreNotified(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.Active(t, 2) // 500 an hour
	const (
		low     = "low_balance_warning"
		pending = "auto_release_pending"
		cleared = "auto_release_cleared"
	)
	for i, step := range []struct {
		balance money.Minor
		passed  string // since the last notice
		want    string
	}{
		{1000, "", ""},
		{999, "", low},
		{998, "23 hours", ""},
		{997, "1 hour", low},
		{996, "", ""},
		{499, "", pending},
		{498, "10 minutes", ""},
		{600, "", cleared},
		{499, "", pending},
		{2000, "", cleared},
		{2000, "", ""},
		{900, "", low},
	} {
		b.exec(`UPDATE balance_notices SET low_notified_at = low_notified_at - ('0 s' || $1)::interval`, step.passed)
		b.hasBalance(step.balance)
		if got := b.notices(); got != step.want {
			t.Errorf("step %d, %d: notice %q, want %q", i, step.balance, got, step.want)
		}
		if again := b.notices(); again != "" {
			t.Errorf("step %d, %d: repeated notice %q", i, step.balance, again)
		}
	}
	var minutes int
	var names string
	must(t, b.DB.QueryRow(t.Context(), `
		SELECT round(extract(epoch FROM (payload->>'releases_at')::timestamptz - occurred_at) / 60), payload->>'allocation_ids'
		FROM outbox_events WHERE subject = 'billing.auto_release_pending' LIMIT 1`).Scan(&minutes, &names))
	if minutes != 60 || names != fmt.Sprintf(`[%q]`, a.ID) { // 499 at 500 an hour
		t.Errorf("releases in %d minutes %s", minutes, names)
	}
	b.checkEventContract()
}

// The allocations of a tenant without a balance are released in the pass after the charge,
// including those still provisioning. A later credit starts over.
func TestWhoRunsOutIsReleased(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a, waiting := b.Active(t, 2), b.Request(t, 1)
	b.hasBalance(0)
	if got := b.notices(); got != "low_balance_warning balance_depleted" {
		t.Errorf("notice %q", got)
	}
	if b.state(a) != allocation.Releasing || b.state(waiting) != allocation.Releasing {
		t.Errorf("%s, %s", b.state(a), b.state(waiting))
	}
	b.nothing("nothing is left to release", ledger.CheckRunway{})
	b.hasBalance(5000)
	if got := b.notices(); got != "" || b.count(`SELECT count(*) FROM balance_notices WHERE depleted_at IS NULL AND low_since IS NULL`) != 1 {
		t.Errorf("notice after a credit %q", got)
	}
}

// The last charge of a released allocation may cross the threshold after its interval is closed.
// The tenant is notified all the same.
func TestTheLastChargeIsNotified(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Releasing(t, 1)
	b.exec(`SET session_replication_role = replica; UPDATE usage_records SET start_s = start_s - 3600; RESET session_replication_role`)
	b.hasBalance(allocationtest.Price + 500)
	b.done(moneyjobs.Accrue{})
	b.idle(ledger.CheckRunway{}.Kind())
	if n := b.count(`SELECT count(*) FROM outbox_events WHERE subject = 'billing.low_balance_warning'`); n != 1 {
		t.Errorf("%d notices", n)
	}
}

// A credit that is committed before the balance is read prevents the release, also if it is committed
// between the first check and the release.
func TestCreditBeforeTheRelease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.Active(t, 1)
	b.hasBalance(-5)
	var depleted []ids.Tenant
	b.Do(t, func(tx pgx.Tx) (err error) {
		depleted, err = b.deps.Billing.Check(t.Context(), tx, []ids.Tenant{b.Caller.Tenant})
		return err
	})
	if len(depleted) != 1 {
		t.Fatalf("%v have nothing left", depleted)
	}
	b.hasBalance(5000)
	b.Do(t, func(tx pgx.Tx) error {
		released, err := b.deps.Billing.Deplete(t.Context(), tx, b.Caller.Tenant)
		if len(released) != 0 {
			t.Errorf("released %v", released)
		}
		return err
	})
	if n := b.count(`SELECT count(*) FROM outbox_events WHERE subject LIKE 'billing.%'`); n != 0 || b.state(a) != allocation.Active {
		t.Errorf("%s, %d notices", b.state(a), n)
	}
}

// A check waits for another one of the same tenant before it reads the balance, so it reads a
// credit that was committed while it waited.
func TestCreditWhileACheckWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.Active(t, 1)
	b.hasBalance(100)
	if got := b.notices(); got != "low_balance_warning auto_release_pending" {
		t.Fatalf("notice %q", got)
	}
	b.hasBalance(-5)
	other, err := b.DB.Begin(t.Context())
	must(t, err)
	_, err = other.Exec(t.Context(), `SELECT FROM balance_notices FOR UPDATE`)
	must(t, err)
	b.enqueue(ledger.CheckRunway{}, ledger.CheckRunway{Tenant: b.Caller.Tenant.UUID})
	for until := time.Now().Add(10 * time.Second); b.count(`SELECT count(*) FROM pg_locks WHERE NOT granted`) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("no check waits")
		}
	}
	b.hasBalance(5000)
	must(t, other.Commit(t.Context()))
	b.idle(ledger.CheckRunway{}.Kind())
	if b.state(a) != allocation.Active {
		t.Error(b.state(a))
	}
	for subject, want := range map[string]int{"billing.auto_release_cleared": 1, "billing.balance_depleted": 0, "billing.low_balance_warning": 1} {
		if n := b.count(`SELECT count(*) FROM outbox_events WHERE subject = $1`, subject); n != want {
			t.Errorf("%s %d times, want %d", subject, n, want)
		}
	}
}

// A check that is killed before or after any of its commits and run again does everything once.
func TestCheckKilledAnywhere(t *testing.T) {
	t.Parallel()
	for commit := 1; commit <= 4; commit++ { // one for the notices, and one for each depleted tenant
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("commit %d, after it: %t", commit, after), func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				for _, sql := range manyTenants[:len(manyTenants)-1] {
					b.exec(strings.Replace(sql, "generate_series(1, 1000)", "generate_series(1, 3)", 1))
				}
				b.Active(t, 1)
				b.hasBalance(100)
				b.Do(t, func(tx pgx.Tx) error {
					for n := range 3 {
						if err := b.credit(tx, ids.From[ids.Tenant](uuid.MustParse(fmt.Sprintf("a%031d", n+1))), -1); err != nil {
							return err
						}
					}
					return nil
				})
				d := &dying{Pool: b.DB, at: commit, after: after}
				b.killed(t, d)
				if !d.dead {
					t.Fatalf("it came to %d commits", d.commits)
				}
				b.done(ledger.CheckRunway{})
				b.nothing("all is done", ledger.CheckRunway{})
				for sql, want := range map[string]int{
					`SELECT count(*) FROM outbox_events WHERE subject = 'billing.balance_depleted'`:                  3,
					`SELECT count(DISTINCT aggregate) FROM outbox_events WHERE subject = 'billing.balance_depleted'`: 3,
					`SELECT count(*) FROM outbox_events WHERE subject = 'billing.low_balance_warning'`:               4,
					`SELECT count(*) FROM outbox_events WHERE subject = 'billing.auto_release_pending'`:              1,
					`SELECT count(*) FROM allocation_transitions WHERE trigger = 'release_requested'`:                5,
					`SELECT count(*) FROM allocations WHERE status = 'releasing'`:                                    5,
				} {
					if n := b.count(sql); n != want {
						t.Errorf("%d, want %d: %s", n, want, sql)
					}
				}
				b.checkEventContract()
			})
		}
	}
}

// killed runs one check over a database connection that breaks.
func (b *bundle) killed(t *testing.T, d *dying) {
	t.Helper()
	deps, all := *b.deps, *b.deps.Services
	all.DB, deps.Services = d, &all
	const queue = "doomed"
	doomed, err := river.NewClient(riverpgxv5.New(b.DB), &river.Config{
		Schema: migrations.RiverSchema, Logger: b.deps.Log, Workers: jobs.Workers(&deps), FetchPollInterval: 20 * time.Millisecond, FetchCooldown: 2 * time.Millisecond,
		TestOnly: true, ID: queue, Queues: map[string]river.QueueConfig{queue: {MaxWorkers: 1}},
	})
	must(t, err)
	_, err = doomed.Insert(t.Context(), ledger.CheckRunway{}, &river.InsertOpts{Queue: queue, MaxAttempts: 1})
	must(t, err)
	must(t, doomed.Start(t.Context()))
	for until := time.Now().Add(10 * time.Second); b.count(`SELECT count(*) FROM river.river_job WHERE queue = $1 AND finalized_at IS NULL`, queue) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("it does not end")
		}
	}
	must(t, doomed.Stop(context.WithoutCancel(t.Context())))
	b.exec(`DELETE FROM river.river_job WHERE queue = $1`, queue)
}

// dying is a database that is gone for good before or after a commit: what the
// process would have done next does not happen.
type dying struct {
	pg.Pool

	mu          sync.Mutex
	at, commits int
	after, dead bool
}

var errDied = errors.New("the process was killed here")

func (d *dying) Begin(ctx context.Context) (pgx.Tx, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return nil, errDied
	}
	tx, err := d.Pool.Begin(ctx)
	return doomedTx{tx, d}, err
}

type doomedTx struct {
	pgx.Tx

	d *dying
}

func (t doomedTx) Commit(ctx context.Context) error {
	t.d.mu.Lock()
	defer t.d.mu.Unlock()
	t.d.commits++
	if t.d.commits != t.d.at {
		return t.Tx.Commit(ctx)
	}
	t.d.dead = true
	if !t.d.after {
		return errors.Join(errDied, t.Rollback(ctx))
	}
	return errors.Join(errDied, t.Tx.Commit(ctx))
}

// The hourly check finds nothing where nothing was tampered with, and fails for
// nothing that it finds.
func TestCheckLedger(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Active(t, 1)
	b.done(moneyjobs.Accrue{})
	b.done(moneyjobs.CheckLedger{})
	b.exec(`SET session_replication_role = replica; UPDATE ledger_entries SET amount_minor = 1 WHERE amount_minor < 0; RESET session_replication_role`)
	b.nothing("a check changes nothing", moneyjobs.CheckLedger{})
}
