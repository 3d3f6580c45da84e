package runner_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/agent/task"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

func TestProvisionAndRevoke(t *testing.T) {
	t.Parallel()

	b := setup(t)
	id := ids.New[ids.Allocation]()
	result := b.do(b.provision(id, 1, b.gpus[:2]...))
	h := b.simHost()
	switch a := h.Accounts["t-1"]; {
	case result.Outcome != protocol.Succeeded || result.Generation != 1 || result.Proof == nil || len(result.Proof.Leftovers) > 0:
		t.Errorf("%+v", result)
	case a == nil || a.UID != 200001 || len(a.Keys) != 1:
		t.Errorf("account %+v", a)
	case b.reportOf(id).Phase != protocol.Ready:
		t.Errorf("%+v", b.reportOf(id))
	}

	// The tenant works, and leaves files and processes.
	b.edit(func(h *sim.Host) {
		h.Processes = append(h.Processes, sim.Process{PID: 1, UID: 200001, GPU: b.gpus[0], Command: "train"}, sim.Process{PID: 2, UID: 200001, Command: "setsid sleep"})
		h.Files["/tmp/left"] = 200001
	})
	if s := b.reportOf(id); s.Phase != protocol.Ready {
		t.Errorf("the tenant's own work is no drift: %+v", s)
	}
	result = b.do(b.revoke(id, 2, b.gpus[:2]...))
	if result.Outcome != protocol.Succeeded || !result.Proof.Clean(b.gpus[:2]) || result.Proof.Fence != 2 {
		t.Errorf("%+v %+v", result, result.Proof)
	}
	if h = b.simHost(); len(h.Accounts)+len(h.Processes)+len(h.Files) > 0 || h.Scrubs != 2 {
		t.Errorf("left %+v", h)
	}
	if s := b.reportOf(id); s.Phase != protocol.Gone || !s.Proof.Clean(b.gpus[:2]) || s.Fence != 2 {
		t.Errorf("%+v", s)
	}
}

// Releasing what was never there gives the same proof.
func TestRevokeOfTheUnknown(t *testing.T) {
	t.Parallel()

	b := setup(t)
	if r := b.do(b.revoke(ids.New[ids.Allocation](), 3, b.gpus[3])); r.Outcome != protocol.Succeeded || !r.Proof.Clean(b.gpus[3:]) {
		t.Errorf("%+v", r)
	}
}

func TestDriftIsReportedAndHealed(t *testing.T) {
	t.Parallel()

	for way, says := range map[string]string{
		sim.DriftKeys: "keys: 0 login keys open t-1 and 0 of them are unknown, expected 1", sim.DriftAccount: "account: t-1 is missing, expected with uid 200001",
		sim.DriftProcess: "(xmrig) of uid 65534", sim.DriftAccess: "is also open to stranger, expected no other account",
	} {
		b := setup(t)
		id := ids.New[ids.Allocation]()
		b.do(b.provision(id, 1, b.gpus[0]))
		b.edit(func(h *sim.Host) {
			h.Processes = append(h.Processes, sim.Process{PID: 1, UID: 200001, GPU: b.gpus[0], Command: "train"})
		})
		if _, err := sim.Drift(b.dir, way); err != nil {
			t.Fatal(err)
		}
		if s := b.reportOf(id); s.Phase != protocol.Broken || !strings.Contains(s.Message, says) {
			t.Errorf("%s: %+v", way, s)
		}
		again := b.provision(id, 1, b.gpus[0])
		again.Attempt = 2
		if r := b.do(again); r.Outcome != protocol.Succeeded {
			t.Errorf("%s: %+v", way, r)
		}
		h := b.simHost()
		if s := b.reportOf(id); s.Phase != protocol.Ready || len(h.Processes) != 1 || h.Processes[0].Command != "train" || h.Scrubs != 0 {
			t.Errorf("%s: %+v, processes %v, %d scrubs", way, s, h.Processes, h.Scrubs)
		}
	}
}

