package nodetask

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// Told is an order as people read it: without what it says to whom.
type Told struct {
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
}

// Of reads the newest orders about an allocation.
func (s *Store) Of(ctx context.Context, allocation ids.Allocation, limit int) ([]Told, error) {
	return s.told(ctx, selectOf, allocation.UUID, limit)
}

// To reads the orders about itself that a node has not answered: it is asked often,
// and every answer stands in its report.
func (s *Store) To(ctx context.Context, node ids.Node, limit int) ([]Told, error) {
	return s.told(ctx, selectTo, node.UUID, limit)
}

func (s *Store) told(ctx context.Context, sql string, key uuid.UUID, limit int) ([]Told, error) {
	rows, err := s.DB.Query(ctx, sql, key, limit)
	if err != nil {
		return nil, fmt.Errorf("reading node tasks: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Told])
	if err != nil {
		return nil, fmt.Errorf("reading node tasks: %w", err)
	}
	return list, nil
}
