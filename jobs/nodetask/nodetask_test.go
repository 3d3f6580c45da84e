package nodetask_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/protocol"
)

const gpu = "GPU-00000001-0001-7000-8000-000000000001"

type bundle struct {
	*nodetask.Store

	t    *testing.T
	db   *pgxpool.Pool
	keys secret.Signer
	node ids.Node
	a    ids.Allocation
}

func setup(t *testing.T) *bundle {
	t.Helper()
	db := pgtest.Clone(t)
	keys, err := secret.OpenSigner(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &bundle{
		&nodetask.Store{DB: db, Signer: keys, Hints: &hint.Bus{}},
		t, db, keys, ids.New[ids.Node](), ids.New[ids.Allocation](),
	}
}

func (b *bundle) task(fence int64) nodetask.Task {
	return nodetask.Task{
		Node: b.node, Allocation: b.a, Type: protocol.ProvisionUser, Fence: fence, Generation: fence, SpecHash: "h", Slots: []string{gpu},
		Params: protocol.ProvisionUserParams{User: "u1", UID: 200001, PublicKeys: []string{}, GPUs: []string{gpu}},
	}
}

func (b *bundle) put(o nodetask.Task) error {
	return pgx.BeginFunc(b.t.Context(), b.db, func(tx pgx.Tx) error { return b.Put(b.t.Context(), tx, o) })
}

func (b *bundle) mustPut(o nodetask.Task) {
	b.t.Helper()
	if err := b.put(o); err != nil {
		b.t.Fatal(err)
	}
}

// next returns the pending task after the node has verified it.
func (b *bundle) next() (protocol.Envelope, bool) {
	b.t.Helper()
	taken, err := b.Next(b.t.Context(), b.node)
	signed, ok := taken[b.node]
	if err != nil || !ok {
		if err != nil {
			b.t.Fatal(err)
		}
		return protocol.Envelope{}, false
	}
	env, err := protocol.Open(signed, b.keys.Public())
	if err != nil {
		b.t.Fatalf("the node rejects it: %v", err)
	}
	if _, err := env.AllocationParams(); err != nil {
		b.t.Fatalf("the node rejects the parameters: %v", err)
	}
	return env, true
}

func (b *bundle) newestTask() protocol.Envelope {
	b.t.Helper()
	env, ok := b.next()
	if !ok {
		b.t.Fatal("the mailbox is empty")
	}
	return env
}

func (b *bundle) finish(node ids.Node, r protocol.Result) (first bool, err error) {
	err = pgx.BeginFunc(b.t.Context(), b.db, func(tx pgx.Tx) error {
		first, err = b.Finish(b.t.Context(), tx, node, r)
		return err
	})
	return first, err
}

// tasks is the mailbox as "fence.attempt status", in order.
func (b *bundle) tasks() string {
	b.t.Helper()
	rows, err := b.db.Query(b.t.Context(), `SELECT fence || '.' || attempt || ' ' || status FROM node_tasks ORDER BY created_at, id`)
	if err != nil {
		b.t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Join(list, ", ")
}

// age lets time go by for what is in the mailbox.
func (b *bundle) age(d time.Duration) {
	b.t.Helper()
	if _, err := b.db.Exec(b.t.Context(), `UPDATE node_tasks SET created_at = created_at - $1::interval, delivered_at = delivered_at - $1::interval,
		expires_at = expires_at - $1::interval`, d); err != nil {
		b.t.Fatal(err)
	}
}

// running starts the newest task and lets time pass.
func (b *bundle) running(since time.Duration) {
	b.t.Helper()
	e := b.newestTask()
	if err := b.Step(b.t.Context(), b.node, e.Task, protocol.Progress{Fence: e.Fence, Attempt: e.Attempt, Step: "home", Number: 1, Of: 2}); err != nil {
		b.t.Fatal(err)
	}
	b.age(since)
}

// finished moves the ends of tasks into the past.
func (b *bundle) finished(ago time.Duration) {
	b.t.Helper()
	if _, err := b.db.Exec(b.t.Context(), `UPDATE node_tasks SET finished_at = finished_at - $1::interval`, ago); err != nil {
		b.t.Fatal(err)
	}
}

func resultOf(e protocol.Envelope, o protocol.Outcome) protocol.Result {
	return protocol.Result{Task: e.Task, Allocation: e.Allocation, Fence: e.Fence, Attempt: e.Attempt, Generation: e.Generation, Outcome: o}
}

// The envelope names everything that the node must check, and is signed over its
// canonical bytes.
func TestEnvelope(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mustPut(b.task(3))
	e := b.newestTask()
	if e.Node != b.node || e.Allocation != b.a || e.Fence != 3 || e.Generation != 3 || e.Attempt != 1 || e.Type != protocol.ProvisionUser || e.SpecHash != "h" || len(e.Nonce) != 32 {
		t.Errorf("%+v", e)
	}
	if life := e.ExpiresAt.Sub(e.NotBefore); life != 7*time.Minute || e.Fresh(time.Now()) != nil {
		t.Errorf("lives %s: %v", life, e.Fresh(time.Now()))
	}
}

// The result of Put for each state of the mailbox.
func TestPut(t *testing.T) {
	t.Parallel()
	release := func(o nodetask.Task) nodetask.Task {
		o.Type, o.Params = protocol.RevokeUser, protocol.RevokeUserParams{User: "u1", UID: 200001, GPUs: []string{gpu}, Mode: "clear"}
		return o
	}
	done := func(b *bundle) {
		if _, err := b.finish(b.node, resultOf(b.newestTask(), protocol.Succeeded)); err != nil {
			b.t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		before func(*bundle)
		put    func(*bundle) nodetask.Task
		code   errs.Code
		want   string
	}{
		"the same while it waits":      {nil, func(b *bundle) nodetask.Task { return b.task(2) }, "", "2.1 queued"},
		"the same on its way":          {func(b *bundle) { b.newestTask() }, func(b *bundle) nodetask.Task { return b.task(2) }, "", "2.1 delivered"},
		"a newer fence":                {nil, func(b *bundle) nodetask.Task { return b.task(3) }, "", "2.1 superseded, 3.1 queued"},
		"a newer fence, on its way":    {func(b *bundle) { b.newestTask() }, func(b *bundle) nodetask.Task { return release(b.task(3)) }, "", "2.1 superseded, 3.1 queued"},
		"an older fence":               {nil, func(b *bundle) nodetask.Task { return b.task(1) }, errs.TaskSuperseded, "2.1 queued"},
		"an older fence than one done": {done, func(b *bundle) nodetask.Task { return b.task(1) }, errs.TaskSuperseded, "2.1 succeeded"},
		"again after it was done":      {done, func(b *bundle) nodetask.Task { return b.task(2) }, "", "2.1 succeeded, 2.2 queued"},
		"a release once more":          {func(b *bundle) { done(b); b.mustPut(release(b.task(3))); done(b) }, func(b *bundle) nodetask.Task { return release(b.task(3)) }, "", "2.1 succeeded, 3.1 succeeded"},
		"a release without its proof":  {func(b *bundle) { done(b); b.mustPut(release(b.task(3))); done(b); b.finished(time.Minute) }, func(b *bundle) nodetask.Task { return release(b.task(3)) }, "", "2.1 succeeded, 3.1 succeeded, 3.2 queued"},
		"again after it expired":       {func(b *bundle) { b.age(time.Hour) }, func(b *bundle) nodetask.Task { return b.task(2) }, "", "2.1 expired, 2.2 queued"},
		"again while it runs":          {func(b *bundle) { b.running(5 * time.Minute) }, func(b *bundle) nodetask.Task { return b.task(2) }, "", "2.1 running"},
		"again, it ran too long":       {func(b *bundle) { b.running(16 * time.Minute) }, func(b *bundle) nodetask.Task { return b.task(2) }, "", "2.1 expired, 2.2 queued"},
		"a newer fence while it runs":  {func(b *bundle) { b.running(time.Minute) }, func(b *bundle) nodetask.Task { return release(b.task(3)) }, "", "2.1 superseded, 3.1 queued"},
		"a release by another node":    {func(b *bundle) { done(b); b.mustPut(release(b.task(3))); done(b); b.node = ids.New[ids.Node]() }, func(b *bundle) nodetask.Task { return release(b.task(3)) }, "", "2.1 succeeded, 3.1 succeeded, 3.2 queued"},
		"another task at this fence":   {nil, func(b *bundle) nodetask.Task { return release(b.task(2)) }, "", "2.1 expired, 2.2 queued"},
		"for another allocation": {nil, func(b *bundle) nodetask.Task {
			o := b.task(1)
			o.Allocation = ids.New[ids.Allocation]()
			return o
		}, "", "2.1 queued, 1.1 queued"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.mustPut(b.task(2))
			if c.before != nil {
				c.before(b)
			}
			if err := b.put(c.put(b)); errs.CodeOf(err) != c.code {
				t.Error(err)
			}
			if got := b.tasks(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// The fence of a release that nothing declares is above the reported one and all tasks, and stays while the node works.
func TestPutAbove(t *testing.T) {
	t.Parallel()
	done := func(b *bundle) {
		if _, err := b.finish(b.node, resultOf(b.newestTask(), protocol.Succeeded)); err != nil {
			b.t.Fatal(err)
		}
	}
	putAbove := func(b *bundle, reported int64) {
		b.t.Helper()
		o := b.task(reported)
		o.Generation, o.SpecHash = 0, ""
		o.Type, o.Params = protocol.RevokeUser, protocol.RevokeUserParams{User: "u1", UID: 200001, GPUs: []string{gpu}, Mode: "clear"}
		err := pgx.BeginFunc(b.t.Context(), b.db, func(tx pgx.Tx) error { return b.PutAbove(b.t.Context(), tx, o) })
		if err != nil {
			b.t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		before   func(*bundle)
		reported int64
		want     string
	}{
		"no task is stored":                   {func(*bundle) {}, 3, "4.1 queued"},
		"a task that the node never received": {func(b *bundle) { b.mustPut(b.task(7)) }, 3, "7.1 superseded, 8.1 queued"},
		"a release of what was declared": {func(b *bundle) {
			o := b.task(4)
			o.Type, o.Params = protocol.RevokeUser, protocol.RevokeUserParams{User: "u1", UID: 200001, GPUs: []string{gpu}, Mode: "clear"}
			b.mustPut(o)
			done(b)
		}, 4, "4.1 succeeded, 5.1 queued"},
		"the same while it waits":               {func(b *bundle) { putAbove(b, 3) }, 3, "4.1 queued"},
		"the node works on it":                  {func(b *bundle) { putAbove(b, 3); b.running(5 * time.Minute) }, 4, "4.1 running"},
		"it succeeded, the report is older":     {func(b *bundle) { putAbove(b, 3); done(b) }, 3, "4.1 succeeded"},
		"it succeeded without a proof":          {func(b *bundle) { putAbove(b, 3); done(b); b.finished(time.Minute) }, 4, "4.1 succeeded, 4.2 queued"},
		"the node has a newer fence":            {func(b *bundle) { putAbove(b, 3); done(b) }, 6, "4.1 succeeded, 7.1 queued"},
		"a release of another node":             {func(b *bundle) { putAbove(b, 3); b.node = ids.New[ids.Node]() }, 3, "4.1 superseded, 5.1 queued"},
		"it expired before the node fetched it": {func(b *bundle) { putAbove(b, 3); b.age(time.Hour) }, 3, "4.1 expired, 4.2 queued"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			c.before(b)
			putAbove(b, c.reported)
			if got := b.tasks(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// Eight workers that put the same task create one.
func TestPutAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mustPut(b.task(1))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := b.put(b.task(1)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := b.tasks(); got != "1.1 queued" {
		t.Error(got)
	}
}

// A question about the node waits once, and does not pile up while it is away.
func TestProbesDoNotPileUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	probe := nodetask.Task{Node: b.node, Type: protocol.Probe, Params: protocol.ProbeParams{}}
	b.mustPut(probe)
	b.mustPut(probe)
	b.age(time.Hour)
	b.mustPut(probe)
	if got := b.tasks(); got != "0.1 expired, 0.1 queued" {
		t.Error(got)
	}
	if e := b.newestTask(); e.Type != protocol.Probe {
		t.Errorf("%+v", e)
	}
}

// A delivery of which nothing is heard is made again, until something is.
func TestDeliveredAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mustPut(b.task(1))
	first := b.newestTask()
	if _, ok := b.next(); ok {
		t.Error("delivered twice at once")
	}
	b.age(6 * time.Second)
	again := b.newestTask()
	if again.Task != first.Task || again.Nonce != first.Nonce {
		t.Error("the second delivery is another task")
	}
	if err := b.Step(t.Context(), b.node, first.Task, protocol.Progress{Fence: 1, Attempt: 1, Step: "account", Number: 2, Of: 5}); err != nil {
		t.Fatal(err)
	}
	b.age(6 * time.Second)
	if _, ok := b.next(); ok {
		t.Error("delivered though it is at work")
	}
	b.mustPut(b.task(2))
	b.node = ids.New[ids.Node]()
	if _, ok := b.next(); ok {
		t.Error("delivered to another node")
	}
}

// What has expired is not handed out, and the oldest is first.
func TestNextInOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mustPut(b.task(1))
	b.age(time.Hour)
	if _, ok := b.next(); ok {
		t.Error("an expired task was delivered")
	}
	var want []ids.Allocation
	for range 3 {
		b.a = ids.New[ids.Allocation]()
		want = append(want, b.a)
		b.mustPut(b.task(1))
	}
	for i, a := range want {
		if got := b.newestTask().Allocation; got != a {
			t.Errorf("number %d is %s, want %s", i, got, a)
		}
	}
}

// INV-41 and INV-45: a result is accepted once, from the node of the task and for the task. An
// equal result is accepted again without an effect; any other returns task_superseded.
func TestINV45Finish(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*bundle, *protocol.Result)
		node   ids.Node
	}{
		"another node":       {nil, ids.New[ids.Node]()},
		"another task":       {func(_ *bundle, r *protocol.Result) { r.Task = ids.New[ids.Task]() }, ids.Node{}},
		"another fence":      {func(_ *bundle, r *protocol.Result) { r.Fence++ }, ids.Node{}},
		"another attempt":    {func(_ *bundle, r *protocol.Result) { r.Attempt++ }, ids.Node{}},
		"another allocation": {func(_ *bundle, r *protocol.Result) { r.Allocation = ids.New[ids.Allocation]() }, ids.Node{}},
		"no allocation":      {func(_ *bundle, r *protocol.Result) { r.Allocation = ids.Allocation{} }, ids.Node{}},
		"overtaken":          {func(b *bundle, _ *protocol.Result) { b.mustPut(b.task(2)) }, ids.Node{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.mustPut(b.task(1))
			r, node := resultOf(b.newestTask(), protocol.Succeeded), b.node
			if c.change != nil {
				c.change(b, &r)
			}
			if c.node != (ids.Node{}) {
				node = c.node
			}
			diff := pgtest.Diff(t, b.db)
			if _, err := b.finish(node, r); errs.CodeOf(err) != errs.TaskSuperseded || diff() != "" {
				t.Errorf("%v\n%s", err, diff())
			}
			if err := b.Step(t.Context(), node, r.Task, protocol.Progress{Fence: r.Fence, Attempt: r.Attempt}); name != "another allocation" && name != "no allocation" && errs.CodeOf(err) != errs.TaskSuperseded {
				t.Errorf("progress: %v", err)
			}
		})
	}

	b := setup(t)
	b.mustPut(b.task(1))
	r := resultOf(b.newestTask(), protocol.Failed)
	r.Code, r.Message, r.Step = protocol.StepFailed, "no", "account"
	if first, err := b.finish(b.node, r); err != nil || !first {
		t.Errorf("first %v, %v", first, err)
	}
	diff := pgtest.Diff(t, b.db)
	if first, err := b.finish(b.node, r); err != nil || first || diff() != "" {
		t.Errorf("the same again: first %v, %v\n%s", first, err, diff())
	}
	r.Outcome = protocol.Succeeded
	if _, err := b.finish(b.node, r); errs.CodeOf(err) != errs.TaskSuperseded {
		t.Errorf("the other outcome: %v", err)
	}
}

// A parameter that cannot be encoded is our own fault and returns an error before anything is
// written.
func TestPutRejectsWhatItCannotEncode(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := b.task(1)
	o.Params = func() {}
	if err := b.put(o); err == nil || errs.CodeOf(err) != errs.Internal {
		t.Error(err)
	}
}

// away is a signer elsewhere that does not answer.
type away struct{ secret.Signer }

func (away) Sign(context.Context, string, []byte) ([]byte, error) {
	return nil, errs.New(errs.Unavailable, "the signer is away")
}

// A task that cannot be signed is not stored. The job gets the error and retries with the same
// task.
func TestNoTaskWithoutItsSignature(t *testing.T) {
	t.Parallel()
	b := setup(t)
	diff := pgtest.Diff(t, b.db)
	b.Signer = away{b.keys}
	if err := b.put(b.task(1)); errs.CodeOf(err) != errs.Unavailable || diff() != "" {
		t.Errorf("%v\n%s", err, diff())
	}
	b.Signer = b.keys
	b.mustPut(b.task(1))
	if e := b.newestTask(); e.Attempt != 1 {
		t.Errorf("attempt %d", e.Attempt)
	}
}
