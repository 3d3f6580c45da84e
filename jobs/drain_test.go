package jobs_test

import (
	"testing"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/reconciler"
)

// INV-13: applying the deletion of a node with live allocations succeeds: the job completes, the
// node drains, and its allocations stay and may still become active.
func TestINV13DeletionUnderAnAllocationDrains(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.Request(t, 1)
	b.exec(`INSERT INTO desired_objects (uid, kind, name, spec, spec_hash, owner, generation, deleted_at)
		VALUES ($1, 'Node', 'node-1', '{"sku":"h100","region":"eu1","onboarding":"manual","gpus":2}', 'x', 'api', 2, now())`, b.node)
	b.twice(reconciler.ApplyObject{ObjectKind: desired.KindNode, Object: b.node.UUID, Generation: 2, Reason: "no longer desired"})
	if n, _, err := b.Inventory.Node(t.Context(), "node-1"); err != nil || n.Lifecycle != "draining" {
		t.Errorf("the node is %s, %v", n.Lifecycle, err)
	}
	b.done(b.ensure(a))
	if b.state(a) != allocation.Provisioning || b.count(`SELECT count(*) FROM node_tasks`) != 1 {
		t.Errorf("its allocation is %s", b.state(a))
	}
	if n := b.count(`SELECT count(*) FROM observed_objects WHERE uid = $1 AND gone`, b.node); n != 1 {
		t.Error("the loop would repeat the request for ever")
	}
}
