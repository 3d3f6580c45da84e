package nodetask

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// TaskSummary is a task for display, without its parameters, which contain keys.
type TaskSummary struct {
	ID          ids.Task
	Node        ids.Node
	Type        string
	Fence       int64
	Generation  int64
	Attempt     int
	Status      string
	Step        string
	Code        string
	Message     string
	CreatedAt   time.Time
	DeliveredAt *time.Time
	FinishedAt  *time.Time
	Allocation  *uuid.UUID // nil: about the node
}

// Of reads the newest tasks of an allocation.
func (s *Store) Of(ctx context.Context, allocation ids.Allocation, limit int) ([]TaskSummary, error) {
	return s.summaries(ctx, selectOf, allocation.UUID, limit)
}

// To reads the unfinished tasks about the node itself. It runs for every report, so the query uses
// an index of unfinished tasks only.
func (s *Store) To(ctx context.Context, node ids.Node, limit int) ([]TaskSummary, error) {
	return s.summaries(ctx, selectTo, node.UUID, limit)
}

// Last reads the newest tasks of a node's mailbox.
func (s *Store) Last(ctx context.Context, node ids.Node, limit int) ([]TaskSummary, error) {
	return s.summaries(ctx, selectLast, node.UUID, limit)
}

// Probed reports whether a probe of the whole node that was requested at that time or later has a
// result.
func (s *Store) Probed(ctx context.Context, node ids.Node, asked time.Time) (answered bool, err error) {
	if err := s.DB.QueryRow(ctx, selectProbed, node, asked, protocol.Probe).Scan(&answered); err != nil {
		return false, fmt.Errorf("looking for an answer of %s: %w", node, err)
	}
	return answered, nil
}

func (s *Store) summaries(ctx context.Context, sql string, key uuid.UUID, limit int) ([]TaskSummary, error) {
	rows, err := s.DB.Query(ctx, sql, key, limit)
	if err != nil {
		return nil, fmt.Errorf("reading node tasks: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[TaskSummary])
	if err != nil {
		return nil, fmt.Errorf("reading node tasks: %w", err)
	}
	return list, nil
}

// Queued counts the unfinished tasks by type.
func (s *Store) Queued(ctx context.Context) (map[string]int, error) {
	rows, err := s.DB.Query(ctx, countQueued)
	if err != nil {
		return nil, fmt.Errorf("counting node tasks: %w", err)
	}
	queued := map[string]int{}
	var kind string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&kind, &n}, func() error {
		queued[kind] = n
		return nil
	}); err != nil {
		return nil, fmt.Errorf("counting node tasks: %w", err)
	}
	return queued, nil
}
