// Package inventory owns the fleet as it is sold: nodes with their axes, GPUs,
// slots and the claims on them. A slot becomes clean only by proof, never by a
// state; placement is a pure function in place.
package inventory

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/secret"
)

// Service is the room.
type Service struct {
	DB    pg.Pool
	Hints *hint.Bus
	// Rules are what faults of a SKU's nodes lead to; the defaults where it is nil.
	Rules func(sku string) FaultRules
	// Identity keeps the idempotency keys of those who change holds, and Naming makes
	// resource names; nil and zero where nobody does.
	Identity *identity.Service
	Naming   ids.Naming
	// Grace is how long tenants may stay on a node that drains, unless somebody says
	// otherwise: node.drain_grace_minutes.
	Grace func(node string) time.Duration
	Clock clock.Clock
	// TokenLife is how long an enrolment token waits for its node; the longest when
	// nil.
	TokenLife func() time.Duration
	// Certificates are those of nodes; nil where nobody revokes one.
	Certificates *secret.Certificates

	market market
}

// Declare carries out a node's declaration.
func (s *Service) Declare(ctx context.Context, tx pgx.Tx, id ids.Node, name string, n desired.Node) error {
	_, err := tx.Exec(ctx, declareNode, id, name, n.SKU, n.Region, n.Onboarding, n.GPUs, n.Hardware, n.Cordoned, n.Address)
	if err != nil {
		return fmt.Errorf("declaring node %s: %w", name, err)
	}
	b := &pgx.Batch{}
	b.Queue(resellSlots, id, n.SKU, n.Region)
	b.Queue(lockSlots, id)
	b.Queue(refreshHeld, id) // a declared cordon is as strict as any
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("declaring slots of %s: %w", name, err)
	}
	return nil
}

// InUse names those of the given nodes that live allocations stand on.
func (s *Service) InUse(ctx context.Context, tx pgx.Tx, nodes []ids.Node) (map[ids.Node]int, error) {
	rows, err := tx.Query(ctx, countClaims, nodes)
	if err != nil {
		return nil, fmt.Errorf("reading claims: %w", err)
	}
	used := map[ids.Node]int{}
	var node ids.Node
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&node, &n}, func() error {
		used[node] = n
		return nil
	}); err != nil {
		return nil, fmt.Errorf("reading claims: %w", err)
	}
	return used, nil
}

// Silent records that a node's reports have stopped, or begun again. It is a
// condition of the node: what runs on it is unknown, not over.
func (s *Service) Silent(ctx context.Context, tx pgx.Tx, id ids.Node, silent bool) error {
	to := "reachable"
	if silent {
		to = "stale"
	}
	if _, err := tx.Exec(ctx, setReachability, id, to); err != nil {
		return fmt.Errorf("recording silence of %s: %w", id, err)
	}
	return nil
}
