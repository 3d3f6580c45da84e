package nodeapi_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/api/nodeapi"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/product/nodehealth"
	"github.com/gpuaas/gpuaas/protocol"
)

type intake struct {
	*nodeapi.Intake

	t    *testing.T
	node ids.Node
}

func setupIntake(t *testing.T) *intake {
	t.Helper()
	db, hints := pgtest.Clone(t), &hint.Bus{}
	keys, err := secret.OpenSigner(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	i := &intake{&nodeapi.Intake{
		DB: db, Tasks: &nodetask.Store{DB: db, Signer: keys, Hints: hints}, Observed: &observed.Store{DB: db},
		Inventory: nodehealth.New(db, hints), Certificates: &secret.Certificates{DB: db}, Hints: hints,
		StaleAfter: func(ids.Node) time.Duration { return time.Minute },
	}, t, ids.New[ids.Node]()}
	i.do(func(tx pgx.Tx) error {
		return i.Inventory.Declare(t.Context(), tx, i.node, "n", []byte(`{"sku": "h100", "region": "eu1", "onboarding": "manual", "gpus": 1}`))
	})
	return i
}

func (i *intake) do(do func(pgx.Tx) error) {
	i.t.Helper()
	if err := pgx.BeginFunc(i.t.Context(), i.DB, do); err != nil {
		i.t.Fatal(err)
	}
}

func (i *intake) exec(sql string) {
	i.t.Helper()
	if _, err := i.DB.Exec(i.t.Context(), sql); err != nil {
		i.t.Fatal(err)
	}
}

func (i *intake) count(sql string) (n int) {
	i.t.Helper()
	if err := i.DB.QueryRow(i.t.Context(), sql).Scan(&n); err != nil {
		i.t.Fatal(err)
	}
	return n
}

func (i *intake) ordered(fence int64) protocol.Envelope {
	i.t.Helper()
	i.do(func(tx pgx.Tx) error {
		return i.Tasks.Put(i.t.Context(), tx, nodetask.Task{
			Node: i.node, Allocation: ids.New[ids.Allocation](), Type: protocol.ProvisionUser, Fence: fence, Generation: fence, Params: protocol.ProvisionUserParams{},
		})
	})
	taken, err := i.Next(i.t.Context(), i.node)
	signed, ok := taken[i.node]
	if err != nil || !ok {
		i.t.Fatal("nothing waits", err)
	}
	e, err := protocol.Open(signed, i.Tasks.Signer.(secret.Signer).Public())
	if err != nil {
		i.t.Fatal(err)
	}
	return e
}

// A report reaches all services in one transaction: the observed state, the fleet, and the due set.
// When one of them fails none has it, and the next try is not too late.
func TestReportIsOneCommit(t *testing.T) {
	t.Parallel()
	i := setupIntake(t)
	report := protocol.Report{Boot: 1, Sequence: 1, Complete: true, Inventory: protocol.Inventory{GPUs: []protocol.GPU{{UUID: "GPU-1", Model: "H100", Health: protocol.Healthy}}}}
	i.exec(`ALTER TABLE slots RENAME TO away`)
	diff := pgtest.Diff(t, i.DB)
	if err := i.Report(t.Context(), i.node, report); err == nil || diff() != "" {
		t.Errorf("%v\n%s", err, diff())
	}
	i.exec(`ALTER TABLE away RENAME TO slots`)
	due, stop := i.Hints.Listen(desired.HintDue)
	defer stop()
	if err := i.Report(t.Context(), i.node, report); err != nil {
		t.Fatal(err)
	}
	if seen, slots := i.count(`SELECT count(*) FROM observed_nodes`), i.count(`SELECT count(*) FROM slots WHERE status = 'clean'`); seen != 1 || slots != 1 || len(due) != 1 {
		t.Errorf("%d reports, %d slots, %d hints", seen, slots, len(due))
	}
	report.Sequence = 2
	<-due
	if err := i.Report(t.Context(), i.node, report); err != nil || len(due) != 0 {
		t.Errorf("nothing new hinted %d times, %v", len(due), err)
	}
	if err := i.Report(t.Context(), i.node, report); errs.CodeOf(err) != errs.StaleReport {
		t.Errorf("again: %v", err)
	}
}

// A failure is counted with the result that reports it, once, and only for what the
// task of the node.
func TestResultIsOneCommit(t *testing.T) {
	t.Parallel()
	i := setupIntake(t)
	e := i.ordered(1)
	r := protocol.Result{Task: e.Task, Allocation: e.Allocation, Fence: 1, Attempt: 1, Generation: 1, Outcome: protocol.Failed, Code: protocol.StepFailed, Message: "no"}
	i.exec(`ALTER TABLE observed_allocations RENAME TO away`)
	diff := pgtest.Diff(t, i.DB)
	if err := i.Finish(t.Context(), i.node, r); err == nil || diff() != "" {
		t.Errorf("%v\n%s", err, diff())
	}
	i.exec(`ALTER TABLE away RENAME TO observed_allocations`)
	for range 2 {
		if err := i.Finish(t.Context(), i.node, r); err != nil {
			t.Fatal(err)
		}
	}
	if n := i.count(`SELECT failures FROM observed_allocations`); n != 1 {
		t.Errorf("counted %d times", n)
	}
	foreign := r
	foreign.Allocation = ids.New[ids.Allocation]()
	diff = pgtest.Diff(t, i.DB)
	for name, err := range map[string]error{
		"another node":       i.Finish(t.Context(), ids.New[ids.Node](), r),
		"another allocation": i.Finish(t.Context(), i.node, foreign),
	} {
		if errs.CodeOf(err) != errs.TaskSuperseded || diff() != "" {
			t.Errorf("%s: %v\n%s", name, err, diff())
		}
	}
	e = i.ordered(1)
	if err := i.Finish(t.Context(), i.node, protocol.Result{Task: e.Task, Allocation: e.Allocation, Fence: 1, Attempt: 1, Outcome: protocol.Succeeded}); err != nil || i.count(`SELECT count(*) FROM observed_allocations`) != 1 {
		t.Errorf("a success was counted: %v", err)
	}
}
