package metering

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
)

// Record is a stored interval, to which a charge is traced. Its cost and its credit are those of the
// whole interval, even if a filter cuts it.
type Record struct {
	ID                uuid.UUID
	Allocation        ids.Allocation
	Project           ids.Project
	User              ids.User // zero where it is not known
	SKU               string
	GPUs              int
	PriceMinor        money.Minor // per GPU and hour
	Currency          string
	StartedAt         time.Time
	EndedAt           *time.Time // nil while it is in use
	OpenedBy          Cause
	OpenedObservation json.RawMessage // an Observation; nil where none is known
	ClosedBy          Cause           // empty while it is in use
	ClosedObservation json.RawMessage
	Seconds           int64
	CostMinor         money.Minor
	CreditMinor       money.Minor
	// CreditReason is the cause of the credit, and empty without one.
	CreditReason Cause
}

// Filter chooses intervals that lie in a period at least in part. Zero values
// choose all.
type Filter struct {
	Allocation ids.Allocation
	Project    ids.Project
	From, To   time.Time
	After      uuid.UUID // the last interval of the previous page
	Limit      int
}

// Intervals lists a tenant's intervals, sorted by their beginning.
func (s *Service) Intervals(ctx context.Context, tenant ids.Tenant, f Filter) ([]Record, error) {
	from, to := int64(0), int64(1)<<62
	if !f.From.IsZero() {
		from = f.From.Unix()
	}
	if !f.To.IsZero() {
		to = f.To.Unix()
	}
	rows, err := s.DB.Query(ctx, selectIntervals, tenant.UUID, from, to, projectOrNull(f.Project), allocationOrNull(f.Allocation), f.After, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("reading intervals of tenant %s: %w", tenant, err)
	}
	list, err := pgx.CollectRows(rows, scanRecord)
	if err != nil {
		return nil, fmt.Errorf("reading intervals of tenant %s: %w", tenant, err)
	}
	return list, nil
}

// intervalPage is about 2 MB. No statement is open while a slow reader processes a page.
const intervalPage = 2_000

// EachInterval calls do for each interval of the filter, with the memory of one page. It ends with the first error of
// do.
func (s *Service) EachInterval(ctx context.Context, tenant ids.Tenant, f Filter, do func(Record) error) error {
	f.Limit = intervalPage
	for {
		list, err := s.Intervals(ctx, tenant, f)
		if err != nil {
			return err
		}
		for _, r := range list {
			if err := do(r); err != nil {
				return err
			}
			f.After = r.ID
		}
		if len(list) < intervalPage {
			return nil
		}
	}
}

func allocationOrNull(a ids.Allocation) *uuid.UUID {
	if a == (ids.Allocation{}) {
		return nil
	}
	return &a.UUID
}

func scanRecord(row pgx.CollectableRow) (r Record, err error) {
	var user *uuid.UUID
	var start int64
	var end *int64
	var closedBy, reason *Cause
	err = row.Scan(&r.ID, &r.Allocation.UUID, &r.Project.UUID, &user, &r.SKU, &r.GPUs, &r.PriceMinor, &r.Currency, &start, &end,
		&r.OpenedBy, &r.OpenedObservation, &closedBy, &r.ClosedObservation, &r.Seconds, &r.CostMinor, &r.CreditMinor, &reason)
	if err != nil {
		return Record{}, err
	}
	r.StartedAt = at(start)
	if user != nil {
		r.User.UUID = *user
	}
	if end != nil {
		ended := at(*end)
		r.EndedAt, r.ClosedBy = &ended, *closedBy
	}
	if reason != nil {
		r.CreditReason = *reason
	}
	return r, nil
}
