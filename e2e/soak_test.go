//go:build e2e && soak

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/jobs/retention"
)

// A simulated day has so many allocations, each with the requests of a user around it.
const (
	soakDay     = 2400
	soakWorkers = 6
	soakSKU     = "h100-sxm"
)

// permanent are the tables that grow with the business, by decision, each with the reason.
var permanent = map[string]string{
	"allocations":        "the ledger, usage and audit rows name them",
	"release_proofs":     "tenants verify the proof of each allocation",
	"slot_claims":        "no slot is sold twice, over all ages",
	"ledger_accounts":    "the books",
	"ledger_transfers":   "the books",
	"ledger_entries":     "the books",
	"ledger_checkpoints": "seals of the books",
	"usage_ticks":        "each check derives the charges from usage again",
	"usage_passes":       "each check derives the charges from usage again",
	"usage_records":      "each check derives the charges from usage again",
	"usage_credits":      "each check derives the charges from usage again",
	"payment_sessions":   "payments that the provider may still report",
	"audit_seals":        "they prove audit rows that only the archive has",
	"audit_exports":      "they name the files of the archive",
}

// ages are the columns by which the rows of tables with a retention grow old. Months that are dropped as partitions are
// tested in jobs.
var ages = map[string]string{
	"idempotency_keys": "created_at", "node_tasks": "finished_at", "observed_allocations": "observed_at", "gpu_readings": "starts_at",
	"drift": "healed_at", "sessions": "expires_at", "certificates": "not_after",
}

// TestSoak runs the load of a day in SOAK_HOURS hours. A table that grows between the first third and the end has a
// retention, or is permanent; every other one has as many rows as before. In the end the rows with a retention are made
// old, and the next maintenance removes them.
func TestSoak(t *testing.T) {
	hours, err := strconv.ParseFloat(os.Getenv("SOAK_HOURS"), 64)
	if err != nil || hours <= 0 {
		t.Fatalf("SOAK_HOURS is %q: set a number of hours", os.Getenv("SOAK_HOURS"))
	}
	whole := time.Duration(hours * float64(time.Hour))
	h := newInstallation(t)
	h.start()
	h.leaves(t, 10_000_000)
	first, last := h.load(t, whole)
	limited, months := retention.Tables(), map[string]bool{"river.river_job": true}
	for _, m := range retention.Months() {
		months[m.Table] = true
	}
	var old []string
	for _, name := range slices.Sorted(maps.Keys(last)) {
		grown := last[name].rows - first[name].rows
		kind := "flat"
		switch {
		case slices.Contains(limited, name):
			if kind = "retention"; grown > 0 && !months[name] {
				old = append(old, name)
			}
		case permanent[name] != "":
			kind = "permanent"
		case grown > max(20, first[name].rows/10):
			t.Errorf("%s grew from %d to %d rows: nothing removes them", name, first[name].rows, last[name].rows)
		}
		t.Logf("%-28s %-10s %8d rows, %+7d, %8d kB", name, kind, last[name].rows, grown, last[name].bytes/1024)
	}
	h.growOld(t, old)
}

// load returns the sizes of all tables after the first third and at the end, under the same load.
func (h *installation) load(t *testing.T, whole time.Duration) (first, last map[string]tableSize) {
	var done atomic.Int64
	pace := time.NewTicker(whole / soakDay)
	defer pace.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	for n := range soakWorkers {
		workers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-ctx.Done():
					return
				case <-pace.C:
				}
				if err := h.visit(ctx, fmt.Sprintf("soak-%d-%d", n, i)); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wait(t, whole/3)
	first = h.tables(t)
	wait(t, whole-whole/3)
	last = h.tables(t)
	t.Logf("%d allocations in %s", done.Load(), whole)
	if done.Load() < soakWorkers {
		t.Error("that is no load")
	}
	return first, last
}

