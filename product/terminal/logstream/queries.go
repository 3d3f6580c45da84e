package logstream

const (
	// Of servers that have failed.
	deleteOld = `
	DELETE FROM log_streams WHERE id IN (SELECT id FROM log_streams WHERE seen_at < now() - 4 * $1::interval ORDER BY seen_at LIMIT $2)`

	deleteSilent = `DELETE FROM log_streams WHERE seen_at < now() - 4 * $1::interval`

	// Two openings must not both be the last one below a limit.
	lockOpening = `
	SELECT pg_advisory_xact_lock(hashtext('log_streams'), hashtext(x)) FROM unnest(ARRAY[$1::text, $2::text, $3::text]) AS x WHERE x IS NOT NULL ORDER BY x`

	countOpen = `
	SELECT (SELECT count(*) FROM log_streams WHERE principal = $1 AND seen_at > now() - $4::interval),
		(SELECT count(*) FROM log_streams WHERE (allocation_id = $2 OR node_id = $3) AND seen_at > now() - $4::interval)`

	insertStream = `
	INSERT INTO log_streams (id, hash, org_id, project_id, allocation_id, node_id, principal, query, trace) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`

	beat         = `UPDATE log_streams SET seen_at = now() WHERE id = $1`
	deleteStream = `DELETE FROM log_streams WHERE id = $1`

	redeem = `
	UPDATE log_streams SET hash = NULL WHERE hash = $1 AND seen_at > now() - $2::interval
	RETURNING node_id, allocation_id, query, trace`

	selectTarget = `SELECT node_id, fence FROM log_targets WHERE allocation_id = $1`
)
