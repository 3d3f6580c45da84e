// Package manage reads and changes existing allocations for operators and tenants: the list of all
// tenants, forced releases, and slots that
// operators have inspected. It writes the rows of package allocation, and owns none.
package manage

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/product/allocation"
)

// Service contains the use cases.
type Service struct {
	*allocation.Service

	// ReleaseDeadline returns the time limit of the release of an allocation:
	// allocation.release_deadline_minutes.
	ReleaseDeadline func() time.Duration
	// ProvisionDeadline returns the time limit of provisioning: allocation.provision_deadline_minutes.
	ProvisionDeadline func() time.Duration
	// IdleRules returns when idle allocations are released.
	IdleRules IdleRules
	// GPUsIdle reports whether all GPUs of a node were idle in a whole period. A missing reading is no evidence.
	GPUsIdle func(ctx context.Context, node ids.Node, gpus []string, from, to time.Time, utilisation int) (bool, error)
	// Jobs inserts the jobs of the service; services.Enqueue sets it.
	Jobs *river.Client[pgx.Tx]
}

// Filter selects allocations of all tenants. A zero field selects all.
type Filter struct {
	Status, SKU   string
	Tenant        ids.Tenant
	Node          ids.Node
	Before, Since time.Time // of the request
	After         pg.Place  // in the list from the newest
	Limit         int
}

// All reads a page of the allocations of all tenants, newest first.
func (s *Service) All(ctx context.Context, f Filter) ([]allocation.Allocation, error) {
	_, _, after := allocation.Sorts.Page("", f.After, 7, 8)
	rows, err := s.DB.Query(ctx, selectAll, f.Status, f.SKU, pg.NullID(f.Tenant.UUID), pg.NullID(f.Node.UUID), timeOrNil(f.Before), timeOrNil(f.Since),
		after.Key, after.Row, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("listing the allocations of all tenants: %w", err)
	}
	of, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("listing the allocations of all tenants: %w", err)
	}
	found, err := s.Some(ctx, of)
	if err != nil {
		return nil, err
	}
	list := make([]allocation.Allocation, 0, len(of))
	for _, id := range of {
		if a, exists := found[id]; exists {
			list = append(list, a)
		}
	}
	return list, nil
}

func timeOrNil(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

const selectAll = `
	SELECT id FROM allocations
	WHERE ($1 = '' OR status = $1) AND ($2 = '' OR sku = $2) AND ($3::uuid IS NULL OR org_id = $3) AND ($4::uuid IS NULL OR node_id = $4)
		AND ($5::timestamptz IS NULL OR created_at < $5) AND ($6::timestamptz IS NULL OR created_at >= $6) AND (created_at, id) < ($7, $8)
	ORDER BY created_at DESC, id DESC LIMIT $9`
