package recording

const (
	insertRecording = `
	INSERT INTO terminal_recordings (id, org_id, project_id, allocation_id, principal, required, columns, rows, key_enc, correlation_id)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`

	// A repeated statement changes nothing.
	insertChunk     = `INSERT INTO terminal_recording_chunks (recording_id, number, org_id, body) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`
	extendRecording = `UPDATE terminal_recordings SET chunks = $2, output_bytes = $3, duration_ms = $4, updated_at = now() WHERE id = $1 AND ended_at IS NULL`
	endRecording    = `UPDATE terminal_recordings SET incomplete = $2, ended_at = now(), updated_at = now() WHERE id = $1 AND ended_at IS NULL`

	// A recording without an end whose session has ended is that of a server that failed.
	recordingColumns = `r.id, r.org_id, r.project_id, r.allocation_id, r.principal, r.required, r.columns, r.rows, r.key_enc, r.chunks, r.output_bytes, r.duration_ms,
		r.incomplete, r.correlation_id, r.created_at, r.updated_at, r.ended_at, CASE WHEN r.incomplete <> '' THEN 'incomplete' WHEN r.ended_at IS NOT NULL THEN 'complete'
		WHEN EXISTS (SELECT FROM terminal_sessions s WHERE s.id = r.id AND s.ended_at IS NULL) THEN 'recording' ELSE 'incomplete' END`

	// Zero values match all: an owner reads the recordings of all projects of the tenant.
	selectRecording = `
	SELECT ` + recordingColumns + ` FROM terminal_recordings r
	WHERE id = $1 AND ($2 = '00000000-0000-0000-0000-000000000000'::uuid OR project_id = $2)`

	selectRecordings = `
	SELECT ` + recordingColumns + ` FROM terminal_recordings r
	WHERE ($1 = '00000000-0000-0000-0000-000000000000'::uuid OR project_id = $1) AND ($2 = '00000000-0000-0000-0000-000000000000'::uuid OR allocation_id = $2)
		AND ($3 = '00000000-0000-0000-0000-000000000000'::uuid OR principal = $3) AND ($4 = '00000000-0000-0000-0000-000000000000'::uuid OR id < $4)
	ORDER BY id DESC LIMIT $5`

	selectChunk = `SELECT body FROM terminal_recording_chunks WHERE recording_id = $1 AND number = $2`

	// $1 is the beginning of the envelopes of the newest key.
	selectOldKeys = `
	SELECT id, ARRAY[key_enc] FROM terminal_recordings WHERE substr(key_enc, 1, length($1::bytea)) <> $1 AND id > $2 ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED`
	resealKey    = `UPDATE terminal_recordings SET key_enc = $2 WHERE id = $1`
	countOldKeys = `SELECT count(*) FROM terminal_recordings WHERE substr(key_enc, 1, length($1::bytea)) <> $1`

	deleteRecordings = `
	DELETE FROM terminal_recordings WHERE id IN (
		SELECT id FROM terminal_recordings r WHERE updated_at < now() - $1::interval
			AND (ended_at IS NOT NULL OR NOT EXISTS (SELECT FROM terminal_sessions s WHERE s.id = r.id AND s.ended_at IS NULL)) ORDER BY updated_at LIMIT $2)`

	// The key of such a chunk is gone with the row of its recording.
	deleteChunks = `
	DELETE FROM terminal_recording_chunks WHERE (recording_id, number) IN (
		SELECT recording_id, number FROM terminal_recording_chunks c
		WHERE created_at < now() - $1::interval AND NOT EXISTS (SELECT FROM terminal_recordings r WHERE r.id = c.recording_id) ORDER BY created_at LIMIT $2)`
)
