package storage

import "fmt"

const (
	uploadColumns = `id, path, media_type, size_bytes, part_bytes, sha256, if_absent, if_match, handle, state, result, hashed_bytes, hash_state, created_by, created_at, expires_at, metadata`

	insertUpload = `
	INSERT INTO storage_uploads (id, org_id, project_id, path, media_type, size_bytes, part_bytes, sha256, if_absent, if_match, handle, created_by, expires_at, metadata)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, now() + $13::interval, $14) RETURNING created_at, expires_at`
	countUploads  = `SELECT count(*) FROM (SELECT FROM storage_uploads WHERE project_id = $1 AND state = 'open' LIMIT $2) open`
	selectUpload  = `SELECT ` + uploadColumns + ` FROM storage_uploads WHERE id = $1 AND project_id = $2 AND state <> 'aborted' AND (state = 'completed' OR expires_at > now())`
	lockUpload    = selectUpload + ` FOR UPDATE`
	selectUploads = `SELECT ` + uploadColumns + ` FROM storage_uploads WHERE project_id = $1 AND state = 'open' AND expires_at > now() AND id > $2 ORDER BY id LIMIT $3`

	// An upload that is being completed does not expire, and its reservation does not either. $3 is the life of an upload: further
	// completions add nothing to it, or a tenant without a balance could store its bytes for ever.
	extendUpload = `
	WITH upload AS (
		UPDATE storage_uploads SET expires_at = greatest(expires_at, least(now(), created_at + $3::interval) + $2::interval) WHERE id = $1 AND state = 'open' AND expires_at > now() RETURNING id, expires_at
	)
	UPDATE storage_reservations r SET expires_at = u.expires_at FROM upload u WHERE r.object_key = u.id AND r.expires_at > now()`
	storeHash    = `UPDATE storage_uploads SET hashed_bytes = $2, hash_state = $3 WHERE id = $1 AND hashed_bytes < $2`
	finishUpload = `UPDATE storage_uploads SET state = 'completed', result = $2, hash_state = NULL WHERE id = $1`
	deleteParts  = `DELETE FROM storage_parts WHERE upload_id = $1`
	abortUpload  = `UPDATE storage_uploads SET state = 'aborted', hash_state = NULL, expires_at = least(expires_at, now() + $2::interval) WHERE id = $1 AND state = 'open'`
	selectAny    = `SELECT ` + uploadColumns + ` FROM storage_uploads WHERE id = $1 AND project_id = $2 FOR UPDATE`

	partColumns = `number, size_bytes, sha256, tags, stored_at`

	// The row of a part without a size only reserves bytes.
	selectParts   = `SELECT ` + partColumns + ` FROM storage_parts WHERE upload_id = $1 AND size_bytes IS NOT NULL AND number > $2 ORDER BY number LIMIT $3`
	selectArrived = `SELECT ` + partColumns + ` FROM storage_parts WHERE upload_id = $1 AND stored_at IS NOT NULL AND number > $2 ORDER BY number LIMIT $3`
	partsExpected = `SELECT EXISTS (SELECT FROM storage_parts WHERE upload_id = $1 AND size_bytes IS NOT NULL AND stored_at IS NULL)`

	selectReserved = `
	SELECT r.bytes, coalesce((SELECT reserved_bytes FROM storage_parts WHERE upload_id = r.object_key AND number = $2), 0)
	FROM storage_reservations r WHERE r.object_key = $1 AND r.expires_at > now()`
	growReservation = `UPDATE storage_reservations SET bytes = bytes + $2 WHERE object_key = $1 AND expires_at > now()`
	reservePart     = `
	INSERT INTO storage_parts (upload_id, number, org_id, reserved_bytes) VALUES ($1, $2, $3, $4)
	ON CONFLICT (upload_id, number) DO UPDATE SET reserved_bytes = excluded.reserved_bytes`

	// The upload is locked before its parts. The end of the upload does so, too, and would otherwise wait for a part whose statement
	// waits for the upload. Statements with several parts exclude each other.
	//
	// Two requests with the same part can end in another sequence than their bytes were stored. Equal bytes remain known by
	// every tag; of other bytes the last row counts, and the completion compares its tag.
	storePart = `
	INSERT INTO storage_parts (upload_id, number, org_id, size_bytes, sha256, tags, stored_at)
	SELECT id, $2, org_id, $3, $4, ARRAY[$5], now() FROM storage_uploads WHERE id = $1 AND state = 'open' AND expires_at > now() FOR KEY SHARE
	ON CONFLICT (upload_id, number) DO UPDATE SET size_bytes = excluded.size_bytes, sha256 = excluded.sha256, stored_at = excluded.stored_at,
		tags = CASE WHEN storage_parts.sha256 = excluded.sha256 AND storage_parts.size_bytes = excluded.size_bytes
			THEN (excluded.tags || storage_parts.tags)[1:8] ELSE excluded.tags END
	RETURNING ` + partColumns
	// A client that repeats the request for a part that has arrived leaves it as it is.
	expectParts = `
	WITH u AS MATERIALIZED (SELECT id, org_id FROM storage_uploads WHERE id = $1 AND state = 'open' AND expires_at > now() FOR NO KEY UPDATE)
	INSERT INTO storage_parts (upload_id, number, org_id, size_bytes, sha256)
	SELECT u.id, p.number, u.org_id, p.size, p.sha256 FROM u, unnest($2::integer[], $3::bigint[], $4::bytea[]) AS p (number, size, sha256)
	ON CONFLICT (upload_id, number) DO UPDATE SET size_bytes = excluded.size_bytes, sha256 = excluded.sha256, tags = '{}', stored_at = NULL
	WHERE (storage_parts.size_bytes, storage_parts.sha256) IS DISTINCT FROM (excluded.size_bytes, excluded.sha256)`
	// $2 are the numbers and $3 the tags of parts that are in the object store.
	partsArrived = `
	WITH u AS MATERIALIZED (SELECT id FROM storage_uploads WHERE id = $1 FOR NO KEY UPDATE)
	UPDATE storage_parts p SET tags = ARRAY[a.tag], stored_at = coalesce(p.stored_at, now())
	FROM u, unnest($2::integer[], $3::text[]) AS a (number, tag) WHERE p.upload_id = u.id AND p.number = a.number AND p.size_bytes IS NOT NULL`
	partsLost = `
	WITH u AS MATERIALIZED (SELECT id FROM storage_uploads WHERE id = $1 FOR NO KEY UPDATE)
	UPDATE storage_parts p SET size_bytes = NULL, sha256 = NULL, tags = '{}', stored_at = NULL FROM u WHERE p.upload_id = u.id AND p.number = ANY($2)`

	endUploadsOf = `UPDATE storage_uploads SET expires_at = now() WHERE project_id = ANY ($1) AND state = 'open' AND expires_at > now()`
	expireUpload = `UPDATE storage_uploads SET state = 'aborted', hash_state = NULL WHERE id = $1 AND state = 'open' AND expires_at <= now()`
	deleteUpload = `DELETE FROM storage_uploads WHERE id = $1 AND expires_at <= now()`
)

var selectExpired = `
	SELECT id, org_id, project_id, handle, state, ` + fmt.Sprintf(isCovered, "u") + ` FROM storage_uploads u WHERE expires_at <= now() ORDER BY expires_at LIMIT $1`
