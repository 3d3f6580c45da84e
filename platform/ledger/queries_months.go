package ledger

const sumByMonth = `
	SELECT date_trunc('month', e.at AT TIME ZONE 'UTC') AS month, t.kind, sum(e.amount_minor)::bigint` + ofTenant + `
	GROUP BY 1, 2 ORDER BY 1, 2`

// What was written first was booked first, in the month at least: there is no use
// before a credit.
const selectFirst = `
	SELECT e.at FROM ledger_entries e
	WHERE e.account_id = (SELECT a.id FROM ledger_accounts a WHERE a.org_id = $1 AND a.name = 'balance')
	ORDER BY e.id LIMIT 1`

// By way of the transfers, of which use has one in a pass, whatever the number of
// its entries.
const selectMovements = `
	SELECT e.id, e.at, e.transfer_id, t.kind, t.reference, t.note, e.allocation_id, e.amount_minor, e.currency` + ofTenant + `
		AND t.org_id = $1 AND t.kind NOT IN ('usage', 'storage') AND e.id > $4
	ORDER BY e.id LIMIT $5`
