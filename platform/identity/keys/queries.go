package keys

const (
	accountColumns = `id, org_id, project_id, name, description, scopes, version, created_at, coalesce(updated_at, created_at), last_used_at, disabled_at`

	selectServiceAccounts = `
		SELECT ` + accountColumns + ` FROM service_accounts
		WHERE project_id = $1 AND name > $2 AND deleted_at IS NULL ORDER BY name LIMIT $3`
	selectServiceAccount   = `SELECT ` + accountColumns + ` FROM service_accounts WHERE org_id = $1 AND id = $2 AND deleted_at IS NULL`
	selectProjectOfAccount = `SELECT project_id FROM service_accounts WHERE (org_id = $1 OR $3) AND id = $2 AND deleted_at IS NULL`
	insertServiceAccount   = `
		INSERT INTO service_accounts (id, org_id, project_id, name, description, scopes, created_by, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (project_id, name) WHERE deleted_at IS NULL DO NOTHING`
	updateServiceAccount = `
		UPDATE service_accounts SET name = $3, description = $4, scopes = $5, disabled_at = $6, updated_at = $7, version = version + 1
		WHERE id = $1 AND version = $2 AND deleted_at IS NULL`
	deleteServiceAccount = `
		UPDATE service_accounts SET deleted_at = now(), version = version + 1
		WHERE id = $1 AND version = $2 AND deleted_at IS NULL`
	lockAccountVersion = `
		SELECT id FROM service_accounts WHERE id = $1 AND version = $2 AND deleted_at IS NULL FOR NO KEY UPDATE`
)

const (
	credentialColumns = `id, created_at, expires_at, revoked_at, last_used_at, coalesce(issuer, ''), coalesce(subject, '')`

	selectCredentials = `
		SELECT ` + credentialColumns + ` FROM service_account_credentials
		WHERE service_account_id = $1 AND id > $2 ORDER BY id LIMIT $3`
	selectCredential = `SELECT ` + credentialColumns + ` FROM service_account_credentials WHERE service_account_id = $1 AND id = $2`
	// The caller has locked the account.
	countCredentials = `
		SELECT count(*) FROM service_account_credentials
		WHERE service_account_id = $1 AND (secret_hash IS NULL) = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())`
	insertCredential = `
		INSERT INTO service_account_credentials (id, service_account_id, org_id, secret_hash, created_at, expires_at, issuer, subject, made_by)
		VALUES ($1, $2, $3, $4, $5, $6, nullif($7, ''), nullif($8, ''), $9)`
	revokeCredential = `
		UPDATE service_account_credentials SET revoked_at = now()
		WHERE service_account_id = $1 AND id = $2 AND revoked_at IS NULL`
	revokeCredentials = `
		UPDATE service_account_credentials SET revoked_at = now()
		WHERE service_account_id = $1 AND revoked_at IS NULL`
)

const (
	keyColumns = `id, name, scopes, created_at, expires_at, last_used_at`

	selectAPIKeys = `
		SELECT ` + keyColumns + ` FROM api_keys
		WHERE user_id = $1 AND id > $2 AND revoked_at IS NULL ORDER BY id LIMIT $3`
	selectAPIKey = `SELECT ` + keyColumns + ` FROM api_keys WHERE user_id = $1 AND id = $2 AND revoked_at IS NULL`
	// The caller has locked the user. An expired key does not reserve its name.
	insertAPIKey = `
		INSERT INTO api_keys (id, user_id, name, secret_hash, scopes, created_at, expires_at, methods, made_by)
		SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9
		WHERE NOT EXISTS (SELECT FROM api_keys
			WHERE user_id = $2 AND name = $3 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()))`
)

const insertKey = `
	INSERT INTO api_keys (id, user_id, name, secret_hash, expires_at)
	VALUES ($1, $2, $3, $4, now() + nullif($5::float8, 0) * interval '1 second')`

const revokeKeys = `UPDATE api_keys SET revoked_at = now() WHERE user_id = $1 AND name = $2 AND revoked_at IS NULL`

// A maker that has ended meanwhile adds nothing.
const selectEndedMaker = `
	SELECT FROM api_keys WHERE id = $1 AND revoked_at IS NOT NULL
	UNION ALL SELECT FROM service_account_credentials WHERE id = $1 AND revoked_at IS NOT NULL`

const insertSSHKey = `
	INSERT INTO ssh_keys (id, user_id, name, public_key, fingerprint, created_at, made_by) VALUES ($1, $2, $3, $4, $5, $6, $7)
	ON CONFLICT DO NOTHING`

const selectSSHKeys = `
	SELECT id, name, public_key, fingerprint, created_at FROM ssh_keys
	WHERE user_id = $1 AND id > $2 ORDER BY id LIMIT $3`

const selectSSHKey = `SELECT id, name, public_key, fingerprint, created_at FROM ssh_keys WHERE user_id = $1 AND id = $2`

const deleteSSHKey = `DELETE FROM ssh_keys WHERE user_id = $1 AND id = $2`

const selectKeyLines = `
	SELECT public_key FROM ssh_keys WHERE user_id = $1 AND ($3 OR id = ANY($2::uuid[])) ORDER BY id`
