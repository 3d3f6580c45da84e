package event

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Store reads facts back.
type Store struct{ DB pg.Pool }

// After returns up to limit events of a tenant after from, in sequence. The zero tenant reads those of
// all tenants. Events that an open transaction may still precede are left out, so that a reader who
// continues from the last one misses none.
func (s *Store) After(ctx context.Context, tenant ids.Tenant, from Position, limit int) ([]Event, error) {
	var rows pgx.Rows
	var err error
	if tenant == (ids.Tenant{}) {
		rows, err = s.DB.Query(ctx, selectAll, from.XID, from.Seq, limit)
	} else {
		rows, err = s.DB.Query(ctx, selectTenant, tenant.UUID, from.XID, from.Seq, limit)
	}
	if err != nil {
		return nil, fmt.Errorf("reading facts: %w", err)
	}
	events, err := pgx.CollectRows(rows, scanEvent)
	if err != nil {
		return nil, fmt.Errorf("reading facts: %w", err)
	}
	return events, nil
}

// Get returns a stored event.
func Get(ctx context.Context, q pg.Queryer, id ids.Event) (Event, error) {
	return pg.One(ctx, q, "event", selectEvent, scanEvent, id.UUID)
}

// Find returns the position of an event of the tenant.
func (s *Store) Find(ctx context.Context, tenant ids.Tenant, id ids.Event) (Position, error) {
	var p Position
	err := s.DB.QueryRow(ctx, selectPosition, id.UUID, tenant.UUID).Scan(&p.XID, &p.Seq)
	if errors.Is(err, pgx.ErrNoRows) {
		return Position{}, errs.New(errs.NotFound, "no such event")
	}
	if err != nil {
		return Position{}, fmt.Errorf("finding event %s: %w", id, err)
	}
	return p, nil
}

// Latest returns the place after everything that readers may see now, whosever
// it is: the horizon is one for all tenants.
func (s *Store) Latest(ctx context.Context, _ ids.Tenant) (Position, error) {
	p := Position{Seq: math.MaxInt64}
	if err := s.DB.QueryRow(ctx, selectHorizon).Scan(&p.XID); err != nil {
		return Position{}, fmt.Errorf("reading the horizon of facts: %w", err)
	}
	return p, nil
}

func scanEvent(row pgx.CollectableRow) (Event, error) { return Scan(row) }

// Scan reads the event of a row of Columns, and further columns into more.
func Scan(row pgx.CollectableRow, more ...any) (Event, error) {
	e := Event{Version: Version}
	var tenant, project *uuid.UUID
	err := row.Scan(append([]any{
		&e.XID, &e.Seq, &e.ID.UUID, &e.Stream, &e.Type, &e.Aggregate, &e.Sequence,
		&tenant, &project, &e.CorrelationID, &e.Trace, &e.Payload, &e.OccurredAt,
	}, more...)...)
	if tenant != nil {
		e.Tenant = ids.From[ids.Tenant](*tenant)
	}
	if project != nil {
		e.Project = ids.From[ids.Project](*project)
	}
	e.OccurredAt = e.OccurredAt.UTC()
	return e, err
}