// growOld makes the rows of tables older than any retention, and waits until maintenance has removed them.
func (h *installation) growOld(t *testing.T, tables []string) {
	t.Helper()
	db, err := h.sql(t.Context())
	must(t, err)
	defer db.Close(t.Context())
	exec := func(sql string) {
		t.Helper()
		_, err := db.Exec(t.Context(), sql)
		must(t, err)
	}
	exec(`SET session_replication_role = replica`) // no trigger rejects that a row becomes older
	for _, name := range tables {
		if ages[name] == "" {
			t.Errorf("%s has grown, and the test does not know how its rows become old", name)
			continue
		}
		exec(fmt.Sprintf(`UPDATE %s SET %s = %[2]s - interval '1000 days' WHERE %[2]s IS NOT NULL`, name, ages[name]))
	}
	exec(`INSERT INTO river.river_job (args, kind, max_attempts, queue) VALUES ('{}', 'maintenance', 3, 'maintenance')`)
	until(t, patience, "old rows are removed", func() error {
		for _, name := range tables {
			if ages[name] == "" {
				continue
			}
			var n int
			err := db.QueryRow(t.Context(), fmt.Sprintf(`SELECT count(*) FROM %s WHERE %s < now() - interval '900 days'`, name, ages[name])).Scan(&n)
			if err == nil && n > 20 { // of allocations that are still live
				err = fmt.Errorf("%s still has %d old rows", name, n)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func wait(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(d):
	}
}

// visit acts as a user around one allocation. A full fleet and the rate limit are waits, not failures.
func (h *installation) visit(ctx context.Context, name string) error {
	var a allocation
	for {
		status, err := h.call("POST", "/api/v1/allocations", name, map[string]any{"name": name, "sku": soakSKU, "gpus": 1}, &a)
		if err == nil {
			break
		}
		if status != 409 && status != 429 {
			return err
		}
		if !sleep(ctx, time.Second) {
			return nil
		}
	}
	for _, path := range []string{"/api/v1/allocations", "/api/v1/billing/balance", "/api/v1/skus", "/api/v1/allocations/" + a.ID} {
		if status, err := h.call("GET", path, "", nil, &struct{}{}); err != nil && status != 429 {
			return err
		}
	}
	reach := func(want string) (bool, error) {
		for {
			status, err := h.call("GET", "/api/v1/allocations/"+a.ID, "", nil, &a)
			switch {
			case err != nil && status != 429:
				return false, err
			case a.Status == want:
				return true, nil
			case a.Status == "failed" || a.Status == "release_failed":
				return false, fmt.Errorf("allocation %s is %s", name, a.Status)
			}
			if !sleep(ctx, 500*time.Millisecond) {
				return false, nil
			}
		}
	}
	if ok, err := reach("active"); !ok || err != nil {
		return err
	}
	for {
		status, err := h.call("POST", "/api/v1/allocations/"+a.ID+"/release", name+"-release", map[string]any{}, &struct{}{})
		if err == nil {
			break
		}
		if status != 429 {
			return err
		}
		if !sleep(ctx, time.Second) {
			return nil
		}
	}
	_, err := reach("released")
	return err
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

type tableSize struct{ rows, bytes int64 }

// tables counts the rows of all tables, those of partitions with their parents, and of River.
func (h *installation) tables(t *testing.T) map[string]tableSize {
	t.Helper()
	db, err := h.sql(t.Context())
	must(t, err)
	defer db.Close(t.Context())
	rows, err := db.Query(t.Context(), `
		SELECT n.nspname || '.' || c.relname, CASE WHEN n.nspname = 'public' THEN '' ELSE n.nspname || '.' END || c.relname,
			coalesce((SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree(c.oid) WHERE relid <> c.oid), 0)::bigint + pg_total_relation_size(c.oid)
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname IN ('public', 'river') AND c.relkind IN ('r', 'p') AND NOT c.relispartition`)
	must(t, err)
	type one struct {
		full, name string
		bytes      int64
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o one, err error) {
		err = row.Scan(&o.full, &o.name, &o.bytes)
		return o, err
	})
	must(t, err)
	all := map[string]tableSize{}
	for _, o := range list {
		var n int64
		must(t, db.QueryRow(t.Context(), `SELECT count(*) FROM `+o.full).Scan(&n))
		all[o.name] = tableSize{n, o.bytes}
	}
	return all
}
