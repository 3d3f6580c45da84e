package metering

import "github.com/gpuaas/gpuaas/platform/ledger"

// The account is asked of its room here, so that accrual joins nothing. After a
// clock that went back an interval begins where the one before it ended.
const openInterval = `
	INSERT INTO usage_records (id, allocation_id, org_id, project_id, user_id, sku, gpus, price_minor, currency, account_id, start_s, opened_by, opened_seen)
	SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, ledger_ensure_accounts($3, $9),
		greatest(metering_moment(), (SELECT max(end_s) FROM usage_records WHERE allocation_id = $2)), $10, $11
	ON CONFLICT (allocation_id) WHERE end_s IS NULL DO NOTHING`

// A clock that went back ends the interval where it began.
const closeInterval = `
	UPDATE usage_records SET end_s = greatest(start_s, metering_moment()), closed_by = $2, closed_seen = $3
	WHERE allocation_id = $1 AND end_s IS NULL`

// The same, for whoever goes on with what was closed.
const pauseInterval = closeInterval + `
	RETURNING id, org_id, currency, gpus, price_minor, start_s, end_s`

// Both in one statement: the rows that are to begin are those that have ended.
const repriceIntervals = `
	WITH moment AS MATERIALIZED (
		SELECT metering_moment() AS s
	), ended AS (
		UPDATE usage_records r SET end_s = greatest(r.start_s, moment.s), closed_by = 'price_changed' FROM moment
		WHERE r.end_s IS NULL AND r.sku = $1 AND r.currency = $2 AND r.price_minor <> $3
		RETURNING r.allocation_id, r.org_id, r.project_id, r.user_id, r.sku, r.gpus, r.currency, r.account_id, r.end_s
	)
	INSERT INTO usage_records (id, allocation_id, org_id, project_id, user_id, sku, gpus, price_minor, currency, account_id, start_s, opened_by)
	SELECT gen_random_uuid(), allocation_id, org_id, project_id, user_id, sku, gpus, $3, currency, account_id, end_s, 'price_changed' FROM ended`

const insertCredit = `
	INSERT INTO usage_credits (id, record_id, org_id, from_s, to_s, reason, amount_minor, transfer_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`

const (
	// Whoever changes an interval queues behind a cut that waits; not for long.
	waitBriefly = `SET LOCAL lock_timeout = '1s'`
	lockCut     = `SELECT pg_advisory_xact_lock(hashtextextended('metering.cut', 0))`
)

// From where the last tick ended; the first begins with the earliest interval.
// At midnight in UTC one ends and the next begins, so that days and months of the
// ledger and of usage are the same days and months.
const insertTicks = `
	WITH span AS (
		SELECT last.to_s AS after_s, coalesce(last.to_s, (SELECT start_s FROM usage_records ORDER BY start_s LIMIT 1)) AS from_s, metering_clock() AS to_s
		FROM (SELECT max(to_s) AS to_s FROM usage_ticks) AS last
	), cuts AS (
		SELECT to_s FROM span
		UNION SELECT midnight FROM span, generate_series((from_s / 86400 + 1) * 86400, to_s, 86400) AS midnight
	)
	INSERT INTO usage_ticks (after_s, from_s, to_s)
	SELECT lag(c.to_s, 1, span.after_s) OVER (ORDER BY c.to_s), lag(c.to_s, 1, span.from_s) OVER (ORDER BY c.to_s), c.to_s
	FROM cuts c CROSS JOIN span WHERE span.to_s > span.from_s ORDER BY c.to_s`

const selectUncharged = `
	SELECT from_s, to_s FROM usage_ticks
	WHERE to_s > coalesce((SELECT to_s FROM usage_passes ORDER BY to_s DESC LIMIT 1), from_s) ORDER BY to_s`

// One pass at a time, and each tick after the one before it. The key of
// usage_passes stands behind it.
const lockCharge = `
	SELECT pg_try_advisory_xact_lock(hashtextextended('metering.charge', 0))
		AND EXISTS (SELECT FROM usage_ticks t WHERE t.to_s = $1 AND NOT EXISTS (SELECT FROM usage_passes p WHERE p.to_s = t.to_s)
			AND (t.after_s IS NULL OR EXISTS (SELECT FROM usage_passes p WHERE p.to_s = t.after_s)))`

// due of a rate per hour after n seconds. Whole hours first: the product of a
// high rate and many seconds would not fit, while this does for a century.
func due(n string) string {
	return `(r.gpus * r.price_minor * (` + n + ` / 3600) + r.gpus * r.price_minor * (` + n + ` % 3600) / 3600)`
}

// used is how many seconds of an interval lie before the second that an SQL
// expression names. One that is open has lasted until now.
func used(until string) string {
	return `greatest(least(coalesce(r.end_s, now.s), ` + until + `) - r.start_s, 0)`
}

// What an interval owes of a tick is what is due at the tick's end less what was
// due at its beginning. Nothing that is committed after the cut can change either,
// so a pass may be late, and may be made again to compare.
var chargeUsage = ledger.UsageStatement(ledger.Charges{
	With: `pass AS (INSERT INTO usage_passes (to_s) VALUES ($2::bigint))`,
	Query: `
		SELECT r.account_id, r.allocation_id, r.currency, ` + due(`($2::bigint - r.start_s)`) + ` - ` + due(`greatest($1::bigint - r.start_s, 0)`) + ` AS amount_minor
		FROM usage_records r WHERE r.end_s IS NULL AND r.start_s < $2::bigint
		UNION ALL
		SELECT r.account_id, r.allocation_id, r.currency, ` + due(`(least(r.end_s, $2::bigint) - r.start_s)`) + ` - ` + due(`greatest($1::bigint - r.start_s, 0)`) + `
		FROM usage_records r WHERE r.end_s > $1::bigint AND r.start_s < $2::bigint`,
	Reference: `$2::text`,
	At:        `to_timestamp($2::bigint - 1)`, // within the tick's own day and month
})

// An allocation has more than one interval only when its use was interrupted or
// its price changed. Both ends of the window cut an interval; what is due between
// the cuts is its cost.
var selectUsage = `
	WITH now AS MATERIALIZED (SELECT metering_now() AS s)
	SELECT r.allocation_id, r.project_id, r.sku, r.gpus, max(r.price_minor), r.currency,
		sum(` + used(`$3::bigint`) + ` - ` + used(`$2::bigint`) + `)::bigint,
		sum(` + due(used(`$3::bigint`)) + ` - ` + due(used(`$2::bigint`)) + `)::bigint,
		min(r.start_s), CASE WHEN bool_or(r.end_s IS NULL) THEN NULL ELSE max(r.end_s) END
	FROM usage_records r CROSS JOIN now
	WHERE r.org_id = $1 AND r.start_s < $3 AND coalesce(r.end_s, $3) > $2 AND r.allocation_id > $4
		AND ($6::uuid = '00000000-0000-0000-0000-000000000000' OR r.project_id = $6)
	GROUP BY r.allocation_id, r.project_id, r.sku, r.gpus, r.currency
	ORDER BY r.allocation_id LIMIT $5`

var selectCosts = `
	WITH now AS MATERIALIZED (SELECT metering_now() AS s)
	SELECT r.allocation_id, sum(` + due(`greatest(coalesce(r.end_s, now.s) - r.start_s, 0)`) + `)::bigint
	FROM usage_records r CROSS JOIN now WHERE r.allocation_id = ANY($1::uuid[]) GROUP BY r.allocation_id`

const selectBurn = `
	SELECT coalesce(sum(gpus * price_minor), 0)::bigint FROM usage_records WHERE org_id = $1 AND end_s IS NULL`
