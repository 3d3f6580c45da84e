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

// Evidence is an interval with everything that its charges follow from.
type Evidence struct {
	ID                uuid.UUID       `json:"id"`
	Allocation        ids.Allocation  `json:"allocation_id"`
	Project           ids.Project     `json:"project_id"`
	SKU               string          `json:"sku"`
	GPUs              int64           `json:"gpus"`
	PriceMinor        money.Minor     `json:"price_minor"` // per GPU and hour
	StartS            int64           `json:"start_s"`     // seconds since 1970
	EndS              *int64          `json:"end_s"`       // null while it is in use
	OpenedBy          Cause           `json:"opened_by"`
	OpenedObservation json.RawMessage `json:"opened_observation,omitempty"`
	ClosedBy          *Cause          `json:"closed_by,omitempty"`
	ClosedObservation json.RawMessage `json:"closed_observation,omitempty"`
}

const (
	evidenceColumns = `id, allocation_id, project_id, sku, gpus, price_minor, start_s, end_s, opened_by, opened_observation, closed_by, closed_observation`
	selectEvidence  = `
	SELECT ` + evidenceColumns + ` FROM usage_records WHERE org_id = $1 AND start_s < $3 AND (end_s IS NULL OR end_s > $2) ORDER BY start_s, id`
	selectEvidenceOfOne = `
	SELECT ` + evidenceColumns + ` FROM usage_records WHERE org_id = $1 AND allocation_id = $2 ORDER BY start_s, id LIMIT $3`
)

// EvidenceOf lists the intervals of a tenant that lie in [from, to) at least in part.
func (s *Service) EvidenceOf(ctx context.Context, tenant ids.Tenant, from, to time.Time) ([]Evidence, error) {
	return s.evidence(ctx, tenant, selectEvidence, from.Unix(), to.Unix())
}

// EvidenceOfAllocation lists the intervals of an allocation, the first ones of at most a limit.
func (s *Service) EvidenceOfAllocation(ctx context.Context, tenant ids.Tenant, allocation ids.Allocation, limit int) ([]Evidence, error) {
	return s.evidence(ctx, tenant, selectEvidenceOfOne, allocation.UUID, limit)
}

func (s *Service) evidence(ctx context.Context, tenant ids.Tenant, statement string, args ...any) ([]Evidence, error) {
	rows, err := s.DB.Query(ctx, statement, append([]any{tenant.UUID}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("reading intervals of tenant %s: %w", tenant, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e Evidence, err error) {
		err = row.Scan(&e.ID, &e.Allocation.UUID, &e.Project.UUID, &e.SKU, &e.GPUs, &e.PriceMinor, &e.StartS, &e.EndS,
			&e.OpenedBy, &e.OpenedObservation, &e.ClosedBy, &e.ClosedObservation)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading intervals of tenant %s: %w", tenant, err)
	}
	return list, nil
}

// ChargedTicks lists the charged ticks of [from, to), which begins and ends at midnight in UTC.
func (s *Service) ChargedTicks(ctx context.Context, from, to time.Time) ([]Tick, error) {
	rows, err := s.DB.Query(ctx, selectPasses, from.Unix(), to.Unix())
	if err != nil {
		return nil, fmt.Errorf("reading charged ticks: %w", err)
	}
	ticks, err := pgx.CollectRows(rows, scanTick)
	if err != nil {
		return nil, fmt.Errorf("reading charged ticks: %w", err)
	}
	return ticks, nil
}

// Due returns the amount that the interval owes of a tick: what is due at the end of the tick less what was due at its start.
func (e Evidence) Due(t Tick) money.Minor {
	until := t.To.Unix()
	if e.EndS != nil {
		until = min(until, *e.EndS)
	}
	if until <= e.StartS || t.From.Unix() >= until {
		return 0
	}
	return e.dueAfter(until-e.StartS) - e.dueAfter(max(t.From.Unix()-e.StartS, 0))
}

// dueAfter computes whole hours first. The product of a high rate and many seconds could overflow.
func (e Evidence) dueAfter(seconds int64) money.Minor {
	rate := e.GPUs * int64(e.PriceMinor)
	return money.Minor(rate*(seconds/3600) + rate*(seconds%3600)/3600)
}
