package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// One reads a single row. It returns errs.NotFound if there is none, also where row-level security hides
// it, so that the error does not reveal the rows of other tenants.
func One[T any](ctx context.Context, q Queryer, what, sql string, scan pgx.RowToFunc[T], args ...any) (T, error) {
	var none T
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return none, fmt.Errorf("reading a %s: %w", what, err)
	}
	v, err := pgx.CollectExactlyOneRow(rows, scan)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return none, errs.New(errs.NotFound, "no such %s", what)
	case err != nil:
		return none, fmt.Errorf("reading a %s: %w", what, err)
	}
	return v, nil
}

// List reads all rows of a query.
func List[T any](ctx context.Context, q Queryer, what, sql string, scan pgx.RowToFunc[T], args ...any) ([]T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", what, err)
	}
	all, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", what, err)
	}
	return all, nil
}

// OrElse is for a queued statement that must affect a row. It returns otherwise if the statement
// affected none.
func OrElse(otherwise error) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() == 0 {
			return otherwise
		}
		return nil
	}
}
