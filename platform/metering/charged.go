package metering

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Ticks are charged oldest first, so the last charged tick determines the time for all. A tenant
// without intervals and stored bytes owes nothing yet.
const selectChargedTo = `
	SELECT CASE WHEN EXISTS (SELECT FROM usage_records WHERE org_id = $1) OR EXISTS (SELECT FROM usage_storage WHERE org_id = $1) THEN coalesce((SELECT max(to_s) FROM usage_passes), 0) ELSE metering_clock() END`

// ChargedTo is the moment up to which all that the tenant has used is charged;
// 1970 while nothing is. What was used before it changes no more.
func (s *Service) ChargedTo(ctx context.Context, q pg.Queryer, tenant ids.Tenant) (time.Time, error) {
	var second int64
	if err := q.QueryRow(ctx, selectChargedTo, tenant.UUID).Scan(&second); err != nil {
		return time.Time{}, fmt.Errorf("reading up to when use is charged: %w", err)
	}
	return time.Unix(second, 0).UTC(), nil
}

const selectOwing = `
	SELECT EXISTS (SELECT FROM usage_records WHERE org_id = $1
		AND (end_s IS NULL OR end_s > start_s AND end_s > coalesce((SELECT max(to_s) FROM usage_passes), 0)))
		OR EXISTS (SELECT FROM usage_storage WHERE org_id = $1 AND price_minor > 0
			AND (rate > 0 AND end_s IS NULL OR owed > 0 AND coalesce(end_s, changed_s) > coalesce((SELECT max(to_s) FROM usage_passes), 0)))`

// Owing reports whether a tenant has used something that is not charged yet.
func (s *Service) Owing(ctx context.Context, q pg.Queryer, tenant ids.Tenant) (owing bool, err error) {
	if err := q.QueryRow(ctx, selectOwing, tenant.UUID).Scan(&owing); err != nil {
		return false, fmt.Errorf("reading whether use is charged: %w", err)
	}
	return owing, nil
}
