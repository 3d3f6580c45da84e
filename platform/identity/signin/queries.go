package signin

// The database's clock determines the remaining lifetime of a token, in milliseconds. A token without an
// end always has a year left. The last column is true if the token's use was not recorded within the
// last minute.
const (
	leftOfIt = `coalesce(extract(epoch FROM k.expires_at - now()) * 1000, 31536000000)::bigint,
		coalesce(k.last_used_at < now() - interval '1 minute', true)`
	holderColumns = `u.id, u.email, u.name, u.role, t.id, coalesce(t.name, ''), coalesce(m.role, '')`
	holderTables  = ` JOIN users u ON u.id = k.user_id
		LEFT JOIN tenant_memberships m ON m.user_id = u.id
		LEFT JOIN tenants t ON t.id = m.org_id `

	selectKeyHolder = `
		SELECT ` + holderColumns + `, k.id, k.scopes, ` + leftOfIt + `, k.expires_at, k.methods, NULL::bigint FROM api_keys k` + holderTables + `
		WHERE k.secret_hash = $1 AND k.revoked_at IS NULL AND u.disabled_at IS NULL`
	selectSessionHolder = `
		SELECT ` + holderColumns + `, k.id, '{}'::text[], ` + leftOfIt + `, k.authenticated_at, k.methods,
			(extract(epoch FROM now() - k.checked_at) * 1000)::bigint FROM sessions k` + holderTables + `
		WHERE k.secret_hash = $1 AND k.ended_at IS NULL AND u.disabled_at IS NULL`
	selectSubject = `
		SELECT ` + holderColumns + `, u.disabled_at IS NOT NULL OR EXISTS (SELECT FROM revoked_tokens WHERE token_hash = $3)
		FROM users u LEFT JOIN tenant_memberships m ON m.user_id = u.id LEFT JOIN tenants t ON t.id = m.org_id
		WHERE u.oidc_issuer = $1 AND u.oidc_subject = $2`

	touchKey        = `UPDATE api_keys SET last_used_at = now() WHERE id = $1 AND revoked_at IS NULL`
	touchSession    = `UPDATE sessions SET last_used_at = now() WHERE id = $1 AND ended_at IS NULL`
	touchCredential = `
		WITH used AS (
			UPDATE service_account_credentials SET last_used_at = now() WHERE id = $1 AND revoked_at IS NULL RETURNING service_account_id
		)
		UPDATE service_accounts SET last_used_at = now() WHERE id IN (SELECT service_account_id FROM used)`
)

// A service account may act while its credential, its account and its project exist.
const (
	programColumns = `
		SELECT a.id, a.name, a.org_id, t.name, a.project_id, a.scopes, k.id, ` + leftOfIt + `, k.expires_at, k.issuer IS NOT NULL`
	programTables = `
		FROM service_account_credentials k JOIN service_accounts a ON a.id = k.service_account_id
		JOIN projects p ON p.id = a.project_id JOIN tenants t ON t.id = a.org_id
		WHERE k.revoked_at IS NULL AND a.disabled_at IS NULL AND a.deleted_at IS NULL AND p.deleted_at IS NULL AND `

	selectCredentialHolder = programColumns + programTables + `k.secret_hash = $1`
	selectJobHolders       = programColumns + `, k.subject` + programTables + `a.id = $1 AND k.issuer = $2 ORDER BY k.id`
	selectProgram          = programColumns + programTables + `a.id = $1 AND k.id = $2 AND a.org_id = $3 AND a.project_id = $4
		AND NOT EXISTS (SELECT FROM revoked_tokens WHERE token_hash = $5)`
)

const (
	// Rows are locked by ascending id: two sign-ins that each match two users would otherwise deadlock.
	lockPeople = `
		SELECT id, oidc_issuer, (oidc_issuer = $1 AND oidc_subject = $2) FROM users
		WHERE (oidc_issuer = $1 AND oidc_subject = $2) OR ($3 <> '' AND lower(email) = $3)
		ORDER BY id FOR NO KEY UPDATE`
	insertPerson = `
		INSERT INTO users (id, oidc_issuer, oidc_subject, email, name, role, role_from, signed_in_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, now()) ON CONFLICT DO NOTHING`
	// The version rises with what an administrator may have read, not with each sign-in.
	updatePerson = `
		UPDATE users SET oidc_issuer = $2, oidc_subject = $3, email = $4, role = $5, role_from = $6, signed_in_at = now(),
			version = version + CASE WHEN (oidc_issuer, email, role, role_from) = ($2, $4, $5, $6) THEN 0 ELSE 1 END,
			updated_at = CASE WHEN (oidc_issuer, email, role, role_from) = ($2, $4, $5, $6) THEN updated_at ELSE now() END
		WHERE id = $1 RETURNING version`
	noteSignIn = `UPDATE users SET signed_in_at = now() WHERE id = $1`
)

