package services

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/allocation/condition"
)

// ObservedAllocations returns what the nodes last reported of these allocations, together with the
// GPU faults that their holders may know. Conditions of allocations need both.
func (s *Services) ObservedAllocations(ctx context.Context, of []ids.Allocation) (map[ids.Allocation]condition.Observed, error) {
	reports, err := s.Observed.Allocations(ctx, of)
	if err != nil {
		return nil, err
	}
	all := make(map[ids.Allocation]condition.Observed, len(reports))
	for id, o := range reports {
		all[id] = condition.Observed{Reported: o.Fresh, Phase: string(o.Phase), Step: o.Step, Message: o.Message, Failures: o.Failures, Generation: o.Generation}
	}
	keyless, err := s.Desired.Keyless(ctx, s.DB, of)
	if err != nil {
		return nil, err
	}
	for _, id := range keyless {
		one := all[id]
		one.NoSSHKey = true
		all[id] = one
	}
	return all, s.addFaults(ctx, of, all)
}

func (s *Services) addFaults(ctx context.Context, of []ids.Allocation, all map[ids.Allocation]condition.Observed) error {
	keys := make([]uuid.UUID, len(of))
	for i, id := range of {
		keys[i] = id.UUID
	}
	byAllocation, err := s.NodeHealth.TenantFaults(ctx, s.DB, keys)
	if err != nil {
		return err
	}
	for id, faults := range byAllocation {
		key := ids.From[ids.Allocation](id)
		one := all[key]
		one.FaultSince = faults[0].Since
		texts := make([]string, len(faults))
		for i, f := range faults {
			texts[i] = f.Text
		}
		one.Fault = strings.Join(texts, " ")
		all[key] = one
	}
	return nil
}
