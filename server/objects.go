package server

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/reconciler"
)

// known gathers what the rooms know of declarations: each is asked once for all.
func (s *Server) known(ctx context.Context, of []desired.Object) (map[ids.Object]rest.ObjectSeen, error) {
	a := s.rooms.sets[RoleAPI]
	all, byKind := make([]uuid.UUID, len(of)), map[desired.Kind][]uuid.UUID{}
	for i, o := range of {
		all[i] = o.UID.UUID
		byKind[o.Kind] = append(byKind[o.Kind], o.UID.UUID)
	}
	carried, err := a.observed.AppliedSpecs(ctx, all)
	if err != nil {
		return nil, err
	}
	drifts, err := a.changes.History.OpenDrift(ctx, all)
	if err != nil {
		return nil, err
	}
	seen := make(map[ids.Object]rest.ObjectSeen, len(of))
	for _, o := range of {
		one := rest.ObjectSeen{Drifts: drifts[o.UID.UUID]}
		if c, ok := carried[o.UID.UUID]; ok {
			one.Carried = &c
		}
		if o.Kind == desired.KindEnvironment && o.Name == s.cfg.Environment {
			if one.RestartFor, err = s.restartFor(o); err != nil {
				return nil, err
			}
		}
		seen[o.UID] = one
	}
	if err := a.knownNodes(ctx, byKind[desired.KindNode], seen); err != nil {
		return nil, err
	}
	return seen, a.knownAllocations(ctx, byKind[desired.KindAllocation], seen)
}

// restartFor names what this server has read otherwise when it started.
func (s *Server) restartFor(o desired.Object) ([]string, error) {
	var now desired.Environment
	if err := json.Unmarshal(o.Spec, &now); err != nil {
		return nil, fmt.Errorf("reading %s: %w", o.Key(), err)
	}
	return desired.NeedsRestart(s.cfg.Profile, now), nil
}

func (s *set) knownNodes(ctx context.Context, of []uuid.UUID, seen map[ids.Object]rest.ObjectSeen) error {
	if len(of) == 0 {
		return nil
	}
	nodes, err := s.inventory.NodesOf(ctx, of)
	for id, n := range nodes {
		one := seen[ids.Object{UUID: id}]
		one.Node = &n
		seen[ids.Object{UUID: id}] = one
	}
	return err
}

func (s *set) knownAllocations(ctx context.Context, of []uuid.UUID, seen map[ids.Object]rest.ObjectSeen) error {
	if len(of) == 0 {
		return nil
	}
	allocations, err := s.allocations.Some(ctx, of)
	if err != nil {
		return err
	}
	which := make([]ids.Allocation, 0, len(allocations))
	for _, a := range allocations {
		which = append(which, a.ID)
	}
	hosts, err := s.seen(ctx, which)
	for id, a := range allocations {
		one := seen[ids.Object{UUID: id}]
		one.Allocation, one.Host = &a, hosts[a.ID]
		seen[ids.Object{UUID: id}] = one
	}
	return err
}

// tracer tells how objects came to be as they are, with the rights of the API.
func (s *Server) tracer() *reconciler.Tracer {
	a := s.rooms.sets[RoleAPI]
	return &reconciler.Tracer{History: a.changes.History, Desired: a.desired, Others: a.tellers(s.rooms.queue)}
}
