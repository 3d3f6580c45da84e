package reconciler

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func (s *scene) lines(text string) {
	s.t.Helper()
	for line := range strings.Lines(text) {
		s.line(strings.TrimSpace(line))
	}
}

func (s *scene) count(sql string) (n int) {
	s.t.Helper()
	if err := s.db.QueryRow(s.t.Context(), sql).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// Four loops on one due set plan each object once.
func TestLoopsShareTheDueSet(t *testing.T) {
	t.Parallel()
	s := newScene(t, pgtest.Clone(t))
	const n = 2500 // more than two batches
	s.exec(`INSERT INTO desired_objects (uid, kind, name, spec, spec_hash, owner) SELECT gen_random_uuid(), 'SKU', 's' || i, '{}', 'h', 'api' FROM generate_series(1, $1) i`, n)
	s.exec(`INSERT INTO reconcile_due (kind, object_id, due_at, reason) SELECT kind, uid, now(), 'marked' FROM desired_objects`)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				taken, err := s.Pass(t.Context())
				if err != nil {
					t.Error(err)
				}
				if err != nil || taken == 0 {
					return
				}
			}
		})
	}
	all.Wait()
	for taken := 1; taken > 0; { // objects that one loop had locked while the others ended
		taken = s.pass()
	}
	if planned, objects, jobs := s.count(`SELECT count(*) FROM plan_actions`), s.count(`SELECT count(DISTINCT object_id) FROM plan_actions`), s.count(`SELECT count(*) FROM river.river_job`); planned != n || objects != n || jobs != n {
		t.Errorf("%d actions for %d objects, %d jobs", planned, objects, jobs)
	}
}

// An object that is marked while a pass has locked its row is due after the pass, whether the pass
// deletes the row or delays it.
func TestMarkDuringAPassStays(t *testing.T) {
	t.Parallel()
	for name, rows := range map[string]string{
		"settled": "due x kind=SKU",
		"put off": "declare x kind=SKU\ndue x kind=SKU",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, pgtest.Clone(t))
			s.lines(rows)
			marked := make(chan error, 1)
			err := pgx.BeginFunc(t.Context(), s.db, func(tx pgx.Tx) error {
				due, err := lockDue(t.Context(), tx, batch)
				if err != nil || len(due) != 1 {
					return fmt.Errorf("took %d: %w", len(due), err)
				}
				go func() {
					_, err := s.db.Exec(t.Context(), `SELECT mark_due('SKU', $1, now(), 'during')`, s.id("x"))
					marked <- err
				}()
				s.waitBlocked()
				_, err = s.planAndStore(t.Context(), tx, due, s.limits)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := <-marked; err != nil {
				t.Fatal(err)
			}
			if got := s.listed(`SELECT reason FROM reconcile_due WHERE due_at <= now()`); got != "during\n" {
				t.Errorf("due now: %q", got)
			}
		})
	}
}

// waitBlocked returns when a session waits for a lock.
func (s *scene) waitBlocked() {
	s.t.Helper()
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); {
		if s.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0 {
			return
		}
	}
	s.t.Fatal("no goroutine waits")
}

