package identity

const (
	tenantColumns = `id, name, currency, version, created_at, coalesce(updated_at, created_at)`

	selectTenant      = `SELECT ` + tenantColumns + ` FROM tenants WHERE id = $1 AND deleted_at IS NULL`
	selectTenants     = `SELECT ` + tenantColumns + ` FROM tenants WHERE name > $1 AND deleted_at IS NULL ORDER BY name LIMIT $2`
	selectTenantNames = `SELECT id, name FROM tenants WHERE id = ANY ($1::uuid[])`
	insertTenant      = `INSERT INTO tenants (id, name, currency, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT (name) DO NOTHING`
	updateTenant      = `UPDATE tenants SET name = $3, updated_at = $4, version = version + 1 WHERE id = $1 AND version = $2`
)

const (
	selectTenantMembers = `
		SELECT u.id, u.email, u.name, m.role FROM tenant_memberships m JOIN users u ON u.id = m.user_id
		WHERE m.org_id = $1 AND m.user_id > $2 ORDER BY m.user_id LIMIT $3`

	selectCandidate = `
		SELECT u.id, u.email, u.name, m.org_id, coalesce(m.role, '')
		FROM users u LEFT JOIN tenant_memberships m ON m.user_id = u.id WHERE u.id = $1`

	// The role of $2, and whether another enabled owner exists. The caller has locked the tenant, and so
	// does every change of a membership.
	selectTenantRole = `
		SELECT coalesce((SELECT role FROM tenant_memberships WHERE org_id = $1 AND user_id = $2), ''),
			EXISTS (SELECT FROM tenant_memberships m JOIN users u ON u.id = m.user_id
				WHERE m.org_id = $1 AND m.user_id <> $2 AND m.role = 'owner' AND u.disabled_at IS NULL)`

	// A user who joined another tenant meanwhile stays there.
	putTenantMember = `
		INSERT INTO tenant_memberships (org_id, user_id, role) VALUES ($1, $2, $3)
		ON CONFLICT (user_id) DO UPDATE SET role = excluded.role WHERE tenant_memberships.org_id = excluded.org_id`

	deleteTenantMember = `DELETE FROM tenant_memberships WHERE org_id = $1 AND user_id = $2`
	deleteFromProjects = `
		DELETE FROM project_memberships m USING projects p WHERE p.id = m.project_id AND p.org_id = $1 AND m.user_id = $2`
)

const (
	invitationColumns = `id, email, role, created_at, expires_at`
	invitationIsOpen  = `accepted_at IS NULL AND revoked_at IS NULL`

	selectInvitations = `
		SELECT ` + invitationColumns + ` FROM invitations
		WHERE org_id = $1 AND id > $2 AND ` + invitationIsOpen + ` AND expires_at > now() ORDER BY id LIMIT $3`
	selectInvitation    = `SELECT ` + invitationColumns + ` FROM invitations WHERE id = $1 AND org_id = $2 AND ` + invitationIsOpen
	selectMemberByEmail = `
		SELECT FROM tenant_memberships m JOIN users u ON u.id = m.user_id WHERE m.org_id = $1 AND lower(u.email) = $2`
	// An open invitation that has expired would block a new one.
	closeExpired = `
		UPDATE invitations SET revoked_at = now()
		WHERE org_id = $1 AND lower(email) = $2 AND ` + invitationIsOpen + ` AND expires_at <= now()`
	insertInvitation = `
		INSERT INTO invitations (id, org_id, email, role, invited_by, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (org_id, lower(email)) WHERE accepted_at IS NULL AND revoked_at IS NULL DO NOTHING`
	ownColumns = `
		SELECT i.id, i.email, i.role, i.created_at, i.expires_at, i.org_id, t.name, i.accepted_at, i.revoked_at
		FROM users u JOIN invitations i ON lower(i.email) = lower(u.email) JOIN tenants t ON t.id = i.org_id `
	selectOwnInvitations = ownColumns + `
		WHERE u.id = $1 AND i.id > $2 AND i.accepted_at IS NULL AND i.revoked_at IS NULL AND i.expires_at > now() ORDER BY i.id LIMIT $3`
	selectOwnInvitation = ownColumns + `WHERE i.id = $1 AND u.id = $2`
	acceptInvitation    = `UPDATE invitations SET accepted_at = now() WHERE id = $1 AND ` + invitationIsOpen + ` AND expires_at > now()`
	joinTenant          = `INSERT INTO tenant_memberships (org_id, user_id, role) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`
	revokeInvitation    = `UPDATE invitations SET revoked_at = now() WHERE id = $1 AND org_id = $2 AND ` + invitationIsOpen
)

