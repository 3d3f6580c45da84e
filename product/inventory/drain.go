package inventory

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// Retire takes a node out of the fleet. One that somebody stands on drains: it
// takes nothing new, nobody is released from it, and it retires with the last
// proof. Whoever asks again changes nothing.
func (s *Service) Retire(ctx context.Context, tx pgx.Tx, id ids.Node) error {
	b := &pgx.Batch{}
	b.Queue(drainNode, id)
	b.Queue(retireDrained, id)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("retiring node %s: %w", id, err)
	}
	return nil
}

// end carries out what ends an allocation's hold on its slots, and lets a node
// that drains retire with the last of them.
func end(ctx context.Context, tx pgx.Tx, id ids.Allocation, sql string, args ...any) error {
	b := &pgx.Batch{}
	b.Queue(lockNodeOf, id)
	b.Queue(sql, append([]any{id}, args...)...)
	b.Queue(retireDrainedOf, id)
	return tx.SendBatch(ctx, b).Close()
}
