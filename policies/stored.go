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

// Subjects returns the subjects of the scopes at which values are applied, as they were resolved
// then.
func (*Client) Subjects(ctx context.Context, q pg.Queryer, scopes []Scope) (map[Scope]Scope, error) {
	subjects, err := pg.Pairs[Scope, Scope](ctx, q, readSubjects, scopes)
	if err != nil {
		return nil, fmt.Errorf("reading subjects of policy scopes: %w", err)
	}
	return subjects, nil
}

// ScopesOf returns the scopes by which applied values name these subjects, for example the former name
// of a tenant.
func (*Client) ScopesOf(ctx context.Context, q pg.Queryer, subjects []Scope) ([]Scope, error) {
	rows, err := q.Query(ctx, readScopes, subjects)
	if err != nil {
		return nil, fmt.Errorf("reading policy scopes: %w", err)
	}
	scopes, err := pgx.CollectRows(rows, pgx.RowTo[Scope])
	if err != nil {
		return nil, fmt.Errorf("reading policy scopes: %w", err)
	}
	return scopes, nil
}
