package identity

// By its id an administrator of the platform finds a project of any tenant.
const selectProject = `
	SELECT p.id, p.org_id, p.name, coalesce(m.role, ''), p.created_at, p.description, p.version, coalesce(p.updated_at, p.created_at), t.name
	FROM projects p JOIN tenants t ON t.id = p.org_id
	LEFT JOIN project_memberships m ON m.project_id = p.id AND m.user_id = $4
	WHERE (p.org_id = $1 OR $5) AND p.deleted_at IS NULL AND (p.id = $2 OR p.org_id = $1 AND p.name = $3)
	ORDER BY p.id = $2 DESC LIMIT 1`

const selectProjects = `
	SELECT p.id, p.org_id, p.name, coalesce(m.role, ''), p.created_at, p.description, p.version, coalesce(p.updated_at, p.created_at)
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
		WHERE created_at <= now() - $1::interval ORDER BY created_at LIMIT $2)`

// NO KEY: rows that refer to these may be inserted meanwhile.
const (
	lockTenant  = `SELECT id FROM tenants WHERE id = $1 AND deleted_at IS NULL FOR NO KEY UPDATE`
	lockProject = `SELECT id FROM projects WHERE id = $1 AND deleted_at IS NULL FOR NO KEY UPDATE`
	lockUser    = `SELECT id FROM users WHERE id = $1 AND deleted_at IS NULL FOR NO KEY UPDATE`

	lockServiceAccount = `SELECT id FROM service_accounts WHERE id = $1 FOR NO KEY UPDATE`
)

const selectProjectNames = `SELECT id, name FROM projects WHERE id = ANY ($1::uuid[])`

const userHasEmail = `SELECT EXISTS (SELECT FROM users WHERE lower(email) = lower($1))`

const selectNames = `
	SELECT id, name FROM projects WHERE id = ANY ($1::uuid[])
	UNION ALL SELECT id, coalesce(nullif(name, ''), email) FROM users WHERE id = ANY ($1::uuid[])
	UNION ALL SELECT id, name FROM service_accounts WHERE id = ANY ($1::uuid[])`

// A name that has the form of an id is never searched as a name.
const selectScopeSubjects = `
	SELECT 'tenant:' || name, 'tenant:' || id FROM tenants WHERE name = ANY ($1::text[])
	UNION ALL SELECT 'tenant:' || id, 'tenant:' || id FROM tenants WHERE id = ANY ($2::uuid[])
	UNION ALL SELECT 'project:' || id, 'project:' || id FROM projects WHERE id = ANY ($2::uuid[])
	UNION ALL SELECT 'user:' || id, 'user:' || id FROM users WHERE id = ANY ($2::uuid[])`

const selectBarred = `
	SELECT t FROM unnest($2::uuid[]) AS t
	WHERE EXISTS (SELECT FROM users u WHERE u.id = $1 AND (u.disabled_at IS NOT NULL
			OR u.role NOT IN ('admin', 'operator', 'billing_operator') AND NOT EXISTS (SELECT FROM tenant_memberships m WHERE m.user_id = u.id AND m.org_id = t)))
		OR EXISTS (SELECT FROM service_accounts a WHERE a.id = $1 AND (a.disabled_at IS NOT NULL OR a.deleted_at IS NOT NULL))`
