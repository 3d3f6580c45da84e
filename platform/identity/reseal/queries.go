package reseal

// $1 is the beginning of the envelopes of the newest data key, and $2 the last row of the page before. Rows
// that a request changes are left to the next pass.
const (
	selectOldRefresh = `
		SELECT id::text, grant_enc FROM sessions
		WHERE grant_enc IS NOT NULL AND substr(grant_enc, 1, length($1::bytea)) <> $1 AND id::text > $2
		ORDER BY id::text LIMIT $3 FOR UPDATE SKIP LOCKED`
	resealRefresh   = `UPDATE sessions SET grant_enc = $2 WHERE id = $1::uuid AND grant_enc IS NOT NULL`
	countOldRefresh = `SELECT count(*) FROM sessions WHERE grant_enc IS NOT NULL AND substr(grant_enc, 1, length($1::bytea)) <> $1`

	selectOldReplies = `
		SELECT concat_ws(E'\x1f', principal, method, route, key), body FROM idempotency_keys
		WHERE encrypted AND substr(body, 1, length($1::bytea)) <> $1 AND concat_ws(E'\x1f', principal, method, route, key) > $2
		ORDER BY 1 LIMIT $3 FOR UPDATE SKIP LOCKED`
	resealReply = `
		UPDATE idempotency_keys SET body = $2
		WHERE principal = split_part($1, E'\x1f', 1)::uuid AND method = split_part($1, E'\x1f', 2)
			AND route = split_part($1, E'\x1f', 3) AND key = split_part($1, E'\x1f', 4) AND encrypted`
	countOldReplies = `SELECT count(*) FROM idempotency_keys WHERE encrypted AND substr(body, 1, length($1::bytea)) <> $1`
)
