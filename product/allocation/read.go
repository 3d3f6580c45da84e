package allocation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// Filter narrows a list; empty fields let everything pass.
type Filter struct {
	Status, SKU, Name string
	Part              string // of the name
	Sort              string // a column of Sorts, with a minus sign for the reverse; empty: from the newest
	After             pg.Place
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
	b := &pgx.Batch{}
	a := QueueGet(b, c, id)
	err := s.DB.SendBatch(ctx, b).Close()
	return *a, err
}

// QueueGet adds a read to b, of one allocation of the caller's tenant. It is filled when b is sent.
func QueueGet(b *pgx.Batch, c identity.Caller, id ids.Allocation) *Allocation {
	a := &Allocation{}
	b.Queue(selectAllocation, id, c.Tenant).Query(func(rows pgx.Rows) (err error) {
		*a, err = pgx.CollectExactlyOneRow(rows, scan)
		if errors.Is(err, pgx.ErrNoRows) {
			return unknown()
		}
		return err
	})
	return a
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

// Sorts has the columns by which lists sort.
var Sorts = pg.Sorting[Allocation]{
	Columns: map[string]pg.Column[Allocation]{
		"created_at": {SQL: "created_at", Type: "timestamptz", Key: func(a Allocation) string { return pg.TimeKey(&a.CreatedAt) }},
		"expires_at": {SQL: "coalesce(expires_at, 'infinity')", Type: "timestamptz", Key: func(a Allocation) string { return pg.TimeKey(a.ExpiresAt) }},
		"name":       {SQL: "name", Type: "text", Key: func(a Allocation) string { return a.Name }},
		"sku":        {SQL: "sku", Type: "text", Key: func(a Allocation) string { return a.SKU }},
		"status":     {SQL: "status", Type: "text", Key: func(a Allocation) string { return string(a.State) }},
	},
	Default: "-created_at",
	Unique:  pg.Column[Allocation]{SQL: "id", Type: "uuid", Key: func(a Allocation) string { return a.ID.String() }},
}

// List reads a page of allocations: of the caller's project, or without one of the tenant.
func (s *Service) List(ctx context.Context, c identity.Caller, f Filter) ([]Allocation, error) {
	var project *uuid.UUID
	if c.Project != (ids.Project{}) {
		project = &c.Project.UUID
	}
	condition, sorting, after := Sorts.Page(f.Sort, f.After, 6, 7)
	rows, err := s.DB.Query(ctx, selectPage+" AND "+condition+" "+sorting+" LIMIT $8", c.Tenant, project, f.Status, f.SKU, f.Name, after.Key, after.Row, f.Limit, f.Part)
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
