package check

const (
	// The function is called here too, so that it notices a restart of the database within a minute.
	selectPosition = `SELECT after_key FROM storage_checks, storage_known_since()`
	selectState    = `
	SELECT c.unknown_last, c.unknown_uploads, c.collected, c.finished_at, count(*) FILTER (WHERE f.fault = 'missing'), count(*) FILTER (WHERE f.fault = 'damaged'), h.since
	FROM storage_checks c CROSS JOIN storage_history h LEFT JOIN storage_faults f ON true GROUP BY c.one, h.one`

	// A copy has the backend object of its original.
	selectFiles = `
	SELECT DISTINCT ON (object_key) object_key, org_id, project_id, size_bytes, sha256 FROM storage_objects
	WHERE object_key > $1 AND object_key <= $2 ORDER BY object_key LIMIT $3`

	// An upload in progress has a reservation, and so has a backend object that waits for its deletion.
	selectUnknown = `
	SELECT u.key, u.since - $3::interval > (SELECT storage_known_since()) OR u.since < (SELECT confirmed_until FROM storage_checks)
	FROM unnest($1::uuid[], $2::timestamptz[]) AS u (key, since)
	WHERE NOT EXISTS (SELECT FROM storage_objects o WHERE o.object_key = u.key) AND NOT EXISTS (SELECT FROM storage_reservations r WHERE r.object_key = u.key)`

	// The file may have been deleted meanwhile.
	insertFault = `
	INSERT INTO storage_faults (object_key, org_id, project_id, fault) SELECT $1, $2, $3, $4 WHERE EXISTS (SELECT FROM storage_objects WHERE object_key = $1)
	ON CONFLICT (object_key) DO UPDATE SET fault = excluded.fault`
	// A damaged file of the right size is found again only if its checksum is computed again.
	deleteFaults = `
	DELETE FROM storage_faults f WHERE object_key > $1 AND object_key <= $2
		AND (object_key = ANY ($3::uuid[]) AND fault = 'missing' OR NOT EXISTS (SELECT FROM storage_objects o WHERE o.object_key = f.object_key))`

	// Another worker may have compared the same slice: one of them moves the position.
	movePosition = `
	UPDATE storage_checks SET after_key = $2, collected = collected + $4,
		unknown = CASE WHEN $5 THEN 0 ELSE unknown + $3 END, unknown_last = CASE WHEN $5 THEN unknown + $3 ELSE unknown_last END,
		finished_at = CASE WHEN $5 THEN now() ELSE finished_at END
	WHERE after_key = $1`

	// $3 is as in selectUnknown.
	selectWithoutRow = `
	SELECT u.key, u.since - $3::interval > (SELECT storage_known_since()) OR u.since < (SELECT confirmed_until FROM storage_checks)
	FROM unnest($1::uuid[], $2::timestamptz[]) AS u (key, since) WHERE NOT EXISTS (SELECT FROM storage_uploads s WHERE s.id = u.key)`
	countLeft          = `UPDATE storage_checks SET unknown_uploads = $1 WHERE unknown_uploads <> $1`
	selectProjectFiles = `
	SELECT DISTINCT ON (object_key) object_key, org_id, project_id, size_bytes, sha256 FROM storage_objects
	WHERE project_id = $1 AND object_key > $2 ORDER BY object_key LIMIT $3`
	// The nil id of a project means all of them.
	selectFaulty = `
	SELECT DISTINCT ON (object_key) object_key, size_bytes, id, org_id, project_id, count(*) OVER (PARTITION BY object_key) FROM storage_objects
	WHERE object_key = ANY ($1) AND ($2 = '00000000-0000-0000-0000-000000000000'::uuid OR project_id = $2) ORDER BY object_key, id`
	selectStrays = `
	SELECT key FROM unnest($1::uuid[]) AS u (key)
	WHERE NOT EXISTS (SELECT FROM storage_objects o WHERE o.object_key = key) AND NOT EXISTS (SELECT FROM storage_reservations r WHERE r.object_key = key)`
)
