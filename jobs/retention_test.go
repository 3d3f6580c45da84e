package jobs_test

import (
	"testing"
	"time"

	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/jobs/retention"
)

// monthsAgo is the middle of a month.
func monthsAgo(n int) time.Time {
	now := time.Now().UTC()
	return time.Date(now.Year(), now.Month(), 15, 0, 0, 0, 0, time.UTC).AddDate(0, -n, 0)
}

// setPolicy applies a value of the platform.
func (b *bundle) setPolicy(key, value string) {
	b.t.Helper()
	b.exec(`INSERT INTO policy_values (key, scope, subject, value, revision) VALUES ($1, 'platform', 'platform', $2::jsonb, 1)
		ON CONFLICT (key, scope) DO UPDATE SET value = excluded.value`, key, value)
	b.exec(`UPDATE policy_revision SET revision = revision + 1`)
	if _, err := b.deps.Policies.Refresh(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// A month that is older than the retention of its table is gone after the job, and a policy decides which.
func TestMaintenanceDropsOldMonths(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.deps.Audit.Archive = t.TempDir()
	for _, table := range []string{"outbox_events", "audit_logs", "plans", "plan_actions", "allocation_transitions"} {
		for _, n := range []int{2, 5} {
			b.exec(`SELECT make_partition($1, date_trunc('month', $2 AT TIME ZONE 'UTC') AT TIME ZONE 'UTC')`, table, monthsAgo(n))
		}
	}
	b.exec(`INSERT INTO outbox_events (event_id, stream, subject, aggregate, sequence, payload, occurred_at) VALUES (gen_random_uuid(), 'FLEET', 'fleet.x', 'a', 1, '{}', $1)`, monthsAgo(2))
	b.exec(`INSERT INTO outbox_position (stream, epoch, xid, seq) SELECT DISTINCT ON (stream) stream, 'e', xid, seq FROM outbox_events ORDER BY stream, xid DESC, seq DESC`)
	b.exec(`INSERT INTO audit_logs (id, at, actor, action, target_urn, after) VALUES (id_floor($1), $1, 'a', 'b', 'c', '{"n": 1.50}')`, monthsAgo(5))
	left := func(table string) int {
		return b.count(`SELECT count(*) FROM table_partitions WHERE name = $1 AND ends_at < now()`, table)
	}

	b.setPolicy("event.outbox_days", "365")
	b.setPolicy("history.days", "365")
	b.sealed()
	b.done(jobs.Maintenance{})
	for _, table := range []string{"outbox_events", "plans", "plan_actions", "audit_logs", "allocation_transitions"} {
		if n := left(table); n != 2 {
			t.Errorf("%s has %d old months before the policy, expected 2", table, n)
		}
	}
	b.setPolicy("event.outbox_days", "7")
	b.setPolicy("history.days", "100")
	b.setPolicy("audit.days", "100")
	b.done(jobs.Maintenance{})
	for table, want := range map[string]int{"outbox_events": 0, "plans": 1, "plan_actions": 1, "audit_logs": 1, "allocation_transitions": 1} {
		if n := left(table); n != want {
			t.Errorf("%s has %d old months, expected %d", table, n, want)
		}
	}
	b.verifyArchive()
	all, err := retention.Read(t.Context(), b.deps.Services)
	if err != nil || len(all) < 6 {
		t.Fatalf("%v, %v", all, err)
	}
	for _, table := range all {
		if table.Missing != 0 || table.Overdue != 0 {
			t.Errorf("after the job: %+v", table)
		}
	}
	// Without an archive no audit row is dropped, and that is reported.
	b.exec(`SELECT make_partition('audit_logs', date_trunc('month', $1 AT TIME ZONE 'UTC') AT TIME ZONE 'UTC')`, monthsAgo(8))
	b.exec(`DROP TABLE plans_other, plan_actions_other CASCADE`)
	b.deps.Audit.Archive = ""
	b.done(jobs.Maintenance{})
	if all, err = retention.Read(t.Context(), b.deps.Services); err != nil || all[1].Name != "audit_logs" || all[1].Overdue != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

// sealed waits until every audit row is sealed.
func (b *bundle) sealed() {
	b.t.Helper()
	for until := time.Now().Add(10 * time.Second); ; {
		b.done(jobs.SealAudit{})
		r, err := b.deps.Audit.Verify(b.t.Context(), ids.Tenant{}, nil)
		if err == nil && r.Unsealed == 0 {
			return
		}
		if time.Now().After(until) {
			b.t.Fatalf("not everything was sealed: %+v, %v", r, err)
		}
	}
}

// verifyArchive compares the dropped rows with their seals.
func (b *bundle) verifyArchive() {
	b.t.Helper()
	files, err := b.deps.Audit.VerifyArchive(b.t.Context())
	if err != nil || len(files) != 1 || files[0].Rows != 1 || files[0].Fault != "" {
		b.t.Errorf("archive: %+v, %v", files, err)
	}
	if r, err := b.deps.Audit.Verify(b.t.Context(), ids.Tenant{}, nil); err != nil || !r.OK() || r.Archived != 1 || r.Exported != 1 {
		b.t.Errorf("after the drop: %+v, %v", r, err)
	}
}

// Old rows of tables without partitions go by the policies; what is needed stays.
func TestMaintenanceDeletesOldRows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	live, ended := b.Active(t, 1), ids.New[ids.Allocation]()
	task := `INSERT INTO node_tasks (id, node_id, allocation_id, type, fence, generation, attempt, body, signature, status, finished_at, expires_at)
		VALUES (gen_random_uuid(), $1, $2, $3, 1, 1, 1, '', '', 'succeeded', now() - interval '100 days', now())`
	b.exec(task, b.node, live.ID, "allocation.provision_user")
	b.exec(task, b.node, ended, "allocation.provision_user")
	b.exec(task, b.node, ended, "allocation.revoke_user")
	b.exec(task, b.node, nil, "node.probe")
	for serial, age := range map[string]string{"a": "300 days", "b": "200 days"} {
		b.exec(`INSERT INTO certificates (serial, node_id, status, created_at, not_after) VALUES ($1, $2, 'superseded', now() - $3::interval, now() - $3::interval + interval '1 day')`, serial, b.node, age)
	}
	b.exec(`INSERT INTO idempotency_keys (principal, method, route, key, body_hash, status, created_at) VALUES (gen_random_uuid(), 'POST', '/', 'k', '', 201, now() - interval '30 hours')`)
	for phase, proof := range map[string]any{"gone": `{"fence": 1}`, "broken": nil} {
		b.exec(`INSERT INTO observed_allocations (allocation_id, node_id, phase, fence, observed_generation, spec_hash, proof, observed_at)
			VALUES (gen_random_uuid(), $1, $2, 1, 1, '', $3::jsonb, now() - interval '100 days')`, b.node, phase, proof)
	}
	b.exec(`INSERT INTO observed_allocations (allocation_id, node_id, phase, fence, observed_generation, spec_hash, observed_at)
		VALUES (gen_random_uuid(), $1, 'gone', 1, 1, '', now() - interval '100 days')`, b.node)
	b.exec(`INSERT INTO drift (kind, object_id, field, status, healed_at) VALUES ('Node', gen_random_uuid(), 'f', 'healed', now() - interval '100 days'), ('Node', gen_random_uuid(), 'f', 'healed', now())`)

	b.setPolicy("api.idempotency_hours", "48")
	b.done(jobs.Maintenance{})
	if n := b.count(`SELECT count(*) FROM idempotency_keys WHERE key = 'k'`); n != 1 {
		t.Error("a reply of 30 hours is gone before 48")
	}
	b.setPolicy("api.idempotency_hours", "24")
	b.done(jobs.Maintenance{})
	for sql, want := range map[string]int{
		`SELECT count(*) FROM idempotency_keys WHERE key = 'k'`:                          0,
		`SELECT count(*) FROM node_tasks WHERE finished_at < now() - interval '90 days'`: 1,
		`SELECT count(*) FROM certificates WHERE serial = 'a'`:                           0,
		`SELECT count(*) FROM certificates WHERE not_after < now()`:                      1,
		`SELECT count(*) FROM drift`:                                                     1,
		`SELECT count(*) FROM observed_allocations WHERE proof IS NOT NULL`:              0,
		`SELECT count(*) FROM observed_allocations WHERE proof IS NULL`:                  2,
	} {
		if n := b.count(sql); n != want {
			t.Errorf("%s: %d, expected %d", sql, n, want)
		}
	}
}

// An idle installation inserts no job for an empty queue.
func TestEmptyQueueInsertsNoJob(t *testing.T) {
	t.Parallel()
	b := setup(t)
	due := func() river.JobArgs { return jobs.Due(b.deps, jobs.PlaceQueued{}.Kind()) }
	if args := due(); args != nil {
		t.Errorf("without a queue: %v", args)
	}
	b.exec(`UPDATE allocations SET node_id = NULL WHERE id = $1`, b.Request(t, 1).ID)
	if args := due(); args == nil {
		t.Error("nothing is inserted for a queued allocation")
	}
}
