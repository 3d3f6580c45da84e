package nodetask

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

const (
	// A second transaction waits for the commit of the first. Otherwise both would draw the same fence.
	lockFence = `SELECT pg_advisory_xact_lock(hashtextextended('nodetask.fence ' || $1::text, 0))`
	// The time is a lower bound, so that the number also rises after old tasks were deleted.
	nextFence = `
		SELECT greatest(coalesce(max(fence), 0) + 1, extract(epoch FROM now())::bigint) FROM node_tasks
		WHERE node_id = $1 AND allocation_id IS NULL AND fence > 0`
	selectAbout = `
		SELECT t.node_id, t.fence, t.status, t.code, t.message, t.expires_at <= now()
		FROM unnest($2::uuid[], $3::bigint[]) AS requested (node_id, fence)
			JOIN node_tasks t ON t.node_id = requested.node_id AND t.fence = requested.fence AND t.allocation_id IS NULL AND t.fence > 0
		WHERE t.type = $1`
	cancelQueued = `
		UPDATE node_tasks SET status = 'superseded', finished_at = now()
		WHERE node_id = $1 AND fence = $2 AND type = $3 AND allocation_id IS NULL AND status = 'queued'`
)

// NextFence returns the fence of a new decision about the node itself. The lock lasts until tx
// ends, so a later commit always has the higher fence.
func (*Store) NextFence(ctx context.Context, tx pgx.Tx, node ids.Node) (fence int64, err error) {
	if _, err := tx.Exec(ctx, lockFence, node); err != nil {
		return 0, fmt.Errorf("drawing a fence of %s: %w", node, err)
	}
	if err := tx.QueryRow(ctx, nextFence, node).Scan(&fence); err != nil {
		return 0, fmt.Errorf("drawing a fence of %s: %w", node, err)
	}
	return fence, nil
}

// PutNext queues a task about a node with the next fence. It queues nothing while the node has an unfinished task of the
// type: Put would drop a decision about another GPU as a repetition.
func (s *Store) PutNext(ctx context.Context, tx pgx.Tx, o Task) (queued bool, err error) {
	if o.Fence, err = s.NextFence(ctx, tx, o.Node); err != nil {
		return false, err
	}
	var waits bool
	if err := tx.QueryRow(ctx, selectWaits, o.Node, o.Type).Scan(&waits); err != nil || waits {
		return false, err
	}
	return true, s.Put(ctx, tx, o)
}

// Request names one task about a node.
type Request struct {
	Node  ids.Node
	Fence int64
}

// About describes the progress of such a task.
type About struct {
	Request

	Status  string
	Code    protocol.RejectReason
	Message string
	Late    bool // the node may no longer start it
}

// About reads the progress of tasks of a type about nodes, by node and fence.
func (*Store) About(ctx context.Context, tx pgx.Tx, t protocol.Type, asked []Request) (map[Request]About, error) {
	nodes, fences := make([]uuid.UUID, len(asked)), make([]int64, len(asked))
	for i, a := range asked {
		nodes[i], fences[i] = a.Node.UUID, a.Fence
	}
	rows, err := tx.Query(ctx, selectAbout, t, nodes, fences)
	if err != nil {
		return nil, fmt.Errorf("reading tasks about nodes: %w", err)
	}
	found := make(map[Request]About, len(asked))
	var a About
	_, err = pgx.ForEachRow(rows, []any{&a.Node, &a.Fence, &a.Status, &a.Code, &a.Message, &a.Late}, func() error {
		found[a.Request] = a
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading tasks about nodes: %w", err)
	}
	return found, nil
}

// CancelQueued cancels a task that its node has not fetched. False means that the node has it.
func (*Store) CancelQueued(ctx context.Context, tx pgx.Tx, t protocol.Type, a Request) (bool, error) {
	tag, err := tx.Exec(ctx, cancelQueued, a.Node, a.Fence, t)
	if err != nil {
		return false, fmt.Errorf("cancelling a task of %s: %w", a.Node, err)
	}
	return tag.RowsAffected() > 0, nil
}
