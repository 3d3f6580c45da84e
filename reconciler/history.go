package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// History reads what was planned and why.
type History struct{ DB pg.Queryer }

// StoredPlan is one plan that was not empty.
type StoredPlan struct {
	ID        ids.Plan
	CreatedAt time.Time
	Hash      string
	Status    string
	Actions   int
	Held      int
}

// StoredAction is one action of a stored plan.
type StoredAction struct {
	Plan       ids.Plan
	At         time.Time
	Number     int
	Kind       string
	Object     uuid.UUID
	Node       *uuid.UUID
	Verb       string
	Event      string
	Fence      int64
	Generation int64
	Epoch      int64
	Reason     string
	Held       string // why the check rejected it; empty when it ran
}

// lastPlan is after every id; a first page starts there.
var lastPlan = ids.Plan{UUID: uuid.Max}

// Plans lists the loop's plans from the newest, before one (zero: from the newest);
// those of one status, where it is given.
func (h *History) Plans(ctx context.Context, status string, before ids.Plan, limit int) ([]StoredPlan, error) {
	if before == (ids.Plan{}) {
		before = lastPlan
	}
	rows, err := h.DB.Query(ctx, selectPlans, before, limit, status)
	if err != nil {
		return nil, fmt.Errorf("listing plans: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[StoredPlan])
}

// Plan reads one plan with its actions.
func (h *History) Plan(ctx context.Context, id ids.Plan) (StoredPlan, []StoredAction, error) {
	rows, err := h.DB.Query(ctx, selectPlan, id)
	if err != nil {
		return StoredPlan{}, nil, fmt.Errorf("reading plan %s: %w", id, err)
	}
	p, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[StoredPlan])
	if errors.Is(err, pgx.ErrNoRows) {
		return StoredPlan{}, nil, errs.New(errs.NotFound, "no such plan")
	}
	if err != nil {
		return StoredPlan{}, nil, fmt.Errorf("reading plan %s: %w", id, err)
	}
	actions, err := h.actions(ctx, selectActions+` WHERE a.plan_id = $1 ORDER BY a.number`, id)
	return p, actions, err
}

// Of lists what was ever planned for an object, newest first.
func (h *History) Of(ctx context.Context, object uuid.UUID, limit int) ([]StoredAction, error) {
	return h.actions(ctx, selectActions+` WHERE a.object_id = $1 ORDER BY a.plan_id DESC, a.number LIMIT $2`, object, limit)
}

// Since lists what was planned for any of the objects since a time, oldest first.
func (h *History) Since(ctx context.Context, of []uuid.UUID, from time.Time, limit int) ([]StoredAction, error) {
	return h.actions(ctx, selectActions+` WHERE a.object_id = ANY ($1) AND p.created_at >= $2 ORDER BY a.plan_id, a.number LIMIT $3`, of, from, limit)
}

func (h *History) actions(ctx context.Context, sql string, args ...any) ([]StoredAction, error) {
	rows, err := h.DB.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("reading actions: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[StoredAction])
}

// Load counts the due work of one kind.
type Load struct {
	Kind      string
	Due       int64
	OldestFor time.Duration
	Drifting  int64
	Overdue   int64 // of these, past the deadline of the responsible package
}

// Load counts it by kind.
func (h *History) Load(ctx context.Context) ([]Load, error) {
	rows, err := h.DB.Query(ctx, selectLoad)
	if err != nil {
		return nil, fmt.Errorf("counting due objects: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Load])
}

// Drifting counts the open drift, and how much of it is past the deadline of the responsible package.
func (h *History) Drifting(ctx context.Context) (open, overdue int64, err error) {
	if err := h.DB.QueryRow(ctx, countDrift).Scan(&open, &overdue); err != nil {
		return 0, 0, fmt.Errorf("counting drift: %w", err)
	}
	return open, overdue, nil
}
