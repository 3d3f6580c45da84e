package migrations_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgcluster"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/migrations"
)

// idOf returns an id of version 7 of a time.
func idOf(at time.Time) uuid.UUID {
	id := uuid.Must(uuid.NewV7())
	for i, ms := 5, at.UnixMilli(); i >= 0; i, ms = i-1, ms>>8 {
		id[i] = byte(ms)
	}
	return id
}

func monthsAgo(n int) time.Time {
	now := time.Now().UTC()
	return time.Date(now.Year(), now.Month(), 15, 0, 0, 0, 0, time.UTC).AddDate(0, -n, 0)
}

func count(t *testing.T, db pg.Queryer, sql string, args ...any) (n int) {
	t.Helper()
	if err := db.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func insert(t *testing.T, db pg.Queryer, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

const (
	anAction = `INSERT INTO plan_actions (plan_id, number, kind, object_id, verb, fence, generation, epoch, reason) VALUES ($1, 1, 'Node', gen_random_uuid(), 'probe', 1, 1, 0, 'r')`
	aPlan    = `INSERT INTO plans (id, hash, actions, created_at) VALUES ($1, 'h', 1, $2)`
	anEvent  = `INSERT INTO outbox_events (event_id, stream, subject, aggregate, sequence, payload, occurred_at) VALUES (gen_random_uuid(), 'FLEET', 'fleet.x', 'a', 1, '{}', $1)`
	anAudit  = `INSERT INTO audit_logs (id, at, actor, action, target_urn) VALUES ($1, $2, 'a', 'b', 'c')`
)

// Rows that were stored before the tables had partitions move into them.
func TestRowsMoveIntoPartitions(t *testing.T) {
	t.Parallel()
	db, steps := before(t, 653)
	old, recent := idOf(monthsAgo(5)), idOf(time.Now())
	for id, at := range map[uuid.UUID]time.Time{old: monthsAgo(5), recent: time.Now()} {
		insert(t, db, aPlan, id, at)
		insert(t, db, anAction, id)
		insert(t, db, `INSERT INTO plan_approvals (plan_id, approver, reason) VALUES ($1, 'user:a', 'r')`, id)
		insert(t, db, `INSERT INTO allocation_transitions (allocation_id, version, trigger, from_status, to_status, at) VALUES ($1, 1, 'requested', '', 'requested', $2)`, id, at)
	}
	if _, err := steps.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"plans", "plan_actions", "plan_approvals", "allocation_transitions"} {
		if n := count(t, db, `SELECT count(*) FROM `+table); n != 2 {
			t.Errorf("%s has %d of 2 rows", table, n)
		}
	}
	for _, table := range []string{"plans", "plan_actions", "allocation_transitions"} {
		if n := count(t, db, `SELECT count(DISTINCT tableoid) FROM `+table); n != 2 {
			t.Errorf("rows of %s of two months are in %d partitions", table, n)
		}
	}
	// A plan is still found by its id, and its actions are deleted with it.
	insert(t, db, `DELETE FROM plans WHERE id = $1`, recent)
	if n := count(t, db, `SELECT count(*) FROM plan_actions`); n != 1 {
		t.Errorf("%d actions", n)
	}
}

// The function that the workers call drops no row that is still needed, whatever time it is given.
func TestDropPartitionsKeepsWhatIsNeeded(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	past := monthsAgo(6)
	for _, table := range []string{"outbox_events", "inbox", "notifications", "webhook_deliveries", "audit_logs", "plans", "plan_actions", "allocation_transitions", "ledger_entries"} {
		insert(t, db, `SELECT make_partition($1, date_trunc('month', $2 AT TIME ZONE 'UTC') AT TIME ZONE 'UTC')`, table, past)
	}
	insert(t, db, anEvent, past)
	insert(t, db, anAudit, idOf(past), past)
	plan := idOf(past)
	insert(t, db, aPlan, plan, past)
	insert(t, db, anAction, plan)
	insert(t, db, `INSERT INTO plan_approvals (plan_id, approver, reason) VALUES ($1, 'user:a', 'r')`, plan)

	drop := func(table string, want int) {
		t.Helper()
		if n := count(t, db, `SELECT drop_partitions($1, now())`, table); n != want {
			t.Errorf("dropped %d partitions of %s, expected %d", n, table, want)
		}
	}
	if _, err := db.Exec(t.Context(), `SELECT drop_partitions('ledger_entries', now())`); !rejected(err) {
		t.Errorf("dropped entries of the ledger: %v", err)
	}
	drop("outbox_events", 0) // not published
	insert(t, db, `INSERT INTO outbox_position (stream, epoch, xid, seq) SELECT 'FLEET', 'e', xid, seq FROM outbox_events`)
	keeps := func(what, until, sql string) {
		t.Helper()
		insert(t, db, sql, past)
		drop("outbox_events", 0)
		if t.Failed() {
			t.Fatalf("dropped events that %s needs", what)
		}
		insert(t, db, until)
	}
	keeps("a consumer", `UPDATE event_consumers SET oldest_at = NULL`,
		`INSERT INTO event_consumers (name, stream, epoch, pending, redelivered, oldest_at) VALUES ('c', 'FLEET', 'e', 1, 0, $1)`)
	keeps("a dead letter", `UPDATE dead_letters SET resolved_at = now(), resolution = 'discarded'`,
		`INSERT INTO dead_letters (id, consumer, event_id, stream, subject, error, created_at) SELECT gen_random_uuid(), 'c', event_id, stream, subject, 'x', $1 FROM outbox_events`)
	keeps("a replay", `UPDATE event_replays SET done_at = now()`,
		`INSERT INTO event_replays (id, consumer, repeat, actor, reason, from_at) VALUES (gen_random_uuid(), 'c', false, 'a', 'r', $1)`)
	drop("inbox", 0) // its events are stored
	drop("outbox_events", 1)
	insert(t, db, `SELECT make_partition('outbox_events', date_trunc('month', $1 AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + interval '1 month')`, past)
	drop("inbox", 0) // an id at the end of its month
	drop("outbox_events", 1)
	drop("inbox", 1)
	drop("notifications", 1)
	drop("webhook_deliveries", 1)
	drop("audit_logs", 0) // not exported
	insert(t, db, `INSERT INTO audit_exports (month, file, rows, sha256) VALUES (date_trunc('month', $1 AT TIME ZONE 'UTC') AT TIME ZONE 'UTC', 'f', 2, sha256(''))`, past)
	drop("audit_logs", 0) // a row more than there are
	drop("plan_actions", 1)
	drop("plans", 1)
	drop("allocation_transitions", 1)
	if n := count(t, db, `SELECT count(*) FROM plan_approvals`); n != 0 {
		t.Errorf("%d approvals of no plan", n)
	}
	for _, table := range []string{"outbox_events", "inbox", "notifications", "webhook_deliveries", "plans", "plan_actions", "allocation_transitions"} {
		if n := count(t, db, `SELECT count(*) FROM table_partitions WHERE name = $1`, table); n != 4 {
			t.Errorf("%s has %d months left, expected this one and three", table, n)
		}
	}
	work := pgtest.As(t, db, "gpuaas_work")
	if _, err := work.Exec(t.Context(), `SELECT drop_partitions('plans', now())`); err != nil {
		t.Errorf("the workers: %v", err)
	}
	if _, err := pgtest.As(t, db, "gpuaas_api").Exec(t.Context(), `SELECT drop_partitions('plans', now())`); !rejected(err) {
		t.Errorf("the API: %v", err)
	}
}

// A logical dump that is restored into a new cluster keeps the order of events and audit rows: the new cluster numbers its
// transactions from the beginning.
func TestDumpKeepsTheOrderOfEvents(t *testing.T) {
	t.Parallel()
	bin, err := pgcluster.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	from, to := cluster(t), cluster(t)
	source, target := open(t, from.URL(), ""), open(t, to.URL(), "")
	if err := migrations.Up(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	for range 2000 { // the source is older than the target
		insert(t, source, `SELECT pg_current_xact_id()`)
	}
	insert(t, source, anEvent, time.Now())
	insert(t, source, anAudit, uuid.Must(uuid.NewV7()), time.Now())
	old := count(t, source, `SELECT xid::text::bigint FROM outbox_events`)

	dump := filepath.Join(t.TempDir(), "dump.sql")
	run(t, exec.CommandContext(t.Context(), filepath.Join(bin.Dir, "pg_dumpall"), "--roles-only", "-d", from.URL(), "-f", dump+".roles"))
	run(t, exec.CommandContext(t.Context(), filepath.Join(bin.Dir, "pg_dump"), "-d", from.URL(), "-f", dump))
	run(t, exec.CommandContext(t.Context(), filepath.Join(bin.Dir, "psql"), "-q", "-d", to.URL(), "-f", dump+".roles"))
	run(t, exec.CommandContext(t.Context(), filepath.Join(bin.Dir, "psql"), "-q", "-v", "ON_ERROR_STOP=1", "-d", to.URL(), "-f", dump))

	if n := count(t, target, visible); n != 0 {
		t.Fatalf("%d events are below the horizon before the start: the test restored into an older cluster", n)
	}
	for range 2 { // the second start changes nothing
		if err := migrations.Up(t.Context(), target); err != nil {
			t.Fatal(err)
		}
	}
	insert(t, target, anEvent, time.Now())
	insert(t, target, anAudit, uuid.Must(uuid.NewV7()), time.Now())
	if n := count(t, target, visible); n != 2 {
		t.Errorf("%d of 2 events are visible", n)
	}
	if last := count(t, target, `SELECT xid::text::bigint FROM outbox_events ORDER BY seq DESC LIMIT 1`); last <= old {
		t.Errorf("the new event has position %d, the old one %d", last, old)
	}
	if first := count(t, target, `SELECT xid::text::bigint FROM outbox_events ORDER BY xid, seq LIMIT 1`); first != old {
		t.Errorf("the first event is %d, expected %d", first, old)
	}
	insert(t, target, `SELECT pg_current_xact_id()`)
	if n := count(t, target, `SELECT count(*) FROM audit_logs WHERE xid < xact_horizon()`); n != 2 {
		t.Errorf("%d of 2 audit rows can be sealed", n)
	}
}

const visible = `SELECT count(*) FROM outbox_events WHERE xid < xact_horizon()`

func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Env = os.Environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}
