package billing

// Rows are locked by ascending id, so that two passes wait for each other and never deadlock. A row that
// another pass has just inserted blocks until that pass ends.
const (
	insertNotices = `
		INSERT INTO balance_notices (org_id)
		SELECT org FROM unnest($1::uuid[]) AS org
		WHERE NOT EXISTS (SELECT FROM balance_notices n WHERE n.org_id = org)
		ORDER BY org ON CONFLICT DO NOTHING`

	lockNotices = `
		SELECT org_id, low_since, low_notified_at, pending_since, releases_at, depleted_at, storage_deletes_at, storage_notified_at, sequence, clock_timestamp()
		FROM balance_notices WHERE org_id = ANY ($1::uuid[]) ORDER BY org_id FOR UPDATE`

	updateNotices = `
		UPDATE balance_notices
		SET low_since = $2, low_notified_at = $3, pending_since = $4, releases_at = $5, depleted_at = $6, sequence = $7, storage_deletes_at = $8, storage_notified_at = $9
		WHERE org_id = $1`

	// Tenants with a notice that may no longer apply.
	selectPendingNotices = `
		SELECT org_id FROM balance_notices WHERE low_since IS NOT NULL OR pending_since IS NOT NULL OR depleted_at IS NOT NULL OR storage_deletes_at IS NOT NULL`

	selectOverdueFiles = `
		SELECT org_id FROM balance_notices WHERE org_id = ANY ($1::uuid[]) AND storage_deletes_at <= clock_timestamp() AND storage_notified_at < storage_deletes_at`

	selectFilesDeletion = `SELECT storage_deletes_at FROM balance_notices WHERE org_id = $1 AND storage_notified_at < storage_deletes_at`

	selectPending = `SELECT pending_since IS NOT NULL FROM balance_notices WHERE org_id = $1`
)
