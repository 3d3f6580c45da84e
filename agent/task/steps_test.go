package task_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/agent/task"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// recorder is a journal, a node and a clock that record every call.
type recorder struct {
	t       *testing.T
	calls   []string
	record  journal.Record
	now     time.Time
	fails   map[string]error // by call
	present []string         // names of steps
	names   []string         // of all steps; nil: first and second
}

func (r *recorder) call(format string, args ...any) error {
	call := fmt.Sprintf(format, args...)
	r.calls = append(r.calls, call)
	return r.fails[call]
}

func (r *recorder) step(name string) step.Step {
	act := func(what string) func(context.Context, step.Host, protocol.AllocationParams) error {
		return func(context.Context, step.Host, protocol.AllocationParams) error { return r.call("%s %s", what, name) }
	}
	return step.Step{
		Name: name, Within: time.Minute, Code: protocol.StepFailed, Do: act("do"), Verify: act("verify"), Undo: act("undo"),
		Check: func(context.Context, step.Host, protocol.AllocationParams) (bool, error) {
			return slices.Contains(r.present, name), r.call("check %s", name)
		},
	}
}

// execution is one of a task of the type with the steps first and second. The record contains earlier tasks.
func (r *recorder) execution(e protocol.Envelope) *task.Execution {
	r.record.Tasks = append(r.record.Tasks, journal.Entry{Envelope: e})
	return &task.Execution{
		Backend: task.Backend{Steps: func(protocol.Type) []step.Step {
			if r.names == nil {
				r.names = []string{"first", "second"}
			}
			steps := make([]step.Step, len(r.names))
			for i, name := range r.names {
				steps[i] = r.step(name)
			}
			return steps
		}},
		Envelope: e, Log: slog.New(slog.DiscardHandler), Clock: clock.At(func() time.Time { return r.now }),
		Record: func() journal.Record { return r.record },
		Begin: func(step string) error {
			r.record.Last().Begun = append(r.record.Last().Begun, step)
			return r.call("begin %s", step)
		},
		At: func(string, time.Duration) {}, Progress: func(string, int, int) {},
		Sign: func(*protocol.Proof) error { return r.call("sign") },
	}
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	return &recorder{t: t, now: noon, fails: map[string]error{}}
}

func (r *recorder) expect(rule string, calls ...string) {
	r.t.Helper()
	if !slices.Equal(r.calls, calls) {
		r.t.Errorf("%s:\n%q\nwant\n%q", rule, r.calls, calls)
	}
}

const gpuB = "GPU-0000aaaa-0000-0000-0000-000000000002"

func envelope(kind protocol.Type) protocol.Envelope {
	e := protocol.Envelope{
		Task: ids.New[ids.Task](), Allocation: ids.New[ids.Allocation](), Slots: []string{gpuB}, Type: kind, Fence: 1,
		ExpiresAt: noon.Add(time.Minute),
	}
	e.Params = map[protocol.Type][]byte{
		protocol.ProvisionUser: []byte(`{"user":"t-1","uid":200001,"public_keys":[],"gpus":["` + gpuB + `"]}`),
		protocol.RotateKeys:    []byte(`{"user":"t-1","uid":200001,"public_keys":[],"gpus":["` + gpuB + `"]}`),
		protocol.RevokeUser:    []byte(`{"user":"t-1","uid":200001,"gpus":["` + gpuB + `"],"mode":"purge"}`),
	}[kind]
	return e
}

// INV-47: the journal has a step before the step acts, and a step that is present does not act.
func TestINV47TheJournalIsFirst(t *testing.T) {
	t.Parallel()

	r := newRecorder(t)
	r.present = []string{"first"}
	found, err := task.Of(protocol.RevokeUser).Run(t.Context(), r.execution(envelope(protocol.RevokeUser)))
	if err != nil || found.Proof == nil || !found.Proof.At.Equal(noon) || found.Proof.UID != 200001 {
		t.Errorf("%+v, %v", found, err)
	}
	r.expect("one step is present", "check first", "check second", "begin second", "do second", "verify second", "sign")

	r = newRecorder(t)
	r.fails["begin first"] = protocol.Reject(protocol.StaleFence, "overtaken")
	if _, err := task.Of(protocol.RevokeUser).Run(t.Context(), r.execution(envelope(protocol.RevokeUser))); protocol.CodeOf(err) != protocol.StaleFence {
		t.Errorf("%v", err)
	}
	r.expect("without the journal nothing acts", "check first", "begin first")
}

