package identity

// A user is forgotten in these steps. The pseudonym contains the id alone.
const (
	forgetSessions = `
		UPDATE sessions SET ended_at = coalesce(ended_at, now()), address = '', user_agent = '' WHERE user_id = ANY ($1)`
	forgetKeys            = `UPDATE api_keys SET revoked_at = coalesce(revoked_at, now()), name = id::text WHERE user_id = ANY ($1)`
	forgetMadeCredentials = `
		UPDATE service_account_credentials SET revoked_at = now()
		WHERE made_by IN (SELECT id FROM api_keys WHERE user_id = ANY ($1)) AND revoked_at IS NULL`
	// With those that a credential of a key of the user has added.
	forgetSSHKeys = `
		DELETE FROM ssh_keys WHERE user_id = ANY ($1) OR made_by IN (
			SELECT c.id FROM service_account_credentials c JOIN api_keys k ON k.id = c.made_by WHERE k.user_id = ANY ($1))`
	forgetPasswords = `DELETE FROM user_passwords WHERE user_id = ANY ($1)`
	forgetLinks     = `UPDATE sign_in_links SET used_at = coalesce(used_at, now()) WHERE user_id = ANY ($1)`
	// An address that was invited belongs to the person, also in another tenant.
	forgetInvitations = `
		UPDATE invitations i SET revoked_at = CASE WHEN i.accepted_at IS NULL THEN coalesce(i.revoked_at, now()) ELSE i.revoked_at END,
			email = 'deleted-' || u.id || '@deleted.invalid'
		FROM users u WHERE u.id = ANY ($1) AND lower(i.email) = lower(u.email)`
	forgetProjects    = `DELETE FROM project_memberships WHERE user_id = ANY ($1)`
	forgetMemberships = `DELETE FROM tenant_memberships WHERE user_id = ANY ($1)`
	forgetUsers       = `
		UPDATE users SET oidc_issuer = 'deleted', oidc_subject = id::text, email = 'deleted-' || id || '@deleted.invalid', name = 'Deleted user',
			role = 'user', role_from = 'platform', disabled_at = coalesce(disabled_at, now()), deleted_at = now(), signed_in_at = NULL, version = version + 1
		WHERE id = ANY ($1)`
)

// A tenant is closed in these steps. The rows of its projects and accounts stay, under their ids.
const (
	selectLeaving = `
		SELECT u.id FROM tenant_memberships m JOIN users u ON u.id = m.user_id WHERE m.org_id = $1 AND u.role = 'user' ORDER BY u.id`
	closeProjects = `
		UPDATE projects SET deleted_at = coalesce(deleted_at, now()), name = id::text, description = '', version = version + 1 WHERE org_id = $1`
	closeAccounts = `
		UPDATE service_accounts SET deleted_at = coalesce(deleted_at, now()), name = id::text, description = '', version = version + 1 WHERE org_id = $1`
	closeCredentials = `UPDATE service_account_credentials SET revoked_at = now() WHERE org_id = $1 AND revoked_at IS NULL`
	closeSSHKeys     = `DELETE FROM ssh_keys WHERE user_id IN (SELECT id FROM service_accounts WHERE org_id = $1)`
	closeInvitations = `
		UPDATE invitations SET revoked_at = CASE WHEN accepted_at IS NULL THEN coalesce(revoked_at, now()) ELSE revoked_at END,
			email = 'deleted-' || id || '@deleted.invalid'
		WHERE org_id = $1`
	deleteProjectMembers = `DELETE FROM project_memberships m USING projects p WHERE p.id = m.project_id AND p.org_id = $1`
	deleteTenantMembers  = `DELETE FROM tenant_memberships WHERE org_id = $1`
	closeTenant          = `
		UPDATE tenants SET name = 'deleted-' || id, deleted_at = now(), version = version + 1
		WHERE id = $1 AND version = $2 AND deleted_at IS NULL`
)
