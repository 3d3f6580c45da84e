package ledger

const ensureAccounts = `SELECT ledger_ensure_accounts($1, $2)`

// sumNow is what account a holds: its newest checkpoint and what came after it. An
// id that is sealed can no longer appear: Seal waited for everyone who might have
// held one. CASE, because row-level security lets it into the index, and coalesce
// not. The sum is numeric until the end, so that it fails where it does not fit.
const (
	sumNow = `(coalesce(c.balance_minor, 0) + coalesce((
			SELECT sum(e.amount_minor) FROM ledger_entries e
			WHERE e.account_id = a.id AND e.id > CASE WHEN c.up_to IS NULL THEN 0 ELSE c.up_to END), 0))`

	newestCheckpoint = `LEFT JOIN LATERAL (
		SELECT up_to, balance_minor, chain FROM ledger_checkpoints
		WHERE account_id = a.id ORDER BY up_to DESC LIMIT 1) c ON true`
)

const selectBalance = `
	SELECT ` + sumNow + `::bigint, a.currency
	FROM ledger_accounts a ` + newestCheckpoint + `
	WHERE a.org_id = $1 AND a.name = 'balance'`

const selectBalances = `
	SELECT a.org_id, ` + sumNow + `::bigint, a.currency
	FROM ledger_accounts a ` + newestCheckpoint + `
	WHERE a.org_id = ANY ($1::uuid[]) AND a.name = 'balance'`

// Only the partitions of the months since are read for what is taken away.
const selectBalanceAt = `
	SELECT (` + sumNow + ` - coalesce((
			SELECT sum(e.amount_minor) FROM ledger_entries e WHERE e.account_id = a.id AND e.at >= $2), 0))::bigint
	FROM ledger_accounts a ` + newestCheckpoint + `
	WHERE a.org_id = $1 AND a.name = 'balance'`

// An account of the platform has no tenant, and no index knows null = null: so
// either half of the union finds one row, and the other is not run.
func account(tenant, name string) string {
	return `SELECT id FROM ledger_accounts WHERE org_id = ` + tenant + `::uuid AND name = ` + name + ` AND currency = $10
		UNION ALL SELECT id FROM ledger_accounts WHERE ` + tenant + `::uuid IS NULL AND org_id IS NULL AND name = ` + name + ` AND currency = $10`
}

var insertTransfer = `
	WITH giver AS (` + account("$5", "$6") + `
	), taker AS (` + account("$7", "$8") + `
	), fresh AS (
		INSERT INTO ledger_transfers (id, kind, reference, note)
		SELECT $1::uuid, $2::text, $3::text, $4::text FROM giver, taker WHERE $9::bigint > 0
		ON CONFLICT (kind, reference) DO NOTHING RETURNING id
	), posted AS (
		INSERT INTO ledger_entries (transfer_id, account_id, allocation_id, amount_minor, currency)
		SELECT fresh.id, side.account, $11::uuid, side.amount, $10
		FROM fresh, giver, taker, LATERAL (VALUES (giver.id, -$9), (taker.id, $9)) AS side (account, amount)
	)
	SELECT EXISTS (SELECT FROM giver), EXISTS (SELECT FROM taker), EXISTS (SELECT FROM fresh)`

const ofTenant = `
	FROM ledger_entries e JOIN ledger_transfers t ON t.id = e.transfer_id
	WHERE e.account_id = (SELECT a.id FROM ledger_accounts a WHERE a.org_id = $1 AND a.name = 'balance')
		AND e.at >= coalesce($2::timestamptz, '-infinity') AND e.at < coalesce($3::timestamptz, 'infinity')`

const selectEntries = `
	SELECT e.id, e.at, e.transfer_id, t.kind, t.reference, t.note, e.allocation_id, e.amount_minor, e.currency` + ofTenant + `
		AND ($4 = '' OR t.kind = $4) AND ($5::uuid IS NULL OR e.allocation_id = $5) AND e.id > $6
	ORDER BY e.id LIMIT $7`

const sumByKind = `
	SELECT t.kind, sum(e.amount_minor)::bigint` + ofTenant + `
	GROUP BY t.kind`

// An entry as its account's chain takes it, whatever the session's settings.
const entryText = `concat_ws(' ', id, transfer_id, coalesce(allocation_id::text, '-'), amount_minor, currency, extract(epoch FROM at))`

// Its lock waits until every open transaction that has posted is over, and lets
// no new one begin until the id is read. It is held for no longer than that.
const (
	lockEntries  = `SELECT ledger_await_postings()`
	impatient    = `SET LOCAL lock_timeout = '1s'`
	patient      = `SET LOCAL statement_timeout = '10min'`
	selectLastID = `SELECT coalesce(max(id), 0) FROM ledger_entries`
	// By account, so that it reads the tails and not the history.
	sealCheckpoint = `
	INSERT INTO ledger_checkpoints (account_id, up_to, balance_minor, chain)
	SELECT a.id, $1, coalesce(c.balance_minor, 0) + tail.sum, sha256(coalesce(c.chain, '') || tail.chain)
	FROM ledger_accounts a LEFT JOIN LATERAL (
		SELECT up_to, balance_minor, chain FROM ledger_checkpoints
		WHERE account_id = a.id ORDER BY up_to DESC LIMIT 1) c ON true
	CROSS JOIN LATERAL (
		SELECT count(*) AS n, sum(amount_minor)::bigint AS sum, ledger_chain(` + entryText + ` ORDER BY id) AS chain FROM ledger_entries
		WHERE account_id = a.id AND id > coalesce(c.up_to, 0) AND id <= $1) tail
	WHERE tail.n >= greatest($2, 1)
	ON CONFLICT (account_id, up_to) DO NOTHING`
)

// Every balance derived again from the first entry, against what is told of it;
// every checkpoint against its own sum; every transfer against zero.
const selectDifference = `
	WITH derived AS (
		SELECT account_id, sum(amount_minor) AS sum FROM ledger_entries GROUP BY account_id
	), told AS (
		SELECT a.id AS account_id, coalesce(c.balance_minor, 0) + coalesce((
			SELECT sum(e.amount_minor) FROM ledger_entries e
			WHERE e.account_id = a.id AND e.id > coalesce(c.up_to, 0)), 0) AS sum
		FROM ledger_accounts a LEFT JOIN LATERAL (
			SELECT up_to, balance_minor FROM ledger_checkpoints
			WHERE account_id = a.id ORDER BY up_to DESC LIMIT 1) c ON true
	)
	SELECT
		(SELECT coalesce(sum(abs(coalesce(d.sum, 0) - coalesce(t.sum, 0))), 0) FROM derived d FULL JOIN told t USING (account_id))::bigint,
		(SELECT coalesce(sum(abs(sum)), 0) FROM (
			SELECT sum(amount_minor) AS sum FROM ledger_entries GROUP BY transfer_id, currency) x)::bigint`

// Checkpoints that their entries, or the checkpoint before, no longer lead to.
const selectBroken = `
	SELECT count(*) FROM (
		SELECT account_id, up_to, chain, lag(up_to, 1, 0::bigint) OVER w AS after, lag(chain, 1, ''::bytea) OVER w AS before
		FROM ledger_checkpoints WINDOW w AS (PARTITION BY account_id ORDER BY up_to)) c
	CROSS JOIN LATERAL (
		SELECT ledger_chain(` + entryText + ` ORDER BY id) AS chain FROM ledger_entries
		WHERE account_id = c.account_id AND id > c.after AND id <= c.up_to) e
	WHERE sha256(c.before || coalesce(e.chain, '')) <> c.chain`
