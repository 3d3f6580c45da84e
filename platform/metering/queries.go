package metering

import "github.com/gpuaas/gpuaas/platform/ledger"

// The statement reads the ledger's account here, so that the accrual needs no join. If the clock went
// back, the interval begins where the previous one ended.
const openInterval = `
	INSERT INTO usage_records (id, allocation_id, org_id, project_id, user_id, sku, gpus, price_minor, currency, account_id, start_s, opened_by, opened_observation)
	SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, ledger_ensure_accounts($3, $9),
		greatest(metering_moment(), (SELECT max(end_s) FROM usage_records WHERE allocation_id = $2)), $10, $11
	ON CONFLICT (allocation_id) WHERE end_s IS NULL DO NOTHING`

// A clock that went back ends the interval where it began.
const closeInterval = `
	UPDATE usage_records SET end_s = greatest(start_s, metering_moment()), closed_by = $2, closed_observation = $3
	WHERE allocation_id = $1 AND end_s IS NULL`

// The same statement, for callers that continue with the closed interval.
const pauseInterval = closeInterval + `
	RETURNING id, end_s`

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
	// A transaction that changes an interval waits for a waiting cut, but only briefly.
	waitBriefly = `SELECT set_config('lock_timeout', $1, true)`
	lockCut     = `SELECT pg_advisory_xact_lock(hashtextextended('metering.cut', 0))`
)

// The parts of the intervals within two times that no credit covers. Fewer than a second of an interval are none.
const selectUncredited = `
	SELECT r.id, r.org_id, r.currency, r.gpus, r.price_minor, r.start_s, lower(part), upper(part)
	FROM usage_records r CROSS JOIN LATERAL unnest(int8multirange(int8range(greatest(r.start_s, $2), least(r.end_s, $3)))
		- coalesce((SELECT range_agg(int8range(c.from_s, c.to_s)) FROM usage_credits c WHERE c.record_id = r.id), '{}')) AS part
	WHERE r.allocation_id = $1 AND (r.end_s IS NULL OR r.end_s > $2) AND r.start_s < $3 AND ($4::uuid IS NULL OR r.id = $4)
	ORDER BY r.start_s, lower(part)`

