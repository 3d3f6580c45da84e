// Package fleet owns nodes: their lifecycle and GPUs, operator holds, drains and enrolment tokens. It
// changes the slots of a node through package slots.
package fleet

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/slots"
)

// Declare applies the spec of a node. The row stores the spec as it is, so that drift is a comparison of documents.
func (s *Service) Declare(ctx context.Context, tx pgx.Tx, id ids.Node, name string, spec json.RawMessage) error {
	var n desired.Node
	if err := json.Unmarshal(spec, &n); err != nil {
		return fmt.Errorf("reading the spec of node %s: %w", name, err)
	}
	if _, err := tx.Exec(ctx, declareNode, id, name, spec); err != nil {
		return fmt.Errorf("declaring node %s: %w", name, err)
	}
	b := &pgx.Batch{}
	slots.QueueResell(b, id, n.SKU, n.Region)
	slots.QueueFollowHolds(b, id) // a declared cordon is as strict as any
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("declaring slots of %s: %w", name, err)
	}
	return nil
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
