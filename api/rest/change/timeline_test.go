package change_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/api/rest/change"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
	"github.com/gpuaas/gpuaas/reconciler"
	"github.com/gpuaas/gpuaas/services"
)

// timelineOf is the timeline with the rights of the API.
func timelineOf(w *allocationtest.Fixture, db pg.Pool, queue *river.Client[pgx.Tx]) change.Timeline {
	return change.Timeline{Tasks: &nodetask.Store{DB: db}, Services: &services.Services{
		DB: db, Queue: queue, Desired: &revision.Store{Store: &desired.Store{DB: db, Hints: w.Hints}}, Observed: &observed.Store{DB: db}, Audit: &audit.Service{DB: db},
		History: &reconciler.History{DB: db},
	}}
}

// The timeline has the whole way of an allocation and of a node, with the rights of
// the API and an operator's scope.
func TestTrace(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, 1000)
	node := w.Node(t, "node-1", 2)
	a := w.Active(t, 1)
	db := pgtest.Scoped(t, w.DB)
	queue, err := jobs.NewClient(db.Pool, nil, slog.New(slog.DiscardHandler))
	must(t, err)
	exec := func(sql string, args ...any) {
		t.Helper()
		_, err := w.DB.Exec(t.Context(), sql, args...)
		must(t, err)
	}
	plan := ids.New[ids.Plan]()
	exec(`INSERT INTO plans (id, hash, actions, created_at) VALUES ($1, 'h', 1, now() + interval '1 s')`, plan)
	exec(`INSERT INTO plan_actions (plan_id, number, kind, object_id, verb, fence, generation, epoch, reason) VALUES ($1, 0, 'Allocation', $2, 'ensure', 1, 1, 0, 'never reported')`, plan, a.ID)
	job, err := queue.Insert(pg.WithScope(t.Context(), pg.Platform), reconciler.EnsureAllocation{Allocation: a.ID, Reason: "never reported"}, nil)
	must(t, err)
	exec(`UPDATE river.river_job SET created_at = now() + interval '2 s' WHERE id = $1`, job.Job.ID)
	exec(`INSERT INTO node_tasks (id, node_id, allocation_id, type, fence, generation, attempt, body, signature, status, step, code, message, created_at, expires_at)
		VALUES (gen_random_uuid(), $1, $2, 'allocation.provision_user', 1, 1, 1, '\x', '\x', 'failed', 'scrub', 'scrub_failed', 'no answer', now() + interval '3 s', now())`, node, a.ID)
	exec(`INSERT INTO observed_allocations (allocation_id, node_id, phase, fence, observed_generation, spec_hash, message, observed_at) VALUES ($1, $2, 'broken', 1, 1, 'h', 'keys: 2, expected 1', now() + interval '4 s')
		ON CONFLICT (allocation_id, node_id) DO UPDATE SET phase = excluded.phase, message = excluded.message, observed_at = excluded.observed_at`, a.ID, node)
	exec(`INSERT INTO drift (kind, object_id, field, desired, observed, cause, opened_at) VALUES ('Allocation', $1, 'keys', '1', '2', 'changed on the node', now() + interval '5 s')`, a.ID)

	tracer := timelineOf(w, db, queue)
	operator := pg.WithScope(t.Context(), pg.Platform)
	o, steps, err := tracer.Trace(operator, desired.KindAllocation, a.Project.String(), a.Name)
	must(t, err)
	var stages []string
	text := ""
	for _, step := range steps {
		stages = append(stages, step.Stage)
		text += step.Stage + " " + step.State + ": " + step.Text + "\n"
	}
	if o.UID.UUID != a.ID.UUID || !slices.Equal(slices.Compact(stages), []string{"request", "desired", "plan", "job", "task", "observed", "drift"}) {
		t.Errorf("told\n%s", text)
	}
	for _, want := range []string{
		"request allocation.create: user:", "desired declared: generation 1, through the API", "plan asked: ensure generation 1: never reported", "job available: ensure_allocation: never reported",
		"task failed: allocation.provision_user at fence 1, attempt 1, to node " + node.String() + "; scrub scrub_failed: no answer",
		"observed broken: the node reports broken at fence 1, generation 1: keys: 2, expected 1", "drift open: keys is 2, not 1: changed on the node",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
}

// A released allocation has a timeline, until it is removed.
func TestTraceOfARelease(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, 1000)
	w.Node(t, "node-1", 2)
	a := w.Active(t, 1)
	_, err := w.DB.Exec(t.Context(), `UPDATE desired_objects SET deleted_at = now() WHERE uid = $1`, a.ID)
	must(t, err)
	db := pgtest.Scoped(t, w.DB)
	queue, err := jobs.NewClient(db.Pool, nil, slog.New(slog.DiscardHandler))
	must(t, err)
	tracer := timelineOf(w, db, queue)
	o, _, err := tracer.Trace(pg.WithScope(t.Context(), pg.Platform), desired.KindAllocation, a.Project.String(), a.Name)
	if err != nil || o.UID.UUID != a.ID.UUID {
		t.Errorf("%+v, %v", o, err)
	}
}

// The part that Git has in it, and what a node itself reports.
func TestTraceOfANode(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, 1000)
	db := pgtest.Scoped(t, w.DB)
	queue, err := jobs.NewClient(db.Pool, nil, slog.New(slog.DiscardHandler))
	must(t, err)
	_, err = (&revision.Store{Store: w.Desired}).Apply(t.Context(), revision.Snapshot{Source: "fleet", Repository: "r", Commit: "c1", TreeHash: "t", Meta: revision.Meta{Author: "Ada", Message: "add n7"}, Objects: []desired.Object{{
		Kind: desired.KindNode, Name: "n7", Spec: []byte(`{"gpus":2}`), Source: desired.Source{Owner: desired.OwnerGit, Repository: "r", Commit: "c1", Path: "nodes.cue", Line: 7, Column: 2},
	}}}, nil)
	must(t, err)
	n, err := w.Desired.Get(t.Context(), desired.KindNode, "", "n7")
	must(t, err)
	for _, sql := range []string{
		`INSERT INTO observed_objects (uid, kind, generation, spec_hash, observed_at) VALUES ($1, 'Node', 1, 'h', now() + interval '1 s')`,
		`INSERT INTO observed_nodes (node_id, boot, boot_id, sequence, complete, agent, capability, inventory, content_hash, observed_at, stale_at)
			VALUES ($1, 1, 'b', 1, true, '1.2', 1, '{"gpus":[{},{}]}', 'h', now() + interval '2 s', now())`,
		`INSERT INTO node_tasks (id, node_id, type, fence, generation, attempt, body, signature, status, expires_at) VALUES (gen_random_uuid(), $1, 'node.probe', 0, 0, 1, '\x', '\x', 'queued', now())`,
	} {
		_, err := w.DB.Exec(t.Context(), sql, n.UID)
		must(t, err)
	}
	tracer := timelineOf(w, db, queue)
	_, steps, err := tracer.Trace(pg.WithScope(t.Context(), pg.Platform), desired.KindNode, "", "n7")
	must(t, err)
	text := ""
	for _, step := range steps {
		text += step.Stage + " " + step.State + ": " + step.Text + "\n"
	}
	for _, want := range []string{
		"desired applied: generation 1, at nodes.cue:7:2, by revision 1 of Ada: add n7", "observed carried_out: generation 1 is applied", "observed whole: it reports 2 GPUs, by agent 1.2", "task queued: node.probe",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
