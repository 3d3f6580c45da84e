package evidence

const (
	columns = `id, org_id, kind, about, subject, cause, requested_by, correlation_id, status, attempts, failure_code, failure_message, number, sha256, size_bytes, key_id,
		public_key, object_key, created_at, updated_at, signed_at`

	// A cause has one bundle. The second request of it changes nothing.
	insertPending = `
	INSERT INTO evidence_bundles (id, org_id, kind, about, subject, cause, requested_by, correlation_id, created_at, updated_at)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, coalesce($9, now()), coalesce($9, now())) ON CONFLICT (kind, cause) DO NOTHING`
	insertFound = `
	INSERT INTO evidence_bundles (id, kind, about, subject, cause, requested_by, changed_at)
	SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[]) ON CONFLICT (kind, cause) DO NOTHING`
	selectChanged = `SELECT changed_at FROM evidence_bundles WHERE kind = $1 AND changed_at IS NOT NULL ORDER BY changed_at DESC LIMIT 1`
	countRecent   = `SELECT count(*) FROM evidence_bundles WHERE org_id = $1 AND requested_by = $2 AND created_at > now() - interval '1 day'`

	selectPage = `
	SELECT ` + columns + ` FROM evidence_bundles
	WHERE ($1 = '' OR kind = $1) AND ($2 = '' OR about = $2 OR subject = $2) AND ($3 = '00000000-0000-0000-0000-000000000000'::uuid OR id < $3)
		AND ($5 = '' OR status = $5)
	ORDER BY id DESC LIMIT $4`

	selectOne = `SELECT ` + columns + ` FROM evidence_bundles WHERE id = $1`
	// A bundle that fails again and again must not delay those that were never tried.
	selectPending = `SELECT id FROM evidence_bundles WHERE status = 'pending' ORDER BY attempts, id LIMIT $1`

	// The number counts attempts that end with the process, too.
	beginAttempt = `UPDATE evidence_bundles SET attempts = attempts + 1, updated_at = now() WHERE id = $1 AND status = 'pending' RETURNING ` + columns
	// $5: the cause is an outage, which uses up no attempt, but at most a time.
	failAttempt = `
	UPDATE evidence_bundles SET failure_code = $2, failure_message = $3, updated_at = now(), attempts = attempts - CASE WHEN $5 THEN 1 ELSE 0 END,
		status = CASE WHEN $4 OR NOT $5 AND attempts >= $6 OR $5 AND created_at < now() - $7::interval THEN 'failed' ELSE status END
	WHERE id = $1 AND status = 'pending' RETURNING ` + columns

	// The lock puts the numbers in sequence: without it two bundles would follow the same one.
	lockChain    = `SELECT pg_advisory_xact_lock(hashtextextended('evidence_bundles', 0))`
	lockOne      = `SELECT ` + columns + ` FROM evidence_bundles WHERE id = $1 FOR UPDATE`
	selectNewest = `SELECT number, sha256 FROM evidence_bundles WHERE number IS NOT NULL ORDER BY number DESC LIMIT 1`
	updateSigned = `
	UPDATE evidence_bundles SET status = 'signed', failure_code = '', failure_message = '', number = $2, previous = $3, sha256 = $4, size_bytes = $5, object_key = $6,
		key_id = $7, public_key = $8, signed_at = $9, updated_at = now() WHERE id = $1`
	selectFiles = `SELECT object_key FROM evidence_bundles WHERE object_key = ANY ($1)`

	selectMissing = `
	SELECT (SELECT count(*) FROM evidence_bundles WHERE status = 'pending' AND created_at < now() - interval '1 hour'),
		(SELECT count(*) FROM evidence_bundles WHERE status = 'failed' AND updated_at > now() - interval '1 day')`

	// The newest one stays: the next bundle follows it. The chain is cut from its start: a gap in it could be a removed
	// bundle.
	deleteOld = `
	DELETE FROM evidence_bundles WHERE id IN (
		SELECT id FROM evidence_bundles WHERE created_at < now() - $1::interval AND coalesce(signed_at, created_at) < now() - $1::interval
			AND (number IS NULL OR number < (SELECT max(number) FROM evidence_bundles)) ORDER BY number, id LIMIT $2)`
)
