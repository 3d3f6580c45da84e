// Package ratelimit contains the rate limits that all servers of one database share.
package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// Limits are rate limits that all servers of one database share. They are no
// truth: the table is unlogged, and a crash forgives everyone.
type Limits struct{ DB pg.Queryer }

// Allow charges one request to a bucket. The bucket refills by one request per each. It is empty after
// requests worth capacity. Allow returns the time until the bucket is full again.
func (l Limits) Allow(ctx context.Context, bucket string, each, capacity time.Duration) (allowed bool, fullIn time.Duration, err error) {
	var micros int64
	err = l.DB.QueryRow(ctx, takeLimit, bucket, each.Microseconds(), capacity.Microseconds()).Scan(&allowed, &micros)
	switch {
	case errors.Is(err, pgx.ErrNoRows): // made and filled by others since this statement began
		return false, capacity, nil
	case err != nil:
		return false, 0, fmt.Errorf("reading a shared rate limit: %w", err)
	}
	return allowed, time.Duration(micros) * time.Microsecond, nil
}

// Share adds what was spent here within the last while, and returns how long
// until each bucket is full again with what was spent elsewhere.
func (l Limits) Share(ctx context.Context, spent map[string]time.Duration, within time.Duration) (map[string]time.Duration, error) {
	names, micros := make([]string, 0, len(spent)), make([]int64, 0, len(spent))
	for name, d := range spent {
		names, micros = append(names, name), append(micros, d.Microseconds())
	}
	rows, err := l.DB.Query(ctx, shareLimits, names, micros, within.Microseconds())
	if err != nil {
		return nil, fmt.Errorf("sharing rate limits: %w", err)
	}
	fullIn := make(map[string]time.Duration, len(spent))
	var name string
	var left int64
	_, err = pgx.ForEachRow(rows, []any{&name, &left}, func() error {
		fullIn[name] = time.Duration(left) * time.Microsecond
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("sharing rate limits: %w", err)
	}
	return fullIn, nil
}

// DeleteFull deletes full buckets.
func (l Limits) DeleteFull(ctx context.Context) error {
	if _, err := l.DB.Exec(ctx, deleteFullLimits); err != nil {
		return fmt.Errorf("forgetting full rate limits: %w", err)
	}
	return nil
}