// A failed provisioning reverts the steps that it began, the latest first. A release, a rotation and a repair
// revert nothing, and nor does a provisioning that a newer task ended.
func TestOnlyANewProvisioningIsReverted(t *testing.T) {
	t.Parallel()

	failed := []string{"check first", "begin first", "do first", "verify first", "check second", "begin second", "do second"}
	for kind, undone := range map[protocol.Type][]string{
		protocol.ProvisionUser: {"undo second", "undo first"}, protocol.RevokeUser: nil,
	} {
		r := newRecorder(t)
		r.fails["do second"] = errors.New("device broken")
		_, err := task.Of(kind).Run(t.Context(), r.execution(envelope(kind)))
		if at, ok := errors.AsType[*task.StepError](err); !ok || at.Step.Name != "second" {
			t.Errorf("%s: %v", kind, err)
		}
		r.expect(string(kind), append(slices.Clone(failed), undone...)...)
	}

	r := newRecorder(t)
	r.record.Provisioned = true
	r.fails["do second"] = errors.New("device broken")
	if _, err := task.Of(protocol.ProvisionUser).Run(t.Context(), r.execution(envelope(protocol.ProvisionUser))); err == nil {
		t.Error("no error")
	}
	r.expect("a repair", failed...)

	r = newRecorder(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.fails["do second"] = ctx.Err()
	if _, err := task.Of(protocol.ProvisionUser).Run(ctx, r.execution(envelope(protocol.ProvisionUser))); err == nil {
		t.Error("no error")
	}
	r.expect("a newer task", failed...)
}

// A task that expired before it is resumed acts no more, except a release.
func TestResumeAfterTheExpiry(t *testing.T) {
	t.Parallel()

	for kind, expired := range map[protocol.Type]bool{protocol.ProvisionUser: true, protocol.RotateKeys: true, protocol.RevokeUser: false} {
		r := newRecorder(t)
		if kind == protocol.RotateKeys {
			r.execution(envelope(protocol.ProvisionUser))
			r.record.Last().Result = &protocol.Result{Outcome: protocol.Succeeded}
		}
		x := r.execution(envelope(kind))
		r.now = noon.Add(time.Hour)
		_, err := task.Of(kind).Resume(t.Context(), x)
		if acted := slices.Contains(r.calls, "do first"); (protocol.CodeOf(err) == protocol.Expired) != expired || acted == expired {
			t.Errorf("%s: %v, %q", kind, err, r.calls)
		}
	}
}

// A rotation that follows a failed provisioning executes its steps, and one without any is rejected.
func TestARotationNeedsAProvisioning(t *testing.T) {
	t.Parallel()

	rotation := envelope(protocol.RotateKeys)
	rotated := task.Admission{Envelope: rotation}
	if err := task.Of(protocol.RotateKeys).Check(rotated); protocol.CodeOf(err) != protocol.ParamsInvalid {
		t.Errorf("without a provisioning: %v", err)
	}
	provisioned := journal.Record{Tasks: []journal.Entry{{Envelope: envelope(protocol.ProvisionUser), Result: &protocol.Result{Outcome: protocol.Failed}}}}
	rotated.Record = provisioned
	if err := task.Of(protocol.RotateKeys).Check(rotated); err != nil {
		t.Errorf("after one: %v", err)
	}
	if steps := (task.Backend{}).StepsOf(provisioned, protocol.RotateKeys); len(steps) != len(task.Steps(protocol.ProvisionUser)) {
		t.Errorf("%d steps after a failed provisioning", len(steps))
	}
	provisioned.Last().Result.Outcome = protocol.Succeeded
	if steps := (task.Backend{}).StepsOf(provisioned, protocol.RotateKeys); len(steps) != len(task.Steps(protocol.RotateKeys)) {
		t.Errorf("%d steps after a successful provisioning", len(steps))
	}
}

// A rotation also writes the settings: those of an older agent lack the rules of sshd.
// Storage that cannot be mounted fails a new provisioning. An allocation that a tenant has is repaired without it.
func TestARepairGoesOnWithoutStorage(t *testing.T) {
	t.Parallel()
	for _, has := range []bool{false, true} {
		r := newRecorder(t)
		r.names, r.record.Provisioned = []string{"storage", "second"}, has
		r.fails["do storage"] = errors.New("no response")
		_, err := task.Of(protocol.ProvisionUser).Run(t.Context(), r.execution(envelope(protocol.ProvisionUser)))
		if repaired := err == nil && slices.Contains(r.calls, "do second"); repaired != has {
			t.Errorf("a tenant has it %v: %v, %q", has, err, r.calls)
		}
	}
}

func TestARotationWritesTheSettings(t *testing.T) {
	t.Parallel()
	if !slices.ContainsFunc(task.Steps(protocol.RotateKeys), func(s step.Step) bool { return s.Name == step.PutSettings().Name }) {
		t.Error("it does not")
	}
}
