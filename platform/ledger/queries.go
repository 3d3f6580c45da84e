package ledger

const ensureAccounts = `SELECT ledger_ensure_accounts($1, $2)`

// sumNow is the balance of a tenant's account a: its newest checkpoint and the transfers since. No
// transaction can add a number below a seal, because Seal waits for every transaction that may have one.
// CASE is used because row-level security lets PostgreSQL use the index with it, and not with coalesce.
// The sum is numeric until the end, so an overflow is an error.
const (
	sumNow = `(coalesce(c.balance_minor, 0) + coalesce((
			SELECT sum(t.amount_minor) FROM ledger_transfers t
			WHERE t.org_id = a.org_id AND t.seq > CASE WHEN c.up_to IS NULL THEN 0 ELSE c.up_to END), 0))`

	newestCheckpoint = `LEFT JOIN LATERAL (
		SELECT up_to, balance_minor, chain FROM ledger_checkpoints
		WHERE account_id = a.id ORDER BY up_to DESC LIMIT 1) c ON true`
)

const selectBalance = `SELECT balance_minor, currency FROM ledger_balances WHERE org_id = $1`

const selectBalances = `SELECT org_id, balance_minor, currency FROM ledger_balances WHERE org_id = ANY ($1::uuid[])`

// The subtraction reads only the partitions of the months since.
const selectBalanceAt = `
	SELECT (` + sumNow + ` - coalesce((
			SELECT sum(e.amount_minor) FROM ledger_entries e WHERE e.account_id = a.id AND e.at >= $2), 0))::bigint
	FROM ledger_accounts a ` + newestCheckpoint + `
	WHERE a.org_id = $1 AND a.name = 'balance'`

const insertTransfer = `SELECT giver, taker, coalesce(posted, false) FROM ledger_post($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`

const ofTenant = `
	FROM ledger_entries e JOIN ledger_transfers t ON t.id = e.transfer_id
	WHERE e.account_id = (SELECT a.id FROM ledger_accounts a WHERE a.org_id = $1 AND a.name = 'balance')
		AND e.at >= coalesce($2::timestamptz, '-infinity') AND e.at < coalesce($3::timestamptz, 'infinity')`

// Statement returns the statement that lists the entries of the subset.
func (s Subset) Statement() string {
	and := ""
	if s.Condition != "" {
		and = ` AND ` + s.Condition
	}
	return `
	SELECT e.id, e.at, e.transfer_id, t.kind, t.reference, t.note, e.allocation_id, e.amount_minor, e.currency` + ofTenant + `
		AND ($4 = '' OR t.kind = $4) AND ($5::uuid = '00000000-0000-0000-0000-000000000000' OR e.allocation_id = $5) AND e.id > $6` + and + `
	ORDER BY e.id LIMIT $7`
}

const sumByKind = `
	SELECT t.kind, sum(e.amount_minor)::bigint` + ofTenant + `
	GROUP BY t.kind`

// The columns of an entry, its transfer, a checkpoint and its account that enter the chain. They are
// encoded as rows, so that no text can pass as its neighbour, whatever the session's settings.
const (
	entryText = `row(e.id, e.transfer_id, e.allocation_id, e.amount_minor, e.currency, extract(epoch FROM e.at),
			t.kind, t.reference, t.note, extract(epoch FROM t.at), t.seq, t.org_id, t.amount_minor)::text`

	sealText = `row(a.id, a.org_id, a.name, a.currency, c.org_id, c.up_to, c.balance_minor, extract(epoch FROM c.sealed_at))::text`
)

// The lock waits until every open transaction with a posting has ended, and blocks new ones until the id
// is read. It is released right after that.
const (
	lockEntries = `SELECT ledger_await_transfers()`
	impatient   = `SET LOCAL lock_timeout = '1s'`
	patient     = `SET LOCAL statement_timeout = '10min'`
	snapshot    = `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY`
	// Of entries and transfers. Who posts has the lock before he has a number.
	selectLastID = `SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM ledger_entries_id_seq`

	// Two concurrent seals would both follow the same checkpoint.
	lockSeals = `SELECT pg_advisory_xact_lock(hashtextextended('ledger.seal', 0))`

	// By account, so that the statement reads the newest entries and not the history. A balance that
	// would overflow is left out and does not prevent the seals of the others.
	sealAccounts = `
	WITH chunk AS (
		SELECT id, org_id, name, currency FROM ledger_accounts WHERE id > $2 ORDER BY id LIMIT $3
	), sealed AS (
		INSERT INTO ledger_checkpoints (account_id, org_id, up_to, balance_minor, chain, sealed_at)
		SELECT a.id, c.org_id, c.up_to, c.balance_minor, sha256(coalesce(before.chain, '') || tail.chain || convert_to(` + sealText + `, 'UTF8')), c.sealed_at
		FROM chunk a
		LEFT JOIN LATERAL (
			SELECT up_to, balance_minor, chain FROM ledger_checkpoints WHERE account_id = a.id ORDER BY up_to DESC LIMIT 1) before ON true
		CROSS JOIN LATERAL (
			SELECT count(*) AS n, sum(e.amount_minor) AS sum, ledger_chain(` + entryText + ` ORDER BY e.id) AS chain
			FROM ledger_entries e LEFT JOIN ledger_transfers t ON t.id = e.transfer_id
			WHERE e.account_id = a.id AND e.id > coalesce(before.up_to, 0) AND e.id <= $1) tail
		CROSS JOIN LATERAL (SELECT a.org_id, $1::bigint AS up_to, coalesce(before.balance_minor, 0) + tail.sum AS balance_minor, now() AS sealed_at) c
		WHERE tail.n > 0 AND c.balance_minor BETWEEN ` + smallest + ` AND ` + largest + `
	)
	SELECT id FROM chunk ORDER BY id DESC LIMIT 1`

	smallest, largest = `-9223372036854775808`, `9223372036854775807`
)

