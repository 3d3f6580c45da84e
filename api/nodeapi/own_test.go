package nodeapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuaas/gpuaas/api/nodeapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// second declares another node with one GPU.
func (i *intake) second() ids.Node {
	i.t.Helper()
	node := ids.New[ids.Node]()
	i.do(func(tx pgx.Tx) error {
		return i.Inventory.Declare(i.t.Context(), tx, node, "m", []byte(`{"sku": "h100", "region": "eu1", "onboarding": "manual", "gpus": 1}`))
	})
	return node
}

func (i *intake) report(node ids.Node, sequence int64, gpu string, of ...protocol.AllocationReport) error {
	return i.Report(i.t.Context(), node, protocol.Report{
		Boot: 1, Sequence: sequence, Complete: true, Allocations: of,
		Inventory: protocol.Inventory{GPUs: []protocol.GPU{{UUID: gpu, Model: "H100", Health: protocol.Healthy}}},
	})
}

func (i *intake) must(err error) {
	i.t.Helper()
	if err != nil {
		i.t.Fatal(err)
	}
}

// place claims the slot of a GPU.
func (i *intake) place(gpu string) ids.Allocation {
	i.t.Helper()
	id := ids.New[ids.Allocation]()
	_, err := i.DB.Exec(i.t.Context(), `INSERT INTO slot_claims (slot_id, allocation_id, period) SELECT id, $1, tstzrange(now(), NULL) FROM slots WHERE gpu_uuid = $2`, id, gpu)
	i.must(err)
	return id
}

func (i *intake) rejected(reason string) float64 {
	i.t.Helper()
	var m dto.Metric
	i.must(i.Metrics.WithLabelValues(reason).Write(&m))
	return m.GetCounter().GetValue()
}

// INV-77: a stolen node key reports the allocation of another node, and one that does not exist. Neither
// is stored, and both are counted.
func TestINV77ANodeReportsItsOwnAllocations(t *testing.T) {
	t.Parallel()
	i := setupIntake(t)
	i.Metrics = nodeapi.NewMetrics()
	thief := i.second()
	i.must(i.report(i.node, 1, "GPU-1"))
	i.must(i.report(thief, 1, "GPU-2"))
	victim, own := i.place("GPU-1"), i.place("GPU-2")
	said := func(id ids.Allocation) protocol.AllocationReport {
		return protocol.AllocationReport{Allocation: id, Phase: protocol.Broken, Fence: 9}
	}
	i.must(i.report(thief, 2, "GPU-2", said(victim)))
	i.must(i.report(thief, 3, "GPU-2", said(own)))
	i.must(i.report(thief, 4, "GPU-2", said(ids.New[ids.Allocation]())))
	if all := i.count(`SELECT count(*) FROM observed_allocations`); all != 1 || i.rejected("foreign_allocation") != 2 {
		t.Errorf("%d allocations are stored, want the node's own; %v are counted", all, i.rejected("foreign_allocation"))
	}
	if due := i.count(`SELECT count(*) FROM reconcile_due WHERE object_id = '` + victim.String() + `'`); due != 0 {
		t.Error("the foreign allocation is due")
	}
}

// INV-77: a report with more allocations than slots is rejected as a whole. Allocations that ended on the
// node do not count, because the node reports their proofs for days.
func TestINV77MoreAllocationsThanSlots(t *testing.T) {
	t.Parallel()
	i := setupIntake(t)
	i.Metrics = nodeapi.NewMetrics()
	i.must(i.report(i.node, 1, "GPU-1"))
	own := []protocol.AllocationReport{}
	for range 20 {
		own = append(own, protocol.AllocationReport{Allocation: i.place("GPU-1"), Phase: protocol.Broken, Fence: 1})
		i.exec(`UPDATE slot_claims SET period = tstzrange(lower(period), lower(period) + interval '1 microsecond') WHERE upper_inf(period)`)
	}
	own = append(own, protocol.AllocationReport{Allocation: i.place("GPU-1"), Phase: protocol.Ready, Fence: 1})
	if err := i.report(i.node, 2, "GPU-1", own...); err != nil {
		t.Errorf("past tenants of the slot: %v", err)
	}
	invented := append(own, protocol.AllocationReport{Allocation: ids.New[ids.Allocation](), Phase: protocol.Ready, Fence: 1}) //nolint:gocritic // another list
	err := i.report(i.node, 3, "GPU-1", invented...)
	if errs.CodeOf(err) != errs.ValidationError || !strings.Contains(fmt.Sprint(err), "2 allocations") || i.rejected("too_many_allocations") != 1 {
		t.Errorf("one more than the node has slots: %v", err)
	}
	many := protocol.Report{Boot: 1, Sequence: 4, Complete: true}
	for n := range 257 {
		many.Inventory.GPUs = append(many.Inventory.GPUs, protocol.GPU{Index: n, UUID: fmt.Sprint("GPU-x", n)})
	}
	if err := i.Report(t.Context(), i.node, many); errs.CodeOf(err) != errs.ValidationError || i.rejected("too_many_gpus") != 1 {
		t.Errorf("257 GPUs: %v", err)
	}
}

// INV-77: a stolen node key reports the GPU of another node. The GPU stays with the node that reported it
// first; its slot and the whole second node are out of placement until the second one ceases. The meter
// of the GPU's tenant is not stopped.
func TestINV77AGPUHasOneNode(t *testing.T) {
	t.Parallel()
	i := setupIntake(t)
	i.Metrics = nodeapi.NewMetrics()
	thief := i.second()
	i.must(i.report(i.node, 1, "GPU-1"))
	i.must(i.report(thief, 1, "GPU-2"))
	for round, reported := range []string{"GPU-1", "GPU-2"} {
		i.must(i.report(thief, int64(2+round), reported))
		want := 1 - round
		for what, sql := range map[string]string{
			"the slot is quarantined":     `SELECT count(*) FROM slots WHERE gpu_uuid = 'GPU-1' AND status = 'quarantined'`,
			"the second node is cordoned": `SELECT count(*) FROM nodes n JOIN holds h ON n.id = h.node_id WHERE n.name = 'm' AND h.slot_id IS NULL AND h.lifted_at IS NULL`,
		} {
			if got := i.count(sql); got != want {
				t.Errorf("round %d: %s: %d, want %d", round, what, got, want)
			}
		}
		if n := i.count(`SELECT count(*) FROM gpus g JOIN nodes n ON n.id = g.node_id WHERE g.uuid = 'GPU-1' AND n.name = 'n' AND g.health <> 'unhealthy'`); n != 1 {
			t.Errorf("round %d: the GPU moved or is unhealthy", round)
		}
	}
	if n := i.count(`SELECT count(*) FROM outbox_events WHERE subject = 'fleet.slot_quarantined' AND payload->>'gpu' = 'GPU-1'`); n != 1 {
		t.Errorf("%d events", n)
	}
	if n := i.rejected("gpu_of_another_node"); n != 1 {
		t.Errorf("counted %v times", n)
	}
}
