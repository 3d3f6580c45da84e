package ledger

// Charges is the input of a usage pass from another package: the text of a query with the columns
// account_id uuid, allocation_id uuid, currency text and amount_minor bigint (above zero if the tenant
// pays), and the reference of the pass.
type Charges struct {
	With      string // common table expressions that Query and Reference use; may be empty
	Query     string
	Reference string // an SQL text expression, one value for the whole pass
	At        string // an SQL timestamptz expression: when it is booked, the last second of the pass
}

// UsageStatement returns the statement that posts a pass of usage: for each account one transfer, in it
// one entry per allocation and one for revenue. The statement returns the number of transfers.
//
// It is text, because the two other ways cost more than the posting itself. A function that receives
// arrays makes PostgreSQL build and unpack a million values, and a temporary table writes every row
// twice. As text, the rows go from the scan of the intervals straight into the entries. The tables of
// this package are named only here; the caller's text names its own.
//
// The statement contains the query twice, once for the sums and once for the entries: to compute a
// charge again is cheaper than to store it.
func UsageStatement(c Charges) string {
	with := `WITH `
	if c.With != "" {
		with += c.With + `,`
	}
	return `
	` + with + `
	totals AS MATERIALIZED (
		SELECT gen_random_uuid() AS transfer_id, account_id, currency, sum(amount_minor)::bigint AS amount_minor
		FROM (` + c.Query + `) AS charges WHERE amount_minor <> 0 GROUP BY account_id, currency
	),
	transfers AS (
		-- Without a tenant's account in that currency it has no reference, and the pass fails.
		INSERT INTO ledger_transfers (id, kind, reference, org_id, amount_minor)
		SELECT transfer_id, 'usage', CASE WHEN a.org_id IS NOT NULL THEN ` + c.Reference + ` || ' ' || account_id END, a.org_id, -amount_minor
		FROM totals t LEFT JOIN ledger_accounts a ON a.id = t.account_id AND a.currency = t.currency
		RETURNING id
	),
	entries AS (
		INSERT INTO ledger_entries (transfer_id, account_id, allocation_id, amount_minor, currency, at)
		SELECT t.transfer_id, t.account_id, charges.allocation_id, -charges.amount_minor, t.currency, ` + c.At + `
		FROM (` + c.Query + `) AS charges JOIN totals t USING (account_id, currency)
		WHERE charges.amount_minor <> 0
		UNION ALL
		-- Without a revenue account the entry has none, and the pass fails.
		SELECT t.transfer_id, a.id, NULL, t.amount_minor, t.currency, ` + c.At + `
		FROM totals t LEFT JOIN ledger_accounts a ON a.org_id IS NULL AND a.name = 'revenue' AND a.currency = t.currency
		WHERE t.amount_minor <> 0
	)
	SELECT count(*) FROM transfers`
}

// UsageComparison returns the statement that compares a pass with its entries: a row for each allocation
// with a difference, with its account, the amount of the query and the amount in the ledger.
func UsageComparison(c Charges) string {
	return `
	WITH computed AS (
		SELECT account_id, allocation_id, sum(amount_minor)::bigint AS amount_minor
		FROM (` + c.Query + `) AS charges WHERE amount_minor <> 0 GROUP BY account_id, allocation_id
	), posted AS (
		SELECT e.account_id, e.allocation_id, -sum(e.amount_minor)::bigint AS amount_minor
		FROM ledger_accounts a
		JOIN ledger_transfers t ON t.kind = 'usage' AND t.reference = ` + c.Reference + ` || ' ' || a.id
		JOIN ledger_entries e ON e.transfer_id = t.id AND e.at = ` + c.At + ` AND e.allocation_id IS NOT NULL
		GROUP BY e.account_id, e.allocation_id
	)
	SELECT account_id, allocation_id, coalesce(computed.amount_minor, 0), coalesce(posted.amount_minor, 0)
	FROM computed FULL JOIN posted USING (account_id, allocation_id)
	WHERE computed.amount_minor IS DISTINCT FROM posted.amount_minor ORDER BY account_id, allocation_id`
}