// Whatever step fails, a provisioning leaves nothing of itself, and names the step.
func TestAFailedStepIsUnwound(t *testing.T) {
	t.Parallel()

	for operation, c := range map[string]struct {
		step string
		code protocol.RejectReason
	}{
		"account": {"account", protocol.StepFailed}, "grant": {"device_access", protocol.StepFailed}, "keys": {"login_keys", protocol.StepFailed},
		"scrub": {"scrub_before", protocol.ScrubFailed}, "look": {"gpu_health", protocol.GPUUnhealthy},
	} {
		b := setup(t)
		id := ids.New[ids.Allocation]()
		b.edit(func(h *sim.Host) {
			h.Fails = map[string]string{operation: "device broken"}
			h.GPUs[0].Dirty, h.GPUs[1].Dirty, h.GPUs[2].Dirty, h.GPUs[3].Dirty = true, true, true, true
		})
		r := b.do(b.provision(id, 1, b.gpus[0]))
		if r.Outcome != protocol.Failed || r.Step != c.step || r.Code != c.code || !strings.Contains(r.Message, "device broken") {
			t.Errorf("%s: %+v", operation, r)
		}
		b.edit(func(h *sim.Host) { h.Fails = nil })
		if h := b.simHost(); len(h.Accounts)+len(h.Files) > 0 {
			t.Errorf("%s: left %v %v", operation, h.Accounts, h.Files)
		}
		if s := b.reportOf(id); s.Phase != protocol.Broken || s.Step != c.step {
			t.Errorf("%s: %+v", operation, s)
		}
	}
}

// A repair that fails undoes nothing: the tenant's home is in it, and its key
// is nowhere else.
func TestAFailedRepairDestroysNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := ids.New[ids.Allocation]()
	if r := b.do(b.provision(id, 1, b.gpus[0])); r.Outcome != protocol.Succeeded {
		t.Fatalf("provision: %+v", r)
	}
	b.edit(func(h *sim.Host) {
		for _, g := range h.GPUs {
			g.Users = nil // the device was removed from outside
		}
		for _, a := range h.Accounts {
			a.Keys = nil
		}
		h.Fails = map[string]string{"keys": "device broken"}
	})
	if r := b.do(b.provision(id, 2, b.gpus[0])); r.Outcome != protocol.Failed || r.Step != "login_keys" {
		t.Fatalf("repair: %+v", r)
	}
	h := b.simHost()
	opened := slices.ContainsFunc(h.GPUs, func(g *sim.GPU) bool { return slices.Equal(g.Users, []string{"t-1"}) })
	if len(h.Accounts) != 1 || len(h.Files) == 0 || !opened {
		t.Errorf("left accounts %v, files %v, the device open: %t", h.Accounts, h.Files, opened)
	}
}

func TestABadGPUIsNotHandedOut(t *testing.T) {
	t.Parallel()

	b := setup(t)
	if err := sim.Fault(b.dir, 0, 119); err != nil {
		t.Fatal(err)
	}
	bad := b.simHost().GPUs[0].UUID
	r := b.do(b.provision(ids.New[ids.Allocation](), 1, bad))
	if r.Code != protocol.GPUUnhealthy || !strings.Contains(r.Message, "xid 119") || len(b.simHost().Accounts) > 0 {
		t.Errorf("%+v", r)
	}
}

// A newer task does not wait for the older one's deadline.
func TestARevokeOvertakesAHangingProvision(t *testing.T) {
	t.Parallel()

	b := setup(t)
	id := ids.New[ids.Allocation]()
	b.edit(func(h *sim.Host) { h.Fails = map[string]string{"grant": "hang"} })
	stuck := b.provision(id, 1, b.gpus[0])
	if a := b.Receive(b.sign(stuck)); a.Rejection != nil {
		t.Fatal(a.Rejection)
	}
	if a := b.Receive(b.sign(stuck)); !a.InHand {
		t.Errorf("%+v", a)
	}
	if s := b.reportOf(id); s.Phase != protocol.Working {
		t.Errorf("%+v", s)
	}
	revoke := b.revoke(id, 2, b.gpus[0])
	if a := b.Receive(b.sign(revoke)); a.Rejection != nil {
		t.Fatal(a.Rejection)
	}
	b.edit(func(h *sim.Host) { h.Fails = nil })
	if r := b.resultOf(revoke); r.Outcome != protocol.Succeeded {
		t.Errorf("%+v", r)
	}
	if r := b.resultOf(stuck); r.Outcome != protocol.Failed {
		t.Errorf("overtaken: %+v", r)
	}
	if s := b.reportOf(id); s.Phase != protocol.Gone || len(b.simHost().Accounts) > 0 {
		t.Errorf("%+v", s)
	}
}

