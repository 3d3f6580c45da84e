package revision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// SourceSettings reads the forge, access and verification of a source. The role of the workers may not read its state.
func (s *Store) SourceSettings(ctx context.Context, q pg.Queryer, name string) (json.RawMessage, error) {
	var settings json.RawMessage
	err := q.QueryRow(ctx, selectSettings, name).Scan(&settings)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, errs.New(errs.NotFound, "no source is named %q", name)
	case err != nil:
		return nil, fmt.Errorf("reading the settings of source %s: %w", name, err)
	}
	return settings, nil
}
