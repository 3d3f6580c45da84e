package fleet

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// GPUCount is the number of GPUs of an SKU in a region with one health value.
type GPUCount struct {
	SKU, Region, State string // healthy | degraded | unhealthy | unknown | missing
	N                  int
}

// GPUs counts the devices of the fleet.
func (s *Service) GPUs(ctx context.Context) ([]GPUCount, error) {
	rows, err := s.DB.Query(ctx, countGPUs)
	if err != nil {
		return nil, fmt.Errorf("counting GPUs: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[GPUCount])
	if err != nil {
		return nil, fmt.Errorf("counting GPUs: %w", err)
	}
	return list, nil
}

// NodeCount is the number of nodes in one state.
type NodeCount struct {
	Lifecycle, Health, Reachability string
	N                               int
}

// Counts counts the nodes that are not retired.
func (s *Service) Counts(ctx context.Context) ([]NodeCount, error) {
	rows, err := s.DB.Query(ctx, countNodes)
	if err != nil {
		return nil, fmt.Errorf("counting nodes: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[NodeCount])
	if err != nil {
		return nil, fmt.Errorf("counting nodes: %w", err)
	}
	return list, nil
}
