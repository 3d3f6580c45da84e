package metering

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// INV-33: no second of an allocation is metered twice, and time has no gap, no overlap and no fork. The
// database rejects a violation by any role, superusers included.
func TestINV33IntervalsThatDoNotTileAreRejected(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	i := h100(ids.New[ids.Tenant]())
	must(t, b.open(ctx, i, t0))
	must(t, b.close(ctx, i.Allocation, t0+100))
	must(t, b.open(ctx, i, t0+200))
	_, _, err := b.tick(ctx, t0+300)
	must(t, err)
	_, _, err = b.tick(ctx, t0+400)
	must(t, err)
	must(t, pgx.BeginFunc(ctx, b.db, func(tx pgx.Tx) error {
		_, err := Pause(ctx, tx, i.Allocation, ObservationStale, Observation{ObservedAt: at(t0 + 350)})
		return err
	}))

	const record = `INSERT INTO usage_records (id, allocation_id, org_id, project_id, sku, gpus, price_minor, currency, account_id, start_s, end_s, closed_by)
		SELECT gen_random_uuid(), allocation_id, org_id, project_id, sku, gpus, price_minor, currency, account_id, $1::bigint, $2::bigint, CASE WHEN $2 IS NOT NULL THEN 'release_requested' END
		FROM usage_records LIMIT 1`
	const tick = `INSERT INTO usage_ticks (after_s, from_s, to_s) VALUES ($1, $2, $3)`
	const credit = `INSERT INTO usage_credits (id, record_id, org_id, from_s, to_s, reason, amount_minor)
		SELECT gen_random_uuid(), record_id, org_id, $1::bigint, $2::bigint, reason, 0 FROM usage_credits`
	for _, c := range []struct {
		rule string
		sql  string
		args []any
	}{
		{"an interval inside another", record, []any{t0 + 10, t0 + 20}},
		{"around another", record, []any{t0 - 10, t0 + 110}},
		{"over its end", record, []any{t0 + 99, t0 + 150}},
		{"open under a closed one", record, []any{t0 + 50, nil}},
		{"that ends before it begins", record, []any{t0 + 900, t0 + 800}},
		{"a tick with a gap", tick, []any{t0 + 400, t0 + 401, t0 + 500}},
		{"that overlaps", tick, []any{t0 + 400, t0 + 399, t0 + 500}},
		{"next to another", tick, []any{t0 + 300, t0 + 300, t0 + 350}},
		{"after nothing", tick, []any{nil, t0 + 400, t0 + 500}},
		{"after one that is not there", tick, []any{t0 + 390, t0 + 390, t0 + 500}},
		{"of no time", tick, []any{t0 + 400, t0 + 400, t0 + 400}},
		{"a pass over no tick", `INSERT INTO usage_passes (to_s) VALUES ($1)`, []any{t0 + 350}},
		{"a second pass", `INSERT INTO usage_passes (to_s) VALUES ($1)`, []any{t0 + 400}},
		{"a second credit", credit, []any{t0 + 360, t0 + 370}},
		{"a change of a tick", `UPDATE usage_ticks SET to_s = to_s + 1 WHERE to_s = $1`, []any{t0 + 400}},
		{"the loss of a tick", `DELETE FROM usage_ticks WHERE to_s = $1`, []any{t0 + 400}},
		{"the loss of a pass", `DELETE FROM usage_passes WHERE to_s = $1`, []any{t0 + 400}},
		{"another end", `UPDATE usage_records SET end_s = end_s + 1 WHERE end_s = $1`, []any{t0 + 100}},
		{"another price", `UPDATE usage_records SET price_minor = 1 WHERE start_s = $1`, []any{t0}},
		{"the loss of an interval", `DELETE FROM usage_records WHERE start_s = $1`, []any{t0}},
		{"another credit", `UPDATE usage_credits SET amount_minor = 0 WHERE to_s = $1`, []any{t0 + 400}},
	} {
		if _, err := b.db.Exec(ctx, c.sql, c.args...); err == nil {
			t.Errorf("%s was accepted", c.rule)
		}
	}
	if _, err := b.db.Exec(ctx, record, t0+100, t0+200); err != nil {
		t.Errorf("an exact fit was rejected: %v", err)
	}
}

// A cut waits for transactions that open or close intervals, and gives up on one that does not end.
func TestINV30ACutWaitsForWhoChangesSomething(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.waits = 10 * time.Millisecond
	ctx := t.Context()
	i := h100(ids.New[ids.Tenant]())
	must(t, b.open(ctx, i, t0))
	slow, err := b.db.Begin(ctx)
	must(t, err)
	must(t, b.clock.Set(ctx, t0+10))
	batch := &pgx.Batch{}
	QueueClose(batch, i.Allocation, ReleaseRequested, nil)
	must(t, slow.SendBatch(ctx, batch).Close())
	if ticks, _, err := b.tick(ctx, t0+20); err != nil || len(ticks) > 0 {
		t.Errorf("cut during an open change: %+v, %v", ticks, err)
	}
	must(t, slow.Commit(ctx))
	if _, _, err := b.tick(ctx, t0+20); err != nil || b.charged(ctx, t, i.Allocation) != owed(i, 10) {
		t.Errorf("charged %d, want %d: %v", b.charged(ctx, t, i.Allocation), owed(i, 10), err)
	}
}

