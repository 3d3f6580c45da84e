package pg

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Pairs reads rows of two columns: of each first one, the second.
func Pairs[K comparable, V any](ctx context.Context, q Queryer, sql string, args ...any) (map[K]V, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	pairs := map[K]V{}
	var key K
	var value V
	_, err = pgx.ForEachRow(rows, []any{&key, &value}, func() error {
		pairs[key] = value
		return nil
	})
	return pairs, err
}
