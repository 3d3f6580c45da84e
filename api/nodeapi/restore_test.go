package nodeapi_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/api/nodeapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/platform/restore"
	"github.com/gpuaas/gpuaas/protocol"
)

// INV-63: a restored database has lost the certificate of a node and one of its allocations. The node reports nevertheless, before the
// confirmation and after it, and gets no task before it.
func TestINV63ANodeReportsToARestoredDatabase(t *testing.T) {
	t.Parallel()
	i := setupIntake(t)
	i.Metrics = nodeapi.NewMetrics()
	i.Restore = &restore.Gate{DB: i.DB}
	i.must(i.report(i.node, 1, "GPU-1"))
	i.exec(`INSERT INTO certificates (serial, node_id, status, not_after) VALUES ('0a', '` + i.node.String() + `', 'active', now() + interval '1 hour')`)
	i.do(func(tx pgx.Tx) error {
		return i.Tasks.Put(t.Context(), tx, nodetask.Task{Node: i.node, Type: protocol.Probe, Params: protocol.ProbeParams{}})
	})
	released, lost := i.place("GPU-1"), ids.New[ids.Allocation]()
	said := []protocol.AllocationReport{{Allocation: released, Phase: protocol.Gone, Fence: 2}, {Allocation: lost, Phase: protocol.Ready, Fence: 1}}
	if err := i.report(i.node, 2, "GPU-1", said...); errs.CodeOf(err) != errs.ValidationError {
		t.Errorf("more allocations than slots, without a restore: %v", err)
	}
	if err := i.Check(t.Context(), i.node, "0b"); errs.CodeOf(err) != errs.CertificateRevoked {
		t.Errorf("an unknown certificate without a restore: %v", err)
	}

	i.exec(`INSERT INTO restores (id, restored_to, by) VALUES (gen_random_uuid(), now(), 'ada')`)
	i.must(i.Restore.Refresh(t.Context()))
	i.must(i.report(i.node, 3, "GPU-1", said...))
	if n := i.count(`SELECT count(*) FROM restore_reports WHERE complete AND jsonb_array_length(allocations) = 2`); n != 1 {
		t.Error("the report is not stored for the comparison")
	}
	if n := i.count(`SELECT count(*) FROM observed_allocations WHERE allocation_id = '` + lost.String() + `'`); n != 0 {
		t.Error("the loop sees an allocation that it would release")
	}
	i.must(i.Check(t.Context(), i.node, "0b"))
	if _, err := i.Enrol(t.Context(), nodeapi.Enrolment{Token: "spent in the lost time"}, nil); errs.CodeOf(err) != errs.Unavailable {
		t.Errorf("an enrolment: %v", err)
	}
	for _, serial := range []string{"0c", "0d"} {
		i.exec(`INSERT INTO certificates (serial, node_id, status, not_after) VALUES ('0c', '` + i.node.String() + `', 'revoked', now() + interval '1 hour') ON CONFLICT DO NOTHING`)
		node := i.node
		if serial == "0d" {
			node = i.second() // never enrolled
		}
		if err := i.Check(t.Context(), node, serial); errs.CodeOf(err) != errs.CertificateRevoked {
			t.Errorf("%s: %v", serial, err)
		}
	}
	if tasks, err := i.Next(t.Context(), i.node); err != nil || len(tasks) != 0 {
		t.Errorf("tasks: %v, %v", tasks, err)
	}

	i.do(func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		open := i.Restore.Restore()
		restore.QueueUnknown(b, open.ID, restore.Difference{NodeID: i.node, Allocation: &lost.UUID, Fence: 1})
		restore.QueueConfirm(b, "ada", []byte(`{}`))
		return tx.SendBatch(t.Context(), b).Close()
	})
	i.must(i.Restore.Refresh(t.Context()))
	i.must(i.report(i.node, 4, "GPU-1", said...))
	if tasks, err := i.Next(t.Context(), i.node); err != nil || len(tasks) != 1 {
		t.Errorf("tasks after the confirmation: %v, %v", tasks, err)
	}
	invented := append(said, protocol.AllocationReport{Allocation: ids.New[ids.Allocation](), Phase: protocol.Ready, Fence: 1}) //nolint:gocritic // another list
	if err := i.report(i.node, 5, "GPU-1", invented...); errs.CodeOf(err) != errs.ValidationError {
		t.Errorf("an allocation that is not recorded: %v", err)
	}
}