// From where the last tick ended; the first begins with the earliest interval.
// At midnight in UTC one ends and the next begins, so that days and months of the
// ledger and of usage are the same days and months.
const insertTicks = `
	WITH span AS (
		SELECT last.to_s AS after_s, coalesce(last.to_s, least((SELECT start_s FROM usage_records ORDER BY start_s LIMIT 1), (SELECT start_s FROM usage_storage ORDER BY start_s LIMIT 1))) AS from_s, metering_clock() AS to_s
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

// One pass at a time, and each tick after the previous one. The primary key of usage_passes guarantees
// it as well.
const (
	lockCharge = `SELECT pg_try_advisory_xact_lock(hashtextextended('metering.charge', 0))`
	// Under the lock, in a statement of its own: it must see what the last pass did.
	selectNext = `
		SELECT EXISTS (SELECT FROM usage_ticks t WHERE t.to_s = $1 AND NOT EXISTS (SELECT FROM usage_passes p WHERE p.to_s = t.to_s)
			AND (t.after_s IS NULL OR EXISTS (SELECT FROM usage_passes p WHERE p.to_s = t.after_s)))`
)

// due of a rate per hour after n seconds. Whole hours first: the product of a
// high rate and many seconds would not fit, while this does for a century.
func due(n string) string {
	return `(r.gpus * r.price_minor * (` + n + ` / 3600) + r.gpus * r.price_minor * (` + n + ` % 3600) / 3600)`
}

// used returns the SQL for the seconds of an interval before the second that until names. An open
// interval lasts until now.
func used(until string) string {
	return `greatest(least(coalesce(r.end_s, now.s), ` + until + `) - r.start_s, 0)`
}

// What an interval owes of a tick is what is due at the tick's end less what was
// due at its beginning. Nothing that is committed after the cut can change either,
// so a pass may be late, and may be made again to compare.
var charges = ledger.Charges{
	With: `pass AS (INSERT INTO usage_passes (to_s) VALUES ($2::bigint))`,
	Query: `
		SELECT r.account_id, r.allocation_id, r.currency, ` + due(`($2::bigint - r.start_s)`) + ` - ` + due(`greatest($1::bigint - r.start_s, 0)`) + ` AS amount_minor
		FROM usage_records r WHERE r.end_s IS NULL AND r.start_s < $2::bigint
		UNION ALL
		SELECT r.account_id, r.allocation_id, r.currency, ` + due(`(least(r.end_s, $2::bigint) - r.start_s)`) + ` - ` + due(`greatest($1::bigint - r.start_s, 0)`) + `
		FROM usage_records r WHERE r.end_s > $1::bigint AND r.start_s < $2::bigint`,
	Reference: `$2::text`,
	At:        `to_timestamp($2::bigint - 1)`, // within the tick's own day and month
}

var (
	chargeUsage  = ledger.UsageStatement(charges)
	compareUsage = ledger.UsageComparison(charges)
)

const selectPasses = `
	SELECT t.from_s, t.to_s FROM usage_ticks t JOIN usage_passes p ON p.to_s = t.to_s
	WHERE t.to_s > $1 AND t.from_s < $2 ORDER BY t.to_s`

// selectUsage has one statement for each key. Both ends of the window cut an interval; its cost is the
// amount due between the cuts. The condition on the end has two parts, one for each index.
var selectUsage = map[By]string{
	ByAllocation: usageBy(`r.allocation_id::text`, `r.allocation_id::text`, ``, `$2::bigint`, `$3::bigint`, ``),
	ByProject:    usageBy(`r.project_id::text`, `r.project_id::text`, ``, `$2::bigint`, `$3::bigint`, `r.project_id::text`),
	BySKU:        usageBy(`r.sku`, `r.sku`, ``, `$2::bigint`, `$3::bigint`, `'storage/' || r.class`),
	ByUser:       usageBy(`coalesce(r.user_id::text, '')`, `coalesce(r.user_id::text, '')`, ``, `$2::bigint`, `$3::bigint`, `''::text`),
	// An interval has a line for each day of UTC that it touches within the window.
	ByDay: usageBy(dayOf(`to_timestamp(day.s)`), dayOf(`c.at`), `
			CROSS JOIN LATERAL generate_series(greatest(r.start_s, $2::bigint) / 86400 * 86400, least(coalesce(r.end_s, now.s), $3::bigint) - 1, 86400) AS day(s)`,
		`greatest($2::bigint, day.s)`, `least($3::bigint, day.s + 86400)`, dayOf(`to_timestamp(day.s)`)),
}

func dayOf(at string) string { return `to_char(` + at + ` AT TIME ZONE 'UTC', 'YYYY-MM-DD')` }

// The lines of stored bytes have another key, or none.
func usageBy(key, creditKey, join, from, to, storedKey string) string {
	columns := `r.allocation_id, r.project_id, r.user_id, r.sku, r.gpus, r.price_minor, r.currency, r.start_s, r.end_s`
	stored := ``
	if storedKey != "" {
		stored = `
		UNION ALL
		SELECT ` + storedKey + ` COLLATE "C", NULL, r.project_id, NULL, 'storage', 0, r.price_minor, r.currency, r.start_s, r.end_s, 0, ` + storedCost(from, to) + `, 0,
			` + sinceStart(`byte_seconds`, `bytes`, to) + ` - ` + sinceStart(`byte_seconds`, `bytes`, from) + `
		FROM usage_storage r CROSS JOIN now` + join + `
		WHERE r.org_id = $1 AND r.start_s < $3::bigint AND (r.end_s IS NULL OR r.end_s > $2::bigint) AND ($4::uuid IS NULL OR r.project_id = $4)
			AND (r.owed > 0 OR r.rate > 0)`
	}
	return `
	WITH now AS MATERIALIZED (
		SELECT metering_now() AS s
	), lines AS (
		SELECT ` + key + ` COLLATE "C" AS key, ` + columns + `, ` + used(to) + ` - ` + used(from) + ` AS seconds,
			` + due(used(to)) + ` - ` + due(used(from)) + ` AS cost, 0::bigint AS credit, 0::numeric AS byte_seconds
		FROM usage_records r CROSS JOIN now` + join + `
		WHERE r.org_id = $1 AND r.start_s < $3::bigint AND (r.end_s IS NULL OR r.end_s > $2::bigint) AND ($4::uuid IS NULL OR r.project_id = $4)
		UNION ALL
		SELECT ` + creditKey + ` COLLATE "C", ` + columns + `, 0, 0, c.amount_minor, 0
		FROM usage_credits c JOIN usage_records r ON r.id = c.record_id
		WHERE c.org_id = $1 AND c.at >= to_timestamp($2::bigint) AND c.at < to_timestamp($3::bigint) AND ($4::uuid IS NULL OR r.project_id = $4)` + stored + `
	)
	SELECT key, currency, sum(seconds)::bigint, sum(seconds * gpus)::bigint, sum(cost)::bigint, sum(credit)::bigint, div(sum(byte_seconds), 1073741824)::bigint,
		(array_agg(allocation_id))[1], (array_agg(project_id))[1], (array_agg(user_id))[1], min(sku), max(gpus), (array_agg(price_minor ORDER BY start_s DESC))[1],
		min(start_s), CASE WHEN bool_or(end_s IS NULL) THEN NULL ELSE max(end_s) END
	FROM lines WHERE key > $5 COLLATE "C" GROUP BY key, currency ORDER BY key LIMIT $6`
}

var selectCosts = `
	WITH now AS MATERIALIZED (SELECT metering_now() AS s)
	SELECT r.allocation_id, sum(` + due(`greatest(coalesce(r.end_s, now.s) - r.start_s, 0)`) + `)::bigint
		- coalesce(sum((SELECT sum(c.amount_minor) FROM usage_credits c WHERE c.record_id = r.id)), 0)::bigint
	FROM usage_records r CROSS JOIN now WHERE r.allocation_id = ANY($1::uuid[]) GROUP BY r.allocation_id`

var selectIntervals = `
	WITH now AS MATERIALIZED (SELECT metering_now() AS s)
	SELECT r.id, r.allocation_id, r.project_id, r.user_id, r.sku, r.gpus, r.price_minor, r.currency, r.start_s, r.end_s,
		r.opened_by, r.opened_observation, r.closed_by, r.closed_observation, greatest(coalesce(r.end_s, now.s) - r.start_s, 0),
		` + due(`greatest(coalesce(r.end_s, now.s) - r.start_s, 0)`) + `, coalesce(c.amount_minor, 0), c.reason
	FROM usage_records r CROSS JOIN now LEFT JOIN LATERAL (
		SELECT sum(amount_minor)::bigint AS amount_minor, max(reason) AS reason FROM usage_credits WHERE record_id = r.id) c ON true
	WHERE r.org_id = $1 AND r.start_s < $3::bigint AND (r.end_s IS NULL OR r.end_s > $2::bigint)
		AND ($4::uuid IS NULL OR r.project_id = $4) AND ($5::uuid IS NULL OR r.allocation_id = $5)
		AND ($6::uuid = '00000000-0000-0000-0000-000000000000'
			OR (r.start_s, r.id) > (SELECT start_s, id FROM usage_records WHERE id = $6 AND org_id = $1))
	ORDER BY r.start_s, r.id LIMIT $7`

const selectBurn = `
	SELECT (coalesce((SELECT sum(gpus * price_minor) FROM usage_records WHERE org_id = $1 AND end_s IS NULL), 0)
		+ coalesce((SELECT div(sum(rate), ` + storedPerHour + `) FROM usage_storage WHERE org_id = $1 AND end_s IS NULL AND rate > 0), 0))::bigint`