// Different slots do not wait for each other.
func TestSlotsWorkInParallel(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.edit(func(h *sim.Host) { h.Fails = map[string]string{"scrub": "hang"}; h.GPUs[0].Dirty = true })
	dirty, clean := b.simHost().GPUs[0].UUID, b.simHost().GPUs[1].UUID
	if a := b.Receive(b.sign(b.provision(ids.New[ids.Allocation](), 1, dirty))); a.Rejection != nil {
		t.Fatal(a.Rejection)
	}
	other := ids.New[ids.Allocation]()
	e := b.envelope(other, 1, protocol.ProvisionUser, protocol.ProvisionUserParams{User: "t-2", UID: 200002, PublicKeys: []string{}, GPUs: []string{clean}}, []string{clean})
	if r := b.do(e); r.Outcome != protocol.Succeeded {
		t.Errorf("%+v", r)
	}
}

// INV-47: cut off in any operation, a task is resumed to the same end.
func TestINV47ARestartResumes(t *testing.T) {
	t.Parallel()

	for _, operation := range []string{"look", "account", "grant", "keys"} {
		b := setup(t)
		id := ids.New[ids.Allocation]()
		b.edit(func(h *sim.Host) { h.Fails = map[string]string{operation: "hang"} })
		e := b.provision(id, 1, b.gpus[0])
		if a := b.Receive(b.sign(e)); a.Rejection != nil {
			t.Fatal(a.Rejection)
		}
		b.restart()
		if _, ok := b.Journal.Get(id); !ok {
			t.Fatalf("%s: the task is not in the journal", operation)
		}
		b.edit(func(h *sim.Host) { h.Fails = nil })
		b.restart()
		if r := b.resultOf(e); r.Outcome != protocol.Succeeded || b.reportOf(id).Phase != protocol.Ready {
			t.Errorf("%s: %+v", operation, r)
		}
	}
}

// A provisioning that is found again too late is undone; a release goes on.
func TestExpiredWhileInterrupted(t *testing.T) {
	t.Parallel()

	b := setup(t)
	id := ids.New[ids.Allocation]()
	b.edit(func(h *sim.Host) { h.Fails = map[string]string{"keys": "hang"} })
	e := b.provision(id, 1, b.gpus[0])
	if a := b.Receive(b.sign(e)); a.Rejection != nil {
		t.Fatal(a.Rejection)
	}
	// The step before has acted when this one hangs.
	b.until("login_keys", func() bool { return b.reportOf(id).Step == "login_keys" })
	b.stop()
	b.Wait()
	b.now = b.now.Add(time.Hour)
	b.edit(func(h *sim.Host) { h.Fails = nil })
	b.restart()
	if r := b.resultOf(e); r.Code != protocol.Expired {
		t.Errorf("%+v", r)
	}
	if h := b.simHost(); len(h.Accounts) > 0 || len(h.GPUs[0].Users) > 0 {
		t.Errorf("not undone: %+v", h.Accounts)
	}
}

// Undoing twice is undoing once, for every step.
func TestStepsAreLevels(t *testing.T) {
	t.Parallel()

	b := setup(t)
	params, err := b.provision(ids.New[ids.Allocation](), 1, b.gpus[0]).AllocationParams()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []protocol.Type{protocol.ProvisionUser, protocol.RotateKeys, protocol.RevokeUser} {
		for _, step := range task.Steps(kind) {
			for range 2 {
				if step.Do != nil {
					if err := step.Do(t.Context(), b.host, params); err != nil {
						t.Errorf("%s: %v", step.Name, err)
					}
				}
				if step.Verify != nil {
					if err := step.Verify(t.Context(), b.host, params); err != nil {
						t.Errorf("%s: %v", step.Name, err)
					}
				}
			}
			if done, err := step.Check(t.Context(), b.host, params); err != nil || !done && step.Verify != nil && step.Name != "end_sessions" && step.Name != "unmount" {
				t.Errorf("%s: not there after it was done twice: %v", step.Name, err)
			}
		}
	}
	for _, step := range task.Steps(protocol.ProvisionUser) {
		for range 2 {
			if step.Undo == nil {
				continue
			}
			if err := step.Undo(t.Context(), b.host, params); err != nil {
				t.Errorf("undoing %s: %v", step.Name, err)
			}
		}
	}
	if h := b.simHost(); len(h.Accounts) > 0 || len(h.GPUs[0].Users) > 0 {
		t.Errorf("left %+v", h)
	}
}
