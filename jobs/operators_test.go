package jobs_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
	"github.com/gpuaas/gpuaas/product/allocation/manage"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/protocol"
)

// The job of a reset sends its node one task for the GPU, which the node may only reset while it is idle.
func TestAResetBecomesATaskOfTheNode(t *testing.T) {
	t.Parallel()
	b := setup(t)
	gpu := allocationtest.GPU(b.node, 1)
	b.done(fleet.ResetGPU{Node: b.node, GPU: gpu})
	e, _ := b.pendingTask()
	var p protocol.GPUResetParams
	must(t, json.Unmarshal(e.Params, &p))
	if e.Type != protocol.GPUReset || p.GPU != gpu || !p.ExpectIdle || !slices.Equal(e.Slots, []string{gpu}) {
		t.Errorf("%+v %+v", e, p)
	}
	// A reset of another GPU waits for the first one, and is not lost.
	_, err := b.client.Insert(t.Context(), fleet.ResetGPU{Node: b.node, GPU: allocationtest.GPU(b.node, 2)}, nil)
	must(t, err)
	tasks := func() int { return b.count(`SELECT count(*) FROM node_tasks WHERE type = 'node.gpu_reset'`) }
	eventually := func(what string, is func() bool) {
		t.Helper()
		for until := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatal(what)
			}
		}
	}
	eventually("the second reset does not wait", func() bool {
		return b.count(`SELECT count(*) FROM river.river_job WHERE kind = 'reset_gpu' AND scheduled_at > created_at + interval '1 second'`) == 1
	})
	if n := tasks(); n != 1 {
		t.Errorf("%d tasks at once", n)
	}
	b.ends(e, protocol.Succeeded)
	eventually("the second reset does not follow", func() bool { return tasks() == 2 })
}

// The job of a confirmed fault credits the charges since the report, once.
func TestAConfirmedFaultIsCredited(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.deps.Managed.Service = b.Allocations
	a, _, now := b.used()
	report := uuid.New()
	b.exec(`INSERT INTO fault_reports (id, allocation_id, org_id, node_id, gpu, message, reported_by, reported_at, status, decided_by, decided_at)
		VALUES ($1, $2, $3, $4, '', 'wrong sums', 'user:x', to_timestamp($5::bigint), 'open', '', NULL)`, report, a.ID, a.Tenant, b.node, now-600)
	b.done(manage.CreditFault{Report: report})
	if got := b.credits(now); got != "" {
		t.Errorf("an open report is credited: %s", got)
	}
	b.exec(`UPDATE fault_reports SET status = 'confirmed', decided_by = 'user:y', decided_at = to_timestamp($1::bigint)`, now)
	b.done(manage.CreditFault{Report: report})
	b.done(manage.CreditFault{Report: report})
	if got := b.credits(now); got != "-600..0 node_unhealthy 84" { // 2 GPUs × 2.50 € × 10 min
		t.Errorf("credited: %s", got)
	}
	b.work(manage.CreditFault{Report: uuid.New()}) // no such report
	if n := b.count(`SELECT count(*) FROM river.river_job WHERE kind = 'credit_fault' AND state = 'cancelled'`); n != 1 {
		t.Error("a report that does not exist is tried again")
	}
}

// The job after an inspection ends the allocation once no slot is left to it, and not before.
func TestAnInspectedAllocationEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.Releasing(t, 2)
	b.Move(t, a.ID, func(tx pgx.Tx, a allocation.Allocation) error {
		return b.Allocations.Exhaust(t.Context(), tx, a, 5, "no proof")
	})
	b.done(manage.ConcludeAllocation{Allocation: a.ID})
	if got := b.state(a); got != allocation.ReleaseFailed {
		t.Errorf("with its slots it is %s", got)
	}
	b.exec(`UPDATE slot_claims SET period = tstzrange(lower(period), now()) WHERE allocation_id = $1`, a.ID)
	b.done(manage.ConcludeAllocation{Allocation: a.ID})
	b.done(manage.ConcludeAllocation{Allocation: a.ID})
	if got := b.state(a); got != allocation.Released {
		t.Errorf("without slots it is %s", got)
	}
	if n := b.count(`SELECT count(*) FROM desired_objects WHERE uid = $1`, a.ID); n != 0 {
		t.Error("its desired object is still there")
	}
	if n := b.count(`SELECT count(*) FROM outbox_events WHERE subject = 'provisioning.releasing.completed'`); n != 1 {
		t.Errorf("%d events of its end", n)
	}
	b.work(manage.ConcludeAllocation{Allocation: ids.New[ids.Allocation]()})
}
