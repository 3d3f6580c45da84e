package allocation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// Cursor is a place in a list that runs from the newest.
type Cursor struct {
	CreatedAt time.Time
	ID        ids.Allocation
}

// Filter narrows a list; empty fields let everything pass.
type Filter struct {
	Status, SKU, Name string
	After             Cursor // zero: from the newest
	Limit             int
}

// Transition is one row of an allocation's history.
type Transition struct {
	Version  int64
	Event    string
	From, To State
	Reason   string
	Message  string
	Actor    string // user:ID, service-account:ID or system:NAME; empty before actors were stored
	At       time.Time
}

// Get reads one allocation of the caller's tenant.
func (s *Service) Get(ctx context.Context, c identity.Caller, id ids.Allocation) (Allocation, error) {
	rows, err := s.DB.Query(ctx, selectAllocation, id, c.Tenant)
	if err != nil {
		return Allocation{}, fmt.Errorf("reading allocation %s: %w", id, err)
	}
	a, err := pgx.CollectExactlyOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return Allocation{}, unknown()
	}
	return a, err
}

// Some reads these allocations, whosever they are in the scope of ctx.
func (s *Service) Some(ctx context.Context, of []uuid.UUID) (map[uuid.UUID]Allocation, error) {
	rows, err := s.DB.Query(ctx, selectSome, of)
	if err != nil {
		return nil, fmt.Errorf("reading allocations: %w", err)
	}
	list, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("reading allocations: %w", err)
	}
	all := make(map[uuid.UUID]Allocation, len(list))
	for _, a := range list {
		all[a.ID.UUID] = a
	}
	return all, nil
}

// endOfTime is after every row; a first page starts there.
var endOfTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// List reads a page of allocations, newest first: of the caller's project, or without one of the tenant.
func (s *Service) List(ctx context.Context, c identity.Caller, f Filter) ([]Allocation, error) {
	var project *uuid.UUID
	if c.Project != (ids.Project{}) {
		project = &c.Project.UUID
	}
	after := f.After
	if after.CreatedAt.IsZero() {
		after.CreatedAt = endOfTime
	}
	rows, err := s.DB.Query(ctx, selectPage, c.Tenant, project, f.Status, f.SKU, f.Name, after.CreatedAt, after.ID, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("listing allocations: %w", err)
	}
	return pgx.CollectRows(rows, scan)
}

// Timeline reads an allocation's history from its first row.
func (s *Service) Timeline(ctx context.Context, c identity.Caller, id ids.Allocation) ([]Transition, error) {
	if _, err := s.Get(ctx, c, id); err != nil {
		return nil, err
	}
	rows, err := s.DB.Query(ctx, selectTimeline, id)
	if err != nil {
		return nil, fmt.Errorf("reading history of %s: %w", id, err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Transition])
}
