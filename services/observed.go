package services

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/condition"
	"github.com/gpuaas/gpuaas/product/nodehealth"
)

// AllocationDetails are the cost of allocations so far, and what their nodes last reported of them together with the GPU
// faults that their holders may know. Conditions of allocations need the latter.
type AllocationDetails struct {
	Cost     map[ids.Allocation]money.Minor
	Observed map[ids.Allocation]condition.Observed
}

// AllocationDetails reads the details of several allocations in one round trip.
func (s *Services) AllocationDetails(ctx context.Context, of []ids.Allocation) (AllocationDetails, error) {
	if len(of) == 0 {
		return AllocationDetails{}, nil
	}
	b := &pgx.Batch{}
	details := s.queueDetails(b, of)
	if err := s.DB.SendBatch(ctx, b).Close(); err != nil {
		return AllocationDetails{}, err
	}
	return details(), nil
}

// AllocationWithDetails reads one allocation of the caller's tenant and its details in one round trip.
func (s *Services) AllocationWithDetails(ctx context.Context, c identity.Caller, id ids.Allocation) (allocation.Allocation, AllocationDetails, error) {
	b := &pgx.Batch{}
	a := allocation.QueueGet(b, c, id)
	details := s.queueDetails(b, []ids.Allocation{id})
	if err := s.DB.SendBatch(ctx, b).Close(); err != nil {
		return allocation.Allocation{}, AllocationDetails{}, err
	}
	return *a, details(), nil
}

// queueDetails adds the reads to b. Its result joins them when b is sent.
func (s *Services) queueDetails(b *pgx.Batch, of []ids.Allocation) func() AllocationDetails {
	keys := make([]uuid.UUID, len(of))
	for i, id := range of {
		keys[i] = id.UUID
	}
	costs, reports := metering.QueueCosts(b, of), observed.QueueAllocations(b, keys)
	keyless, faults := desired.QueueKeyless(b, keys), nodehealth.QueueTenantFaults(b, keys)
	unrestricted := s.Access.QueueUnrestricted(b, of)
	return func() AllocationDetails {
		seen := make(map[ids.Allocation]condition.Observed, len(of))
		for _, id := range of {
			o := reports[id]
			one := condition.Observed{
				Reported: o.Fresh, Phase: string(o.Phase), Step: o.Step, Message: o.Message, Failures: o.Failures, Generation: o.Generation,
				NoSSHKey: keyless[id], NoRelay: o.NoRelay(), Unrestricted: unrestricted[id], Mounts: o.Mounts,
			}
			one.Fault, one.FaultSince = join(faults[id])
			seen[id] = one
		}
		return AllocationDetails{costs, seen}
	}
}

// join returns the texts of the faults, and when the first began.
func join(faults []nodehealth.TenantFault) (text string, since time.Time) {
	if len(faults) == 0 {
		return "", time.Time{}
	}
	texts := make([]string, len(faults))
	for i, f := range faults {
		texts[i] = f.Text
	}
	return strings.Join(texts, " "), faults[0].Since
}
