package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/money"
)

// The statuses of drift. Open drift exists and something is due about it. Ignored drift exists and
// nothing is done about it before its time.
const (
	DriftOpen    = "open"
	DriftIgnored = "ignored"
	DriftHealed  = "healed"
)

// Drift is one field of one object that is not as it should be, or was not.
type Drift struct {
	ID                       uuid.UUID
	Kind                     string
	Object                   uuid.UUID
	Name                     string // of the object
	Field, Desired, Observed string
	Status                   string // open | ignored | healed
	Policy                   string // what it leads to: heal | warn | ignore
	Owner                    string // who must act: platform | operator | tenant
	Cause                    string
	OpenedAt, ChangedAt      time.Time  // ChangedAt: the last change of the difference
	DeadlineAt               *time.Time // until when the owner should have acted
	HealedAt                 *time.Time
	Cost                     money.Minor // per hour, while it lasts
	Currency                 string      // empty: it costs nothing
	IgnoredBy, IgnoredReason string
	IgnoredUntil             *time.Time
	Version                  int64
	UpdatedAt                time.Time // found, changed, healed or ignored
}

// Place is the drift's own in the list, for the page after it.
func (d Drift) Place() DriftPlace { return DriftPlace{d.Status, d.OpenedAt, d.ID} }

// DriftPlace is the position at the end of a page.
type DriftPlace struct {
	Status string
	At     time.Time
	ID     uuid.UUID
}

// DriftFilter selects drift. Zero fields select all.
type DriftFilter struct {
	Status, Kind string
	Object       uuid.UUID
	After        DriftPlace
	Limit        int
}

// firstDrift sorts after every row. The list is descending, so that the statuses appear as open, ignored, healed.
var firstDrift = DriftPlace{"z", time.UnixMicro(math.MaxInt32 * int64(time.Second/time.Microsecond)), uuid.Max}

// Drifts lists what differs, open before ignored before healed, and in each the
// newest first.
func (h *History) Drifts(ctx context.Context, f DriftFilter) ([]Drift, error) {
	after := f.After
	if after == (DriftPlace{}) {
		after = firstDrift
	}
	sql, args := selectDrifts, []any{after.Status, after.At, after.ID, f.Limit, f.Kind}
	switch {
	case f.Object != uuid.Nil:
		sql, args = selectDriftsOf, append(args, f.Status, f.Object)
	case f.Status != "":
		sql, args = selectDriftsIn, append(args, f.Status)
	}
	rows, err := h.DB.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("listing drift: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Drift])
	if err != nil {
		return nil, fmt.Errorf("listing drift: %w", err)
	}
	return list, nil
}

// DriftOf lists what an object was found to differ in.
func (h *History) DriftOf(ctx context.Context, object uuid.UUID, limit int) ([]Drift, error) {
	return h.Drifts(ctx, DriftFilter{Object: object, Limit: limit})
}

// OpenDrift reads what is open of several objects, by their ids.
func (h *History) OpenDrift(ctx context.Context, of []uuid.UUID) (map[uuid.UUID][]Drift, error) {
	rows, err := h.DB.Query(ctx, selectOpenOf, of)
	if err != nil {
		return nil, fmt.Errorf("reading open drift: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Drift])
	if err != nil {
		return nil, fmt.Errorf("reading open drift: %w", err)
	}
	all := map[uuid.UUID][]Drift{}
	for _, d := range list {
		all[d.Object] = append(all[d.Object], d)
	}
	return all, nil
}

// Drift reads one.
func (h *History) Drift(ctx context.Context, id uuid.UUID) (Drift, error) {
	return oneDrift(h.DB.Query(ctx, selectDrift, id))
}

// longestIgnored is a quarter: what is lived with for longer should be declared so.
const longestIgnored = 90 * 24 * time.Hour

// Ignore ignores an open drift until a time. After that time the drift opens again if it still
// exists. The caller writes the audit row; without it the commit fails.
func (h *History) Ignore(ctx context.Context, tx pgx.Tx, id uuid.UUID, by, reason string, until time.Time) (Drift, error) {
	var now time.Time
	if err := tx.QueryRow(ctx, `SELECT now()`).Scan(&now); err != nil {
		return Drift{}, fmt.Errorf("reading the clock: %w", err)
	}
	if !until.After(now) || until.After(now.Add(longestIgnored)) {
		return Drift{}, errs.New(errs.ValidationError, "a difference is ignored until a time within the next 90 days").At("until").
			Try("for a longer time, change the desired object")
	}
	have, err := oneDrift(tx.Query(ctx, selectDrift+` FOR UPDATE`, id))
	if err != nil {
		return Drift{}, err
	}
	if have.Status == DriftHealed {
		return Drift{}, errs.New(errs.Conflict, "%s %s no longer differs in %s", have.Kind, cmp.Or(have.Name, have.Object.String()), have.Field)
	}
	return oneDrift(tx.Query(ctx, ignoreDrift, id, by, reason, until))
}

func oneDrift(rows pgx.Rows, err error) (Drift, error) {
	if err != nil {
		return Drift{}, fmt.Errorf("reading drift: %w", err)
	}
	d, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Drift])
	if errors.Is(err, pgx.ErrNoRows) {
		return Drift{}, errs.New(errs.NotFound, "no such drift")
	}
	if err != nil {
		return Drift{}, fmt.Errorf("reading drift: %w", err)
	}
	return d, nil
}