// INV-05: what the due set has lost the sweep finds, by the same path.
func TestINV05SweepFindsWhatWasLost(t *testing.T) {
	t.Parallel()
	s := newScene(t, pgtest.Clone(t))
	s.lines("declare lost kind=SKU\ndeclare done kind=SKU\ncarried done kind=SKU")
	var sweep sweep
	for range 3 {
		if err := s.sweepAll(&sweep); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.plan(); got != "ensure SKU lost @0 : declared\n" {
		t.Errorf("planned %q", got)
	}
	if got := s.remains(); !strings.HasPrefix(got, "SKU lost +10s") && !strings.HasPrefix(got, "SKU lost +9s") {
		t.Errorf("due %q", got)
	}
}

// INV-16: a sweep over a converged fleet writes nothing, even though each report moves the time of
// the next check.
func TestINV16IdleSweep(t *testing.T) {
	t.Parallel()
	s := newScene(t, pgtest.Clone(t))
	s.lines("node n1\ndeclare n1 kind=Node\ncarried n1 kind=Node\ndue n1 kind=Node\ndeclare a\nstate a active expires=1h\nseen a phase=ready\ndue a")
	s.pass()
	s.exec(`UPDATE observed_nodes SET stale_at = stale_at + interval '20 s'`)
	rest := pgtest.Diff(t, s.db, pgtest.Also("river.river_job"))
	var sweep sweep
	for range 4 {
		if err := s.sweepAll(&sweep); err != nil {
			t.Fatal(err)
		}
		s.pass()
	}
	if left := rest(); left != "" {
		t.Errorf("wrote\n%s", left)
	}
}

// A sweep that began before an object was marked does not delay the mark.
func TestSweepDoesNotPutAMarkOff(t *testing.T) {
	t.Parallel()
	s := newScene(t, pgtest.Clone(t))
	s.lines("declare x kind=SKU")
	tx, err := s.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT mark_due('SKU', $1, now(), 'fresh')`, s.id("x")); err != nil {
		t.Fatal(err)
	}
	swept := make(chan error, 1)
	go func() { var sweep sweep; swept <- s.sweepAll(&sweep) }()
	s.waitBlocked()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-swept; err != nil {
		t.Fatal(err)
	}
	if got := s.listed(`SELECT reason FROM reconcile_due WHERE due_at <= now()`); got != "fresh\n" {
		t.Errorf("due now: %q", got)
	}
}

// INV-62: all loops share one budget for the whole period, and repeating a release costs nothing.
func TestINV62Breaker(t *testing.T) {
	t.Parallel()
	s := newScene(t, pgtest.Clone(t))
	s.line("node n1")
	for i := range 6 {
		s.lines(fmt.Sprintf("seen leak%d phase=ready fence=3", i))
	}
	released := func() int {
		return s.count(`SELECT count(DISTINCT object_id) FROM plan_actions WHERE rejected_reason = ''`)
	}
	for i := range 2 {
		s.lines(fmt.Sprintf("due leak%d", i))
	}
	s.pass()
	for range 3 { // the node does not respond
		s.exec(`UPDATE reconcile_due SET due_at = now(), previous_until = now()`)
		s.pass()
	}
	if n, asked := released(), s.count(`SELECT count(*) FROM plan_actions WHERE rejected_reason = ''`); n != 2 || asked != 8 {
		t.Errorf("%d released, requested %d times", n, asked)
	}
	for i := 2; i < 6; i++ {
		s.lines(fmt.Sprintf("due leak%d", i))
	}
	s.pass()
	if n := released(); n != 2 || s.count(`SELECT count(*) FROM reconcile_due`) != 6 {
		t.Errorf("%d released; due\n%s", n, s.remains())
	}
	s.exec(`UPDATE plans SET created_at = created_at - interval '11 minutes'`)
	s.exec(`DELETE FROM reconcile_due WHERE object_id IN (SELECT object_id FROM plan_actions WHERE rejected_reason = '')`) // the node has responded
	s.exec(`UPDATE reconcile_due SET due_at = now(), previous_until = now()`)
	s.pass()
	// The choice of objects is not fixed: unanswered ones are requested again as well.
	if n := s.count(`SELECT count(*) FROM plan_actions a JOIN plans p ON p.id = a.plan_id WHERE a.rejected_reason = '' AND p.created_at > now() - interval '1 minute'`); n != 2 {
		t.Errorf("%d released in the next period", n)
	}
}

// INV-62 with two loops that count at once.
func TestINV62BreakerForAllLoops(t *testing.T) {
	t.Parallel()
	s := newScene(t, pgtest.Clone(t))
	s.line("node n1")
	for i := range 4 {
		s.lines(fmt.Sprintf("seen leak%d phase=ready fence=3", i))
	}
	var both sync.WaitGroup
	for half := range 2 {
		both.Go(func() {
			err := pgx.BeginFunc(t.Context(), s.db, func(tx pgx.Tx) error {
				due := []dueRow{}
				for i := range 2 {
					due = append(due, dueRow{Kind: desired.KindAllocation, Object: s.fixed(fmt.Sprintf("leak%d", 2*half+i))})
				}
				_, err := s.planAndStore(t.Context(), tx, due, s.limits)
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if n := s.count(`SELECT count(*) FROM plan_actions WHERE rejected_reason = ''`); n != 2 {
		t.Errorf("%d released", n)
	}
}

// A disabled loop processes nothing. After it is enabled, all objects are still due.
func TestSwitchedOff(t *testing.T) {
	t.Parallel()
	s := newScene(t, pgtest.Tx(t))
	s.lines("declare x kind=SKU\ndue x kind=SKU")
	s.limits.Enabled = false
	diff := pgtest.Diff(t, s.db)
	var sweep sweep
	if n, err := s.pass(), s.sweepAll(&sweep); n != 0 || err != nil || diff() != "" {
		t.Errorf("took %d, %v\n%s", n, err, diff())
	}
	s.limits.Enabled = true
	if s.pass() != 1 {
		t.Error("it is lost")
	}
}

// A pass that fails leaves all as it was, and due.
func TestFailedPassLosesNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t, pgtest.Clone(t))
	s.Metrics = NewMetrics()
	s.lines("declare x kind=SKU\ndue x kind=SKU")
	s.exec(`ALTER TABLE river.river_job RENAME TO away`)
	diff := pgtest.Diff(t, s.db)
	if _, err := s.Pass(t.Context()); err == nil || diff() != "" {
		t.Errorf("%v\n%s", err, diff())
	}
	s.exec(`ALTER TABLE river.away RENAME TO river_job`)
	if s.pass() != 1 || s.count(`SELECT count(*) FROM river.river_job`) != 1 {
		t.Error("it was not planned again")
	}
	s.lines("declare y kind=SKU\ncarried y kind=SKU\ndue y kind=SKU")
	s.pass()
	if got := s.measured(); got != "SKU changed 1, SKU error 1, SKU unchanged 1" {
		t.Error("measured", got)
	}
}

// measured lists the measured passes.
func (s *scene) measured() string {
	s.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s.Metrics)
	families, err := registry.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	var all []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "gpuaas_reconcile_duration_seconds" {
				all = append(all, fmt.Sprintf("%s %s %d", m.GetLabel()[0].GetValue(), m.GetLabel()[1].GetValue(), m.GetHistogram().GetSampleCount()))
			}
		}
	}
	return strings.Join(all, ", ")
}

// INV-21: a completed job does not prevent the next request of the same action, an unfinished one
// does.
func TestINV21RequestedAgain(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]int{"available": 1, "running": 1, "retryable": 1, "completed": 2, "cancelled": 2, "discarded": 2} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, pgtest.Tx(t))
			s.lines("node n1\ndeclare a\nstate a requested\ndue a")
			s.pass()
			s.exec(`UPDATE river.river_job SET state = $1::text::river.river_job_state, attempted_at = now(), finalized_at = CASE WHEN $1::text IN ('completed', 'cancelled', 'discarded') THEN now() END`, state)
			s.exec(`UPDATE reconcile_due SET due_at = now(), previous_until = now()`)
			s.pass()
			if n := s.count(`SELECT count(*) FROM river.river_job`); n != want {
				t.Errorf("%d jobs, want %d", n, want)
			}
		})
	}
}

// Run works off what is due when it is hinted at, and ends with its context.
func TestRun(t *testing.T) {
	t.Parallel()
	s := newScene(t, pgtest.Clone(t))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	s.lines("declare x kind=SKU\ndue x kind=SKU")
	for until := time.Now().Add(5 * time.Second); s.count(`SELECT count(*) FROM river.river_job`) == 0; s.Hints.Send(desired.HintDue) {
		if time.Now().After(until) {
			t.Fatal("nothing was planned")
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The history lists plans with their reasons, newest first.
func TestHistory(t *testing.T) {
	t.Parallel()
	s := newScene(t, pgtest.Tx(t))
	h := &History{DB: s.db}
	s.lines("node n1\ndeclare a\nstate a active\nseen a phase=broken message=keys:_2,_expected_1\ndue a\ndeclare x kind=SKU")
	s.pass()
	s.line("due x kind=SKU")
	s.pass()
	plans, err := h.Plans(t.Context(), "", ids.Plan{}, 10)
	if err != nil || len(plans) != 2 || plans[0].Actions != 1 || plans[0].Status != "applied" {
		t.Fatalf("%+v, %v", plans, err)
	}
	older, err := h.Plans(t.Context(), "", plans[0].ID, 10)
	if err != nil || len(older) != 1 || older[0].ID != plans[1].ID {
		t.Errorf("%+v, %v", older, err)
	}
	p, actions, err := h.Plan(t.Context(), older[0].ID)
	if err != nil || p != older[0] || len(actions) != 1 || actions[0].Reason != "drifted: keys: 2, expected 1" || actions[0].Node == nil || *actions[0].Node != s.id("n1") {
		t.Errorf("%+v %+v, %v", p, actions, err)
	}
	if of, err := h.Of(t.Context(), s.id("a"), 10); err != nil || len(of) != 1 || of[0].Reason != actions[0].Reason {
		t.Errorf("%+v, %v", of, err)
	}
	if drift, err := h.DriftOf(t.Context(), s.id("a"), 10); err != nil || len(drift) != 1 || drift[0].Status != "open" || drift[0].Field != "keys" {
		t.Errorf("%+v, %v", drift, err)
	}
	if _, _, err := h.Plan(t.Context(), ids.New[ids.Plan]()); errs.CodeOf(err) != errs.NotFound {
		t.Error(err)
	}
	s.exec(`UPDATE reconcile_due SET due_at = now() - interval '5 s' WHERE kind = 'SKU'`)
	load, err := h.Load(t.Context())
	if err != nil || len(load) != 2 || load[0].Drifting != 1 || load[1].Due != 1 || load[1].OldestFor != 5*time.Second {
		t.Errorf("%+v, %v", load, err)
	}
}

// INV-16: drift that causes no action is recorded and left unchanged: warned, ignored, suspended,
// and hardware that needs manual work.
func TestINV16IdleWithDrift(t *testing.T) {
	t.Parallel()
	s := newScene(t, pgtest.Clone(t))
	s.lines("node n1\nrule SKU warn\nnode bare shows=H100:a\ndeclare bare kind=Node gpus=2\ncarried bare kind=Node\ndue bare kind=Node")
	for name, words := range map[string]string{"warned": "drift=warn", "ignored": "drift=ignore", "field": "ignore=/,owner=ada,until=1h", "suspended": "suspended=1h", "forever": "suspended="} {
		s.lines("declare " + name + " " + words + "\nstate " + name + " active expires=1h price=5\nseen " + name + " phase=broken message=keys:_2,_expected_1\ndue " + name)
	}
	s.lines("declare person\nstate person active\nseen person phase=broken message=keys:_2,_expected_1\ndrift person ignored=user:ada until=1h\ndue person")
	s.lines("declare sku kind=SKU\ncarried sku kind=SKU\ndrift sku kind=SKU field=spec.active\ndue sku kind=SKU\ndeclare halted kind=SKU generation=2 suspended=1h\ncarried halted kind=SKU\ndue halted kind=SKU")
	s.pass()
	if plans, open := s.count(`SELECT count(*) FROM plans`), s.count(`SELECT count(*) FROM drift WHERE status <> 'healed'`); plans != 0 || open != 8 {
		t.Fatalf("%d plans, %d are open\n%s%s", plans, open, s.plan(), s.drifts())
	}
	rest := pgtest.Diff(t, s.db, pgtest.Also("river.river_job"))
	var sweep sweep
	for range 20 {
		if err := s.sweepAll(&sweep); err != nil {
			t.Fatal(err)
		}
		s.pass()
	}
	if left := rest(); left != "" {
		t.Errorf("wrote\n%s", left)
	}
}

// INV-62: the limit applies to many passes and two loops together, and is reset after the period.
func TestINV62NodesOverPasses(t *testing.T) {
	t.Parallel()
	s := newScene(t, pgtest.Clone(t))
	s.limits.MassNodes, s.limits.MassPercent = 2, 5
	for n := range strings.FieldsSeq("n1 n2 n3 n4 n5 n6") {
		s.lines("node " + n + "\ndeclare " + n + " kind=Node generation=2 by=git source=fleet commit=c1 cordoned\ncarried " + n + " kind=Node")
	}
	const let = `SELECT count(DISTINCT object_id) FROM plan_actions WHERE rejected_reason = ''`
	for n := range strings.FieldsSeq("n1 n2 n3 n4 n5 n6") {
		s.exec(`INSERT INTO reconcile_due (kind, object_id, due_at, reason) VALUES ('Node', $1, now(), 'marked')`, s.id(n))
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if _, err := s.Pass(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
	}
	if got := s.count(let); got != 2 {
		t.Errorf("%d nodes went off the market", got)
	}
	s.exec(`UPDATE nodes SET spec = spec || '{"cordoned": true}' WHERE id IN (SELECT object_id FROM plan_actions WHERE rejected_reason = '')`)
	s.exec(`UPDATE plans SET created_at = created_at - interval '11 min'`)
	s.exec(`UPDATE reconcile_due SET due_at = now(), previous_until = now()`)
	s.pass()
	if got := s.count(let); got != 4 {
		t.Errorf("%d nodes, a period later", got)
	}
}

// sweepAll is a step after more time than a whole sweep needs.
func (s *scene) sweepAll(sweep *sweep) error {
	if sweep.last.IsZero() {
		sweep.last = time.Unix(0, 0)
	}
	return s.step(s.t.Context(), sweep, sweep.last.Add(24*time.Hour))
}

// TestSweepLastsItsPeriod: 20 objects in 300 s are one object each 15 s, also if steps are late.
func TestSweepLastsItsPeriod(t *testing.T) {
	t.Parallel()
	s := newScene(t, pgtest.Clone(t))
	for i := range 20 {
		s.exec(`INSERT INTO desired_objects (uid, kind, name, spec, spec_hash, owner) VALUES (gen_random_uuid(), 'Node', $1, '{}', '', 'api')`, fmt.Sprint("n", i))
	}
	var w sweep
	start, swept, steps := time.Unix(1_000_000, 0), 0, 0
	for at := start; at.Sub(start) <= 300*time.Second; at = at.Add(time.Duration(1+steps%3) * time.Second) {
		keys, err := w.next(t.Context(), s.Loop, 300*time.Second, at)
		if err != nil {
			t.Fatal(err)
		}
		swept, steps = swept+len(keys), steps+1
	}
	if swept < 19 || swept > 20 {
		t.Errorf("swept %d of 20 objects in %d steps of one period", swept, steps)
	}
}
