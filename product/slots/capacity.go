package slots

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Capacity is the number of slots of an SKU in a region, by state, without the names of nodes.
type Capacity struct {
	SKU, Region                       string
	Nodes, Total                      int
	Free, Claimed, Dirty, Quarantined int
}

// Capacity sums up the fleet.
func (s *Service) Capacity(ctx context.Context) ([]Capacity, error) {
	rows, err := s.DB.Query(ctx, selectCapacity)
	if err != nil {
		return nil, fmt.Errorf("reading capacity: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Capacity])
	if err != nil {
		return nil, fmt.Errorf("reading capacity: %w", err)
	}
	return list, nil
}