const (
	selectProjectByID = `
		SELECT p.id, p.org_id, p.name, coalesce(m.role, ''), p.created_at, p.description, p.version, coalesce(p.updated_at, p.created_at)
		FROM projects p LEFT JOIN project_memberships m ON m.project_id = p.id AND m.user_id = $2
		WHERE p.org_id = $1 AND p.id = $3 AND p.deleted_at IS NULL`
	selectProjectPage = `
		SELECT p.id, p.org_id, p.name, coalesce(m.role, ''), p.created_at, p.description, p.version, coalesce(p.updated_at, p.created_at)
		FROM projects p LEFT JOIN project_memberships m ON m.project_id = p.id AND m.user_id = $2
		WHERE p.org_id = $1 AND p.name > $3 AND p.deleted_at IS NULL AND ($5 OR m.role IS NOT NULL OR p.id = $6)
			AND ($7 = '' OR strpos(lower(p.name), lower($7)) > 0)
		ORDER BY p.name LIMIT $4`
	insertProject = `
		INSERT INTO projects (id, org_id, name, description, created_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (org_id, name) WHERE deleted_at IS NULL DO NOTHING`
	updateProject = `
		UPDATE projects SET name = $3, description = $4, updated_at = $5, version = version + 1
		WHERE id = $1 AND version = $2 AND deleted_at IS NULL`
	closeProject = `
		UPDATE projects SET deleted_at = now(), version = version + 1
		WHERE id = $1 AND ($2 = 0 OR version = $2) AND deleted_at IS NULL`
	disableAccounts = `
		UPDATE service_accounts SET disabled_at = now(), updated_at = now(), version = version + 1
		WHERE project_id = $1 AND disabled_at IS NULL AND deleted_at IS NULL`

	selectProjectMembers = `
		SELECT u.id, u.email, u.name, m.role FROM project_memberships m JOIN users u ON u.id = m.user_id
		WHERE m.project_id = $1 AND m.user_id > $2 ORDER BY m.user_id LIMIT $3`
	selectProjectRole = `
		SELECT coalesce((SELECT role FROM project_memberships WHERE project_id = $1 AND user_id = $2), '')`
	// Only users of the tenant itself. The caller has locked the tenant.
	putProjectMember = `
		INSERT INTO project_memberships (project_id, user_id, role)
		SELECT $2::uuid, user_id, $4::text FROM tenant_memberships WHERE org_id = $1 AND user_id = $3
		ON CONFLICT (project_id, user_id) DO UPDATE SET role = excluded.role`
	deleteProjectMember = `DELETE FROM project_memberships WHERE project_id = $1 AND user_id = $2`
)

const (
	userColumns = `u.id, u.email, u.name, u.role, u.oidc_issuer, u.role_from, m.org_id, coalesce(t.name, ''), coalesce(m.role, ''),
		u.version, u.created_at, coalesce(u.updated_at, u.created_at), u.signed_in_at, u.disabled_at
		FROM users u LEFT JOIN tenant_memberships m ON m.user_id = u.id LEFT JOIN tenants t ON t.id = m.org_id`

	selectUser  = `SELECT ` + userColumns + ` WHERE u.id = $1 AND u.deleted_at IS NULL`
	selectUsers = `
		SELECT ` + userColumns + `
		WHERE ($1 = '' OR strpos(lower(u.email), lower($1)) > 0 OR strpos(lower(u.name), lower($1)) > 0)
			AND ($2 = '' OR u.role = $2) AND ($3 = '00000000-0000-0000-0000-000000000000'::uuid OR m.org_id = $3) AND u.id > $4 AND u.deleted_at IS NULL
		ORDER BY u.id LIMIT $5`
	insertUser = `
		INSERT INTO users (id, oidc_issuer, oidc_subject, email, name, role, created_at) VALUES ($1, $2, $3, $3, $4, $5, $6)
		ON CONFLICT DO NOTHING`
	updateUser = `
		UPDATE users SET name = $3, role = $4, disabled_at = $5, updated_at = $6, version = version + 1 WHERE id = $1 AND version = $2`
	unlinkUser  = `UPDATE users SET oidc_issuer = 'local', oidc_subject = email WHERE id = $1`
	lockUsers   = `SELECT id FROM users WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE`
	selectAdmin = `SELECT EXISTS (SELECT FROM users WHERE id = $1 AND role = 'admin' AND disabled_at IS NULL)`
	endSessions = `UPDATE sessions SET ended_at = now() WHERE user_id = $1 AND ended_at IS NULL`

	selectPerson     = `SELECT ` + userColumns + ` WHERE lower(u.email) = $1`
	selectFirstAdmin = `SELECT ` + userColumns + ` WHERE u.role = 'admin' AND u.disabled_at IS NULL ORDER BY u.created_at, u.id LIMIT 1`
	insertAdmin      = `
		INSERT INTO users (id, oidc_issuer, oidc_subject, email, name, role) VALUES ($1, 'local', $2, $2, $2, 'admin') ON CONFLICT DO NOTHING`

	selectWithRoles = `
		SELECT id FROM users WHERE disabled_at IS NULL AND id IN (
			SELECT user_id FROM tenant_memberships WHERE org_id = $1 AND (role = ANY ($3) OR user_id = $6)
			UNION ALL SELECT user_id FROM project_memberships WHERE project_id = $2 AND role = ANY ($4)
			UNION ALL SELECT id FROM users WHERE role = ANY ($5))
		ORDER BY id`
)