const (
	insertSession = `
		INSERT INTO sessions (id, user_id, secret_hash, kind, issuer, address, user_agent, grant_enc, expires_at, authenticated_at, methods, checked_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8::bytea, now() + $9::bigint * interval '1 second', $10, $11, CASE WHEN $12 THEN now() END) RETURNING created_at, expires_at`
	selectSession = `
		SELECT k.id, k.user_id, m.org_id, k.grant_enc FROM sessions k LEFT JOIN tenant_memberships m ON m.user_id = k.user_id
		WHERE k.secret_hash = $1 AND k.ended_at IS NULL AND k.expires_at > now()`
	endSession  = `UPDATE sessions SET ended_at = now() WHERE id = $1 AND ended_at IS NULL`
	storeGrant  = `UPDATE sessions SET grant_enc = coalesce($2, grant_enc), checked_at = now() WHERE id = $1 AND ended_at IS NULL`
	removeGrant = `UPDATE sessions SET grant_enc = NULL WHERE id = $1`
	endOthers   = `UPDATE sessions SET ended_at = now() WHERE user_id = $1 AND id <> $2 AND ended_at IS NULL`
	// One of the parallel requests of a session confirms it.
	claimCheck = `
		UPDATE sessions SET check_tried_at = now()
		WHERE id = $1 AND ended_at IS NULL AND coalesce(check_tried_at < now() - interval '10 seconds', true)`
	// The pause between two attempts doubles, up to a day.
	claimRevocations = `
		UPDATE sessions SET revoke_tried_at = now() WHERE id IN (
			SELECT id FROM sessions WHERE grant_enc IS NOT NULL AND coalesce(ended_at, expires_at) < now()
				AND coalesce(revoke_tried_at < now() - greatest(interval '1 minute', revoke_tried_at - coalesce(ended_at, expires_at)), true)
			ORDER BY coalesce(ended_at, expires_at) LIMIT $1 FOR UPDATE SKIP LOCKED)
		RETURNING id, grant_enc, coalesce(ended_at, expires_at) < now() - interval '1 day'`
	revokeToken = `INSERT INTO revoked_tokens (token_hash, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING`
	// A session that was ended early is deleted as if it had expired: its end is at most a week away.
	deleteSessions = `
		DELETE FROM sessions WHERE id IN (
			SELECT id FROM sessions WHERE expires_at < now() - $1::interval ORDER BY expires_at LIMIT $2)`
	deleteLinks = `
		DELETE FROM sign_in_links WHERE secret_hash IN (
			SELECT secret_hash FROM sign_in_links WHERE expires_at < now() - $1::interval ORDER BY expires_at LIMIT $2)`
	deleteRevoked = `
		DELETE FROM revoked_tokens WHERE token_hash IN (
			SELECT token_hash FROM revoked_tokens WHERE expires_at < now() - interval '1 hour' ORDER BY expires_at LIMIT $1)`
	selectUsual = `
		SELECT EXISTS (SELECT FROM sessions k JOIN users u ON u.id = k.user_id
			WHERE lower(u.email) = $1 AND k.address = $2 AND k.created_at > now() - interval '30 days')`
	passwordOf  = `SELECT coalesce((SELECT hash FROM user_passwords WHERE user_id = $1), '')`
	putPassword = `
		INSERT INTO user_passwords (user_id, hash) VALUES ($1, $2)
		ON CONFLICT (user_id) DO UPDATE SET hash = excluded.hash, changed_at = now() WHERE user_passwords.hash = $3`
	rehashPassword = `UPDATE user_passwords SET hash = $2 WHERE user_id = $1 AND hash = $3`

	insertLink = `
		INSERT INTO sign_in_links (secret_hash, user_id, expires_at) VALUES ($1, $2, now() + $3::bigint * interval '1 second')`
	useLink = `
		UPDATE sign_in_links SET used_at = now() WHERE secret_hash = $1 AND used_at IS NULL AND expires_at > now() RETURNING user_id`
)

const (
	sessionColumns = `id, user_id, (SELECT m.org_id FROM tenant_memberships m WHERE m.user_id = sessions.user_id), kind, issuer, address, user_agent, created_at, expires_at, last_used_at`

	selectSessions = `
		SELECT ` + sessionColumns + ` FROM sessions
		WHERE user_id = $1 AND id > $2 AND ended_at IS NULL AND expires_at > now() ORDER BY id LIMIT $3`
	selectAllSessions = `
		SELECT ` + sessionColumns + ` FROM sessions
		WHERE id > $1 AND ended_at IS NULL AND expires_at > now() ORDER BY id LIMIT $2`
	selectSessionOwner = `
		SELECT k.user_id, m.org_id FROM sessions k LEFT JOIN tenant_memberships m ON m.user_id = k.user_id
		WHERE k.id = $1 AND k.ended_at IS NULL`
)