// Fault credits are subtracted from every reported cost, and an interval names the cause of its start
// and end.
func TestCreditsAreReadWithCosts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	i := h100(ids.New[ids.Tenant]())
	i.User = ids.New[ids.User]()
	must(t, b.open(ctx, i, t0))
	must(t, b.clock.Set(ctx, t0+3600))
	must(t, pgx.BeginFunc(ctx, b.db, func(tx pgx.Tx) error {
		_, err := Pause(ctx, tx, i.Allocation, NodeUnhealthy, Observation{Fence: 7, ObservedAt: at(t0 + 1800)})
		return err
	}))
	must(t, b.clock.Set(ctx, t0+5400))
	whole, half := owed(i, 3600), owed(i, 3600)-owed(i, 1800)
	costs, err := costsOf(ctx, b.db, []ids.Allocation{i.Allocation})
	must(t, err)
	seconds, closed, err := Closed(ctx, b.db, i.Allocation)
	must(t, err)
	if int64(costs[i.Allocation]) != whole-half || int64(closed) != whole-half || seconds != 3600 {
		t.Errorf("came to %d, closed %d after %d s; want %d", costs[i.Allocation], closed, seconds, whole-half)
	}
	records, err := b.Intervals(ctx, i.Tenant, Filter{Allocation: i.Allocation, Limit: 10})
	must(t, err)
	if len(records) != 1 || records[0].ClosedBy != NodeUnhealthy || records[0].OpenedBy != ObservedReady || int64(records[0].CostMinor) != whole ||
		int64(records[0].CreditMinor) != half || records[0].CreditReason != NodeUnhealthy || records[0].User != i.User || records[0].OpenedObservation != nil {
		t.Errorf("intervals %+v", records)
	}
	// A credit counts when it was given, by the database's clock as in the ledger.
	now := time.Now()
	for by, key := range map[By]string{ByAllocation: i.Allocation.String(), ByProject: i.Project.String(), BySKU: i.SKU, ByUser: i.User.String(), ByDay: now.UTC().Format(time.DateOnly)} {
		list, err := b.Usage(ctx, Query{Tenant: i.Tenant, From: now.Add(-time.Hour), To: at(t0 + 9000), By: by, Limit: 10})
		must(t, err)
		var credit, cost int64
		for _, u := range list {
			cost += int64(u.CostMinor)
			if u.Key == key {
				credit = int64(u.CreditMinor)
			}
			if u.NetMinor != u.CostMinor-u.CreditMinor {
				t.Errorf("by %s: %+v", by, u)
			}
		}
		if credit != half || cost != whole {
			t.Errorf("by %s: cost %d, credit %d: %+v", by, cost, credit, list)
		}
	}
}

// What a superuser changes behind the triggers is found when the tick is derived.
func TestINV30CompareFindsWhatWasChanged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	i, other := h100(ids.New[ids.Tenant]()), h100(ids.New[ids.Tenant]())
	must(t, b.open(ctx, i, t0))
	must(t, b.open(ctx, other, t0))
	_, _, err := b.tick(ctx, t0+600)
	must(t, err)
	for name, sql := range map[string]string{
		"an interval": `UPDATE usage_records SET price_minor = price_minor + 60 WHERE allocation_id = $1`,
		"an entry":    `UPDATE ledger_entries SET amount_minor = amount_minor - 1 WHERE allocation_id = $1`,
		"a lost one":  `DELETE FROM ledger_entries WHERE allocation_id = $1`,
	} {
		if _, found, err := b.Compare(ctx, at(0), at(t0+1000)); err != nil || len(found) > 0 {
			t.Fatalf("before %s: %+v, %v", name, found, err)
		}
		tx, err := b.db.Begin(ctx)
		must(t, err)
		_, err = tx.Exec(ctx, `SET LOCAL session_replication_role = replica`)
		must(t, err)
		_, err = tx.Exec(ctx, sql, i.Allocation.UUID)
		must(t, err)
		n, found, err := (&Service{DB: tx}).Compare(ctx, at(0), at(t0+1000))
		if err != nil || n != 1 || len(found) != 1 || found[0].Allocation != i.Allocation || found[0].Used == found[0].Charged {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
		must(t, tx.Rollback(ctx))
	}
}
