package ledger

// StorageStatement returns the statement that posts a pass of stored bytes. The query has the column subject uuid, the project,
// in place of an allocation, and one row for each project. Each row with an amount is one transfer, whose reference ends with
// the project. The statement returns the number of transfers.
func StorageStatement(c Charges) string {
	return `
	WITH charges AS MATERIALIZED (
		SELECT gen_random_uuid() AS transfer_id, account_id, subject, currency, amount_minor FROM (` + c.Query + `) AS charges WHERE amount_minor <> 0
	),
	transfers AS (
		-- Without a tenant's account in that currency it has no reference, and the pass fails.
		INSERT INTO ledger_transfers (id, kind, reference, org_id, amount_minor)
		SELECT c.transfer_id, 'storage', CASE WHEN a.org_id IS NOT NULL THEN ` + c.Reference + ` || ' ' || c.subject END, a.org_id, -c.amount_minor
		FROM charges c LEFT JOIN ledger_accounts a ON a.id = c.account_id AND a.currency = c.currency
		RETURNING id
	),
	entries AS (
		INSERT INTO ledger_entries (transfer_id, account_id, amount_minor, currency, at)
		SELECT transfer_id, account_id, -amount_minor, currency, ` + c.At + ` FROM charges
		UNION ALL
		-- Without a revenue account the entry has none, and the pass fails.
		SELECT c.transfer_id, a.id, c.amount_minor, c.currency, ` + c.At + `
		FROM charges c LEFT JOIN ledger_accounts a ON a.org_id IS NULL AND a.name = 'revenue' AND a.currency = c.currency
	)
	SELECT count(*) FROM transfers`
}

// StorageComparison returns the statement that compares a pass with its entries: a row for each project with a difference, with
// its account, the amount of the query and the amount in the ledger.
func StorageComparison(c Charges) string {
	return `
	WITH computed AS (
		SELECT account_id, subject, amount_minor FROM (` + c.Query + `) AS charges WHERE amount_minor <> 0
	), posted AS (
		SELECT e.account_id, split_part(t.reference, ' ', 2)::uuid AS subject, -sum(e.amount_minor)::bigint AS amount_minor
		FROM ledger_entries e JOIN ledger_transfers t ON t.id = e.transfer_id AND t.kind = 'storage' AND t.reference LIKE ` + c.Reference + ` || ' %'
		JOIN ledger_accounts a ON a.id = e.account_id AND a.name = 'balance'
		WHERE e.at = ` + c.At + ` GROUP BY 1, 2
	)
	SELECT account_id, subject, coalesce(computed.amount_minor, 0), coalesce(posted.amount_minor, 0)
	FROM computed FULL JOIN posted USING (account_id, subject)
	WHERE computed.amount_minor IS DISTINCT FROM posted.amount_minor ORDER BY account_id, subject`
}
