package policies

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// Stored is the value of a row, whether or not Check accepts it.
type Stored struct {
	Key   string
	Scope Scope
	Value json.RawMessage
}

// Stored reads the rows of these keys, so that the caller can compare them with the desired objects.
// Decisions use a snapshot instead.
func (*Client) Stored(ctx context.Context, q pg.Queryer, keys []string) ([]Stored, error) {
	rows, err := q.Query(ctx, readStored, keys)
	if err != nil {
		return nil, fmt.Errorf("reading stored policy values: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Stored])
	if err != nil {
		return nil, fmt.Errorf("reading stored policy values: %w", err)
	}
	return list, nil
}
