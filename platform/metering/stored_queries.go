package metering

import "github.com/gpuaas/gpuaas/platform/ledger"

const storeBytes = `SELECT poor, balance, currency FROM metering_store($1, $2, $3, $4)`

// The units of rate and owed: one minor unit is the price of a GiB for 720 hours.
const (
	storedPrice   = `2783138807808000` // 2^30 × 720 × 3600
	storedPerHour = `773094113280`     // 2^30 × 720
)

// sinceStart returns the SQL for a sum of a record from its start to a second: value at the last change, and rate since.
// Ticks and days end where it is exact. A second before the last change, which only a window of usage can have, gets its
// share of the time.
func sinceStart(value, rate, second string) string {
	u := `least(coalesce(r.end_s, now.s), ` + second + `)`
	return `CASE WHEN ` + u + ` >= r.changed_s THEN r.` + value + ` + r.` + rate + `::numeric * (` + u + ` - r.changed_s)
		WHEN ` + u + ` > r.start_s THEN div(r.` + value + ` * (` + u + ` - r.start_s), (r.changed_s - r.start_s)::numeric) ELSE 0 END`
}

// storedDue returns the SQL for the amount due at a second, of the record and all before it.
func storedDue(second string) string {
	return `div(r.owed_before + ` + sinceStart(`owed`, `rate`, second) + `, ` + storedPrice + `)`
}

// storedCost returns the SQL for the amount that a record owes of [from, to).
func storedCost(from, to string) string {
	return `(` + storedDue(to) + ` - ` + storedDue(from) + `)`
}

const setStoragePrice = `
	INSERT INTO usage_storage_price (class, price_minor, free_bytes, currency) VALUES ($1, $2, $3, $4)
	ON CONFLICT (one) DO UPDATE SET class = excluded.class, price_minor = excluded.price_minor, free_bytes = excluded.free_bytes, currency = excluded.currency`

const (
	lockTick   = `SELECT metering_moment()`
	lockStored = `LOCK TABLE usage_storage IN EXCLUSIVE MODE`
)

// The next record begins in the second in which the former one ends.
const repriceStored = `
	WITH moment AS MATERIALIZED (
		SELECT metering_moment() AS s
	), ended AS (
		UPDATE usage_storage r SET end_s = greatest(moment.s, r.changed_s) FROM moment, usage_storage_price p
		WHERE r.end_s IS NULL AND (r.class, r.price_minor, r.free_bytes, r.currency) IS DISTINCT FROM (p.class, p.price_minor, p.free_bytes, p.currency)
			AND NOT EXISTS (SELECT FROM ledger_balances b WHERE b.org_id = r.org_id AND b.currency <> p.currency AND p.price_minor > 0)
		RETURNING r.*
	)
	INSERT INTO usage_storage (project_id, org_id, class, price_minor, free_bytes, currency, account_id, start_s, changed_s, bytes, owed_before)
	SELECT e.project_id, e.org_id, p.class, p.price_minor, p.free_bytes, p.currency,
		CASE WHEN p.price_minor > 0 THEN ledger_ensure_accounts(e.org_id, p.currency) ELSE e.account_id END, e.end_s, e.end_s, e.bytes,
		e.owed_before + e.owed + e.rate * (e.end_s - e.changed_s)
	FROM ended e CROSS JOIN usage_storage_price p ORDER BY e.org_id`

// A pass reads the records that were open in its tick. A record without a price owes nothing, and has no account to charge.
const storedRecords = `
	FROM (
		SELECT * FROM usage_storage WHERE end_s IS NULL AND start_s < $2::bigint
		UNION ALL
		SELECT * FROM usage_storage WHERE end_s > $1::bigint AND start_s < $2::bigint
	) r CROSS JOIN (SELECT $2::bigint AS s) now`

var storedCharges = ledger.Charges{
	Query: `
		SELECT r.account_id, r.project_id AS subject, r.currency, sum(` + storedCost(`$1::bigint`, `$2::bigint`) + `::bigint)::bigint AS amount_minor` + storedRecords + `
		WHERE r.account_id IS NOT NULL GROUP BY r.account_id, r.project_id, r.currency`,
	Reference: `$2::text`,
	At:        `to_timestamp($2::bigint - 1)`,
}

var (
	chargeStored  = ledger.StorageStatement(storedCharges)
	compareStored = ledger.StorageComparison(storedCharges)
)

const selectStorageBurn = `
	SELECT coalesce(div(sum(rate), ` + storedPerHour + `), 0)::bigint FROM usage_storage
	WHERE org_id = $1 AND end_s IS NULL AND rate > 0 AND ($2::uuid IS NULL OR project_id = $2)`

const selectStorageBurns = `
	SELECT coalesce(div(sum(rate) FILTER (WHERE project_id = $2), ` + storedPerHour + `), 0)::bigint, coalesce(div(sum(rate), ` + storedPerHour + `), 0)::bigint
	FROM usage_storage WHERE org_id = $1 AND end_s IS NULL AND rate > 0`

const selectPaying = `
	SELECT org_id, sum(bytes)::bigint FROM usage_storage WHERE org_id = ANY ($1::uuid[]) AND end_s IS NULL AND rate > 0 GROUP BY org_id`

const sumStored = `SELECT coalesce(sum(greatest(bytes - $1, 0)), 0)::bigint FROM usage_storage WHERE end_s IS NULL`

// In two parts, one for each index.
var selectStoredUses = `
	WITH now AS MATERIALIZED (SELECT metering_now() AS s)
	SELECT r.project_id, r.currency,
		sum(` + sinceStart(`byte_seconds`, `bytes`, `$3::bigint`) + ` - ` + sinceStart(`byte_seconds`, `bytes`, `$2::bigint`) + `)::text,
		sum(` + storedCost(`$2::bigint`, `$3::bigint`) + `)::bigint
	FROM usage_storage r CROSS JOIN now
	WHERE r.org_id = $1 AND r.start_s < $3::bigint AND (r.end_s IS NULL OR r.end_s > $2::bigint) AND ($4::uuid IS NULL OR r.project_id = $4)
	GROUP BY r.project_id, r.currency HAVING sum(` + sinceStart(`byte_seconds`, `bytes`, `$3::bigint`) + ` - ` + sinceStart(`byte_seconds`, `bytes`, `$2::bigint`) + `) > 0
	ORDER BY r.project_id, r.currency`
