package identity

// By its id an administrator of the platform finds a project of any tenant.
const selectProject = `
	SELECT p.id, p.org_id, p.name, coalesce(m.role, ''), p.created_at, p.description, p.version, t.name
	FROM projects p JOIN tenants t ON t.id = p.org_id
	LEFT JOIN project_memberships m ON m.project_id = p.id AND m.user_id = $4
	WHERE (p.org_id = $1 OR $5) AND p.deleted_at IS NULL AND (p.id = $2 OR p.org_id = $1 AND p.name = $3)
	ORDER BY p.id = $2 DESC LIMIT 1`

const selectProjects = `
	SELECT p.id, p.org_id, p.name, coalesce(m.role, ''), p.created_at, p.description, p.version
	FROM projects p LEFT JOIN project_memberships m ON m.project_id = p.id AND m.user_id = $2
	WHERE p.org_id = $1 AND p.deleted_at IS NULL ORDER BY p.name`

const selectReplay = `
	SELECT body_hash, status, location, etag, body, encrypted FROM idempotency_keys
	WHERE principal = $1 AND method = $2 AND route = $3 AND key = $4 AND created_at > now() - interval '24 hours'`

// The advisory lock is tried first. An insert would wait for the end of an open transaction with the
// same key instead of responding.
const insertReply = `
	WITH lock AS MATERIALIZED (
		SELECT pg_try_advisory_xact_lock(hashtextextended(concat_ws(' ', $1::uuid, $2::text, $3::text, $4::text), 0)) AS got
	)
	INSERT INTO idempotency_keys (principal, method, route, key, body_hash, status, location, etag, body, encrypted)
	SELECT $1::uuid, $2::text, $3::text, $4::text, $5::bytea, $6::int, $7::text, $8::text, $9::bytea, $10::bool FROM lock WHERE got
	ON CONFLICT (principal, method, route, key) DO UPDATE
	SET body_hash = excluded.body_hash, status = excluded.status, location = excluded.location, etag = excluded.etag,
		body = excluded.body, encrypted = excluded.encrypted, created_at = now()
	WHERE idempotency_keys.created_at <= now() - interval '24 hours'`

const updateReply = `
	UPDATE idempotency_keys SET status = $5, location = $6, etag = $7, body = $8, encrypted = $9
	WHERE principal = $1 AND method = $2 AND route = $3 AND key = $4`

const deleteReplies = `
	DELETE FROM idempotency_keys WHERE (principal, method, route, key) IN (
		SELECT principal, method, route, key FROM idempotency_keys
		WHERE created_at <= now() - interval '24 hours' ORDER BY created_at LIMIT $1)`

// NO KEY: rows that refer to these may be inserted meanwhile.
const (
	lockTenant  = `SELECT id FROM tenants WHERE id = $1 FOR NO KEY UPDATE`
	lockProject = `SELECT id FROM projects WHERE id = $1 AND deleted_at IS NULL FOR NO KEY UPDATE`
	lockUser    = `SELECT id FROM users WHERE id = $1 FOR NO KEY UPDATE`

	lockServiceAccount = `SELECT id FROM service_accounts WHERE id = $1 FOR NO KEY UPDATE`
)
