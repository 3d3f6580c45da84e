package helper

import (
	"context"
	"reflect"

	"github.com/gpuaas/gpuaas/agent/gpu"
	"github.com/gpuaas/gpuaas/agent/health"
	"github.com/gpuaas/gpuaas/protocol"
)

// topology contains the topology of the last check and the one that the control plane has accepted.
// A report includes the topology only until the control plane has accepted it.
type topology struct{ showing, shown *protocol.Topology }

// show returns the topology if the control plane does not have it.
func (t *topology) show(now *protocol.Topology) *protocol.Topology {
	t.showing = now
	if reflect.DeepEqual(t.showing, t.shown) {
		return nil
	}
	return now
}

func (t *topology) acknowledge() { t.shown = t.showing }

// examine adds the health of the node.
func (l *Local) examine(ctx context.Context, r *protocol.Report, err error) {
	e, ok := l.Driver.(gpu.Examiner)
	if !ok {
		return
	}
	found := e.Examine(ctx, r.Inventory, err)
	r.Health = found.Health
	l.faults.note(found.Health, l.Clock.Now())
	if err == nil {
		health.MergeHealth(r.Inventory.GPUs, r.Health)
	}
	if found.Topology == nil {
		return
	}
	if found.Whole {
		r.Fingerprint = found.Topology.Hardware().Fingerprint()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Topology = l.topology.show(found.Topology)
}
