package metering

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Tenants with an open interval or stored bytes that cost something, and tenants with a recent charge: the last charge may cross a threshold
// after the interval is closed. The limit is one hour, so a check that failed a few times still finds
// them.
const selectCharged = `
	SELECT org_id FROM usage_records WHERE end_s IS NULL
	UNION
	SELECT org_id FROM usage_records WHERE end_s > (
		SELECT min(t.from_s) FROM usage_ticks t JOIN usage_passes p ON p.to_s = t.to_s WHERE p.at > now() - interval '1 hour')
	UNION
	SELECT org_id FROM usage_storage WHERE end_s IS NULL AND rate > 0`

// Charged lists the tenants whose balance may have moved by what was charged
// within the last hour.
func (s *Service) Charged(ctx context.Context, q pg.Queryer) ([]ids.Tenant, error) {
	rows, err := q.Query(ctx, selectCharged)
	if err != nil {
		return nil, fmt.Errorf("listing who was charged: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[ids.Tenant])
	if err != nil {
		return nil, fmt.Errorf("listing who was charged: %w", err)
	}
	return list, nil
}

const selectBurns = `
	SELECT org_id, sum(burn)::bigint FROM (
		SELECT org_id, gpus * price_minor AS burn FROM usage_records WHERE org_id = ANY ($1::uuid[]) AND end_s IS NULL
		UNION ALL
		SELECT org_id, div(sum(rate), ` + storedPerHour + `) FROM usage_storage WHERE org_id = ANY ($1::uuid[]) AND end_s IS NULL AND rate > 0 GROUP BY org_id
	) burns GROUP BY org_id`

// BurnsOf is Burn for many tenants at once. One that uses nothing is left out.
func (s *Service) BurnsOf(ctx context.Context, q pg.Queryer, tenants []ids.Tenant) (map[ids.Tenant]money.Minor, error) {
	which := make([]uuid.UUID, len(tenants))
	for i, t := range tenants {
		which[i] = t.UUID
	}
	rows, err := q.Query(ctx, selectBurns, which)
	if err != nil {
		return nil, fmt.Errorf("reading burns: %w", err)
	}
	burns := make(map[ids.Tenant]money.Minor, len(tenants))
	var tenant ids.Tenant
	var burn money.Minor
	_, err = pgx.ForEachRow(rows, []any{&tenant.UUID, &burn}, func() error {
		burns[tenant] = burn
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading burns: %w", err)
	}
	return burns, nil
}

const selectAllBurns = `
	SELECT currency, sum(burn)::bigint FROM (
		SELECT currency, gpus * price_minor AS burn FROM usage_records WHERE end_s IS NULL
		UNION ALL
		SELECT currency, div(sum(rate), ` + storedPerHour + `) FROM usage_storage WHERE end_s IS NULL AND rate > 0 GROUP BY currency
	) burns GROUP BY currency`

// AllBurns returns the cost per hour of all open intervals and stored bytes, by currency, of all tenants that the caller
// may see.
func (s *Service) AllBurns(ctx context.Context, q pg.Queryer) (map[string]money.Minor, error) {
	burns, err := pg.Pairs[string, money.Minor](ctx, q, selectAllBurns)
	if err != nil {
		return nil, fmt.Errorf("reading the burn of all: %w", err)
	}
	return burns, nil
}

// In two halves, so that each finds its index; history before the period costs nothing.
var selectSpent = `
	WITH now AS MATERIALIZED (SELECT metering_now() AS s), r AS (
		SELECT gpus, price_minor, start_s, end_s FROM usage_records
		WHERE org_id = $1 AND end_s IS NULL AND ($2::uuid IS NULL OR project_id = $2)
		UNION ALL
		SELECT gpus, price_minor, start_s, end_s FROM usage_records
		WHERE org_id = $1 AND end_s > $3::bigint AND ($2::uuid IS NULL OR project_id = $2)
	)
	SELECT coalesce(sum(` + due(used(`now.s`)) + ` - ` + due(used(`$3::bigint`)) + `), 0)::bigint
		- coalesce((SELECT sum(c.amount_minor) FROM usage_credits c JOIN usage_records u ON u.id = c.record_id
			WHERE c.org_id = $1 AND c.at >= to_timestamp($3::bigint) AND ($2::uuid IS NULL OR u.project_id = $2)), 0)::bigint
		+ coalesce((SELECT sum(` + storedCost(`$3::bigint`, `now.s`) + `) FROM (
			SELECT * FROM usage_storage WHERE org_id = $1 AND end_s IS NULL AND ($2::uuid IS NULL OR project_id = $2)
			UNION ALL
			SELECT * FROM usage_storage WHERE org_id = $1 AND end_s > $3::bigint AND ($2::uuid IS NULL OR project_id = $2)
		) r CROSS JOIN now), 0)::bigint
	FROM r CROSS JOIN now`

// SpentSince returns the cost of the tenant, or of one of its projects, since a time, charged or not,
// without fault credits.
func (s *Service) SpentSince(ctx context.Context, q pg.Queryer, tenant ids.Tenant, project ids.Project, since time.Time) (money.Minor, error) {
	var of *uuid.UUID
	if project != (ids.Project{}) {
		of = &project.UUID
	}
	var spent money.Minor
	if err := q.QueryRow(ctx, selectSpent, tenant.UUID, of, since.Unix()).Scan(&spent); err != nil {
		return 0, fmt.Errorf("reading what tenant %s has spent: %w", tenant, err)
	}
	return spent, nil
}
