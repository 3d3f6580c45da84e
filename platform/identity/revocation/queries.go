package revocation

// A key or credential ends with what it has created.
const (
	endSessionsBefore = `UPDATE sessions SET ended_at = now() WHERE ended_at IS NULL AND created_at <= $1`
	endAPIKeys        = `
		WITH RECURSIVE ended AS (
			SELECT id FROM api_keys WHERE user_id = $1 AND ($2::uuid IS NULL OR id = $2) AND revoked_at IS NULL
			UNION SELECT k.id FROM api_keys k JOIN ended e ON k.made_by = e.id
		), keys AS (
			UPDATE api_keys SET revoked_at = now() WHERE id IN (SELECT id FROM ended) AND revoked_at IS NULL RETURNING id
		), credentials AS (
			UPDATE service_account_credentials SET revoked_at = now()
			WHERE made_by IN (SELECT id FROM ended) AND revoked_at IS NULL RETURNING id
		), ssh AS (
			DELETE FROM ssh_keys WHERE made_by IN (SELECT id FROM ended UNION ALL SELECT id FROM credentials) RETURNING user_id
		)
		SELECT (SELECT count(*) FROM keys), ARRAY(SELECT DISTINCT user_id FROM ssh)`
	deleteMadeSSHKeys = `
		WITH ssh AS (
			DELETE FROM ssh_keys WHERE user_id = $1 AND ($2::uuid IS NULL OR made_by = $2) RETURNING user_id
		)
		SELECT ARRAY(SELECT DISTINCT user_id FROM ssh)`
)
