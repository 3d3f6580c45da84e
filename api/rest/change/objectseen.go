package change

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/condition"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/reconciler"
	"github.com/gpuaas/gpuaas/services"
)

// ObservedObject is the state of a desired object in the services. A nil field means that there is none.
type ObservedObject struct {
	AppliedSpec *observed.AppliedSpec // by a service
	Node        *fleet.Node
	Allocation  *allocation.Allocation
	Host        condition.Observed // its last report of the allocation
	Drifts      []reconciler.Drift
	RestartFor  []string // fields of an Environment that a server reads only once
	RetryLimit  int      // failures after which the object is stalled
}

// ObjectReader reads the state of desired objects in the services.
type ObjectReader struct {
	*services.Services

	// Environment and Profile have the values from the start of the server.
	Environment string
	Profile     desired.Environment
}

// ObservedOf queries each service once for all objects.
func (r ObjectReader) ObservedOf(ctx context.Context, of []desired.Object) (map[ids.Object]ObservedObject, error) {
	all, byKind := make([]uuid.UUID, len(of)), map[desired.Kind][]uuid.UUID{}
	for i, o := range of {
		all[i] = o.UID.UUID
		byKind[o.Kind] = append(byKind[o.Kind], o.UID.UUID)
	}
	carried, err := r.Observed.AppliedSpecs(ctx, all)
	if err != nil {
		return nil, err
	}
	drifts, err := r.History.OpenDrift(ctx, all)
	if err != nil {
		return nil, err
	}
	limit := int(r.Policies.Latest().For().Int(policies.ReconcileRetryLimit))
	seen := make(map[ids.Object]ObservedObject, len(of))
	for _, o := range of {
		one := ObservedObject{Drifts: drifts[o.UID.UUID], RetryLimit: limit}
		if c, ok := carried[o.UID.UUID]; ok {
			one.AppliedSpec = &c
		}
		if o.Kind == desired.KindEnvironment && o.Name == r.Environment {
			if one.RestartFor, err = r.restartFor(o); err != nil {
				return nil, err
			}
		}
		seen[o.UID] = one
	}
	if err := r.addNodes(ctx, byKind[desired.KindNode], seen); err != nil {
		return nil, err
	}
	return seen, r.addAllocations(ctx, byKind[desired.KindAllocation], seen)
}

// restartFor lists the fields that differ from those that this server read at its start.
func (r ObjectReader) restartFor(o desired.Object) ([]string, error) {
	var now desired.Environment
	if err := json.Unmarshal(o.Spec, &now); err != nil {
		return nil, fmt.Errorf("reading %s: %w", o.Key(), err)
	}
	return desired.NeedsRestart(r.Profile, now), nil
}

func (r ObjectReader) addNodes(ctx context.Context, of []uuid.UUID, seen map[ids.Object]ObservedObject) error {
	if len(of) == 0 {
		return nil
	}
	nodes, err := r.Fleet.NodesOf(ctx, of)
	for id, n := range nodes {
		one := seen[ids.Object{UUID: id}]
		one.Node = &n
		seen[ids.Object{UUID: id}] = one
	}
	return err
}

func (r ObjectReader) addAllocations(ctx context.Context, of []uuid.UUID, seen map[ids.Object]ObservedObject) error {
	if len(of) == 0 {
		return nil
	}
	allocations, err := r.Allocations.Some(ctx, of)
	if err != nil {
		return err
	}
	which := make([]ids.Allocation, 0, len(allocations))
	for _, a := range allocations {
		which = append(which, a.ID)
	}
	details, err := r.AllocationDetails(ctx, which)
	for id, a := range allocations {
		one := seen[ids.Object{UUID: id}]
		one.Allocation, one.Host = &a, details.Observed[a.ID]
		seen[ids.Object{UUID: id}] = one
	}
	return err
}
