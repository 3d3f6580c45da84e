package restore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// surveyEvery is the time between two queries of a foreign system while a restore is not confirmed.
const surveyEvery = 30 * time.Second

// Survey reads a foreign system, such as the payment provider, and stores the result in the report of the restore, while the gate is
// closed. A result that cannot be read is stored as an error.
func (g *Gate) Survey(ctx context.Context, db pg.Pool, part string, read func(context.Context, Restore) (any, error)) error {
	return g.during(ctx, true, func(ctx context.Context) error {
		tick := time.NewTicker(surveyEvery)
		defer tick.Stop()
		for {
			if open := g.Restore(); open != nil {
				if err := store(ctx, db, *open, part, read); err != nil && ctx.Err() == nil {
					g.Log.WarnContext(ctx, "the comparison with a foreign system was not stored", "component", "restore", "part", part, "err", err)
				}
			}
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	})
}

func store(ctx context.Context, db pg.Pool, open Restore, part string, read func(context.Context, Restore) (any, error)) error {
	result, err := read(ctx, open)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		result = map[string]string{"error": err.Error()}
	}
	text, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", part, err)
	}
	if _, err := db.Exec(ctx, storePart, part, text); err != nil {
		return fmt.Errorf("storing %s: %w", part, err)
	}
	return nil
}