// inRange returns a sum as a number of 63 bits, the nearest one if it does not fit, so that the report
// of a fault never fails itself.
func inRange(sum string) string {
	return `greatest(least(` + sum + `, ` + largest + `), ` + smallest + `)::bigint`
}

// A tenant's balance, or where $1 is null every account.
const (
	requestedAccounts = `($1::uuid IS NULL OR a.org_id = $1 AND a.name = 'balance')`
	requestedEntries  = `($1::uuid IS NULL OR e.account_id = (SELECT a.id FROM ledger_accounts a WHERE a.org_id = $1 AND a.name = 'balance'))`
)

// sumOfPlatform is the balance of an account of the platform, which transfers do not name.
const sumOfPlatform = `(coalesce(c.balance_minor, 0) + coalesce((
			SELECT sum(e.amount_minor) FROM ledger_entries e WHERE e.account_id = a.id AND e.id > coalesce(c.up_to, 0)), 0))`

// Every balance, derived again from the first entry, next to the reported balance. Entries of a missing
// account have no name.
var selectDerived = `
	WITH derived AS (
		SELECT e.account_id, count(*) AS n, sum(e.amount_minor) AS sum FROM ledger_entries e WHERE ` + requestedEntries + ` GROUP BY e.account_id
	), reported AS (
		SELECT a.id, a.org_id, a.name, a.currency, CASE WHEN a.org_id IS NOT NULL THEN ` + sumNow + ` ELSE ` + sumOfPlatform + ` END AS sum
		FROM ledger_accounts a ` + newestCheckpoint + ` WHERE ` + requestedAccounts + `
	)
	SELECT coalesce(reported.id, derived.account_id) AS id, coalesce(reported.org_id, '00000000-0000-0000-0000-000000000000'), coalesce(reported.name, ''), coalesce(reported.currency, ''),
		coalesce(derived.n, 0), ` + inRange(`coalesce(derived.sum, 0)`) + `, ` + inRange(`coalesce(reported.sum, 0)`) + `,
		` + inRange(`abs(coalesce(derived.sum, 0) - coalesce(reported.sum, 0))`) + `
	FROM reported FULL JOIN derived ON derived.account_id = reported.id
	ORDER BY 1`

// The seals and the entries of the accounts from one id to another.
const (
	selectSeals = `
	SELECT c.account_id, c.up_to, c.balance_minor, c.chain, c.sealed_at, ` + sealText + `
	FROM ledger_checkpoints c LEFT JOIN ledger_accounts a ON a.id = c.account_id
	WHERE c.account_id BETWEEN $1 AND $2 ORDER BY c.account_id, c.up_to`

	selectLinks = `
	SELECT e.account_id, e.id, e.amount_minor, e.currency, coalesce(t.at, e.at), ` + entryText + `
	FROM ledger_entries e LEFT JOIN ledger_transfers t ON t.id = e.transfer_id
	WHERE e.account_id BETWEEN $1 AND $2 ORDER BY e.account_id, e.id`
)

// Transfers that are none: without entries, with entries that do not sum to zero
// in one currency, or entries without a transfer. It names one account of each,
// a tenant's if there is one.
var selectUnbalanced = `
	SELECT bad.id, bad.lost, bad.sum, bad.first, bad.last, coalesce(a.id, '00000000-0000-0000-0000-000000000000'),
		coalesce(a.org_id, '00000000-0000-0000-0000-000000000000'), coalesce(a.name, '')
	FROM (
		SELECT coalesce(t.id, sums.transfer_id) AS id, t.id IS NULL AS lost, ` + inRange(`coalesce(sums.sum, 0)`) + ` AS sum,
			coalesce(sums.first, 0) AS first, coalesce(sums.last, 0) AS last
		FROM (
			SELECT t.id FROM ledger_transfers t WHERE $1::uuid IS NULL OR t.id IN (SELECT e.transfer_id FROM ledger_entries e WHERE ` + requestedEntries + `)
		) t FULL JOIN (
			SELECT e.transfer_id, sum(e.amount_minor) AS sum, min(e.currency) <> max(e.currency) AS mixed, min(e.id) AS first, max(e.id) AS last
			FROM ledger_entries e WHERE $1::uuid IS NULL OR e.transfer_id IN (SELECT e.transfer_id FROM ledger_entries e WHERE ` + requestedEntries + `)
			GROUP BY e.transfer_id
		) sums ON sums.transfer_id = t.id
		WHERE t.id IS NULL OR sums.transfer_id IS NULL OR sums.sum <> 0 OR sums.mixed
		LIMIT $2) bad
	LEFT JOIN LATERAL (
		SELECT a.id, a.org_id, a.name FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id
		WHERE e.transfer_id = bad.id ORDER BY a.org_id NULLS LAST LIMIT 1) a ON true
	ORDER BY bad.first, bad.id`
