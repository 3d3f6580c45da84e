package metering

import "github.com/gpuaas/gpuaas/platform/ledger"

// Seconds since 1970 by the database's clock, unless a test says another time.
const second = `floor(extract(epoch FROM clock_timestamp()))::bigint`

// The account is asked of its room here, so that accrual joins nothing. That the
// interval is new is noted for the next pass, because its start may lie before
// the last one: that pass did not see what was not yet committed.
const openInterval = `
	WITH opened AS (
		INSERT INTO usage_records (id, allocation_id, org_id, project_id, sku, gpus, price_minor, currency, account_id, start_s)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, ledger_ensure_accounts($3, $8), coalesce($9::bigint, ` + second + `))
		ON CONFLICT (allocation_id) WHERE end_s IS NULL DO NOTHING RETURNING id
	)
	INSERT INTO usage_changes (record_id, change) SELECT id, 'opened' FROM opened`

// A clock that went back ends the interval where it began.
const closeInterval = `
	WITH closed AS (
		UPDATE usage_records SET end_s = greatest(start_s, coalesce($2::bigint, ` + second + `))
		WHERE allocation_id = $1 AND end_s IS NULL RETURNING id
	)
	INSERT INTO usage_changes (record_id, change) SELECT id, 'closed' FROM closed`

// One pass at a time. The unique keys of usage_ticks stand behind it.
const lockAccrual = `SELECT pg_try_advisory_xact_lock(hashtextextended('metering.accrual', 0))`

// From where the last tick ended; the first begins with the earliest interval.
const insertTick = `
	INSERT INTO usage_ticks (from_s, to_s)
	SELECT w.from_s, w.to_s FROM (
		SELECT coalesce((SELECT to_s FROM usage_ticks ORDER BY to_s DESC LIMIT 1),
			(SELECT start_s FROM usage_records ORDER BY start_s LIMIT 1)) AS from_s,
			coalesce($1::bigint, ` + second + `) AS to_s) w
	WHERE w.to_s > w.from_s
	RETURNING from_s, to_s`

// due of a rate per hour after n seconds. Whole hours first: the product of a
// high rate and many seconds would not fit, while this does for a century.
func due(n string) string {
	return `(r.gpus * r.price_minor * (` + n + ` / 3600) + r.gpus * r.price_minor * (` + n + ` % 3600) / 3600)`
}

// An interval that is open, and was at the last tick, owes what came due in
// between. One that opened or closed since owes what is due less what that tick
// could know of it: nothing if it had not opened, all until then if it was open.
// So a change that was committed late is charged or given back here, and the
// charges of a closed interval always sum to due(end).
var chargeUsage = ledger.UsageStatement(ledger.Charges{
	With: `changes AS (
		DELETE FROM usage_changes RETURNING record_id, change
	), changed AS (
		SELECT record_id, bool_or(change = 'opened') AS opened FROM changes GROUP BY record_id
	)`,
	Query: `
		SELECT r.account_id, r.allocation_id, r.currency,
			` + due(`greatest($2::bigint - r.start_s, 0)`) + ` - ` + due(`greatest($1::bigint - r.start_s, 0)`) + ` AS amount_minor
		FROM usage_records r
		WHERE r.end_s IS NULL AND NOT EXISTS (SELECT FROM changed c WHERE c.record_id = r.id)
		UNION ALL
		SELECT r.account_id, r.allocation_id, r.currency,
			` + due(`greatest(coalesce(r.end_s, $2::bigint) - r.start_s, 0)`) + `
			- CASE WHEN c.opened THEN 0 ELSE ` + due(`greatest($1::bigint - r.start_s, 0)`) + ` END
		FROM changed c JOIN usage_records r ON r.id = c.record_id`,
	Reference: `$2::text`,
})

// Both ends of the window cut an interval; what is due between the cuts is its cost.
const (
	within = `greatest(least(coalesce(r.end_s, ` + second + `), $3::bigint) - r.start_s, 0)`
	before = `greatest(least(coalesce(r.end_s, ` + second + `), $2::bigint) - r.start_s, 0)`
)

// An allocation has one SKU, size and price for life, and more than one interval
// only when its use was interrupted.
var selectUsage = `
	SELECT r.allocation_id, r.project_id, r.sku, r.gpus, r.price_minor, r.currency,
		sum(` + within + ` - ` + before + `)::bigint,
		sum(` + due(within) + ` - ` + due(before) + `)::bigint,
		min(r.start_s), CASE WHEN bool_or(r.end_s IS NULL) THEN NULL ELSE max(r.end_s) END
	FROM usage_records r
	WHERE r.org_id = $1 AND r.start_s < $3 AND coalesce(r.end_s, $3) > $2 AND r.allocation_id > $4
		AND ($6::uuid = '00000000-0000-0000-0000-000000000000' OR r.project_id = $6)
	GROUP BY r.allocation_id, r.project_id, r.sku, r.gpus, r.price_minor, r.currency
	ORDER BY r.allocation_id LIMIT $5`

var selectCosts = `
	SELECT r.allocation_id, sum(` + due(`greatest(coalesce(r.end_s, `+second+`) - r.start_s, 0)`) + `)::bigint
	FROM usage_records r WHERE r.allocation_id = ANY($1::uuid[]) GROUP BY r.allocation_id`

const selectBurn = `
	SELECT coalesce(sum(gpus * price_minor), 0)::bigint FROM usage_records WHERE org_id = $1 AND end_s IS NULL`
