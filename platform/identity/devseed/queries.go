package devseed

const seedTenants = `
	INSERT INTO tenants (id, name) SELECT * FROM unnest($1::uuid[], $2::text[])
	ON CONFLICT (name) DO NOTHING`

const seedProjects = `
	INSERT INTO projects (id, org_id, name)
	SELECT made.id, t.id, made.name FROM unnest($1::uuid[], $2::text[], $3::text[]) AS made (id, tenant, name)
	JOIN tenants t ON t.name = made.tenant
	ON CONFLICT (org_id, name) WHERE deleted_at IS NULL DO NOTHING`

const seedPeople = `
	INSERT INTO users (id, oidc_subject, email, name, role)
	SELECT id, email, email, name, role FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) AS made (id, email, name, role)
	ON CONFLICT (lower(email)) DO UPDATE
	SET role = excluded.role, oidc_issuer = 'local', oidc_subject = excluded.oidc_subject, version = users.version + 1
	WHERE (users.role, users.oidc_issuer, users.oidc_subject) IS DISTINCT FROM (excluded.role, 'local', excluded.oidc_subject)`

// A user who was moved to another tenant, or given another role, stays unchanged.
const seedMemberships = `
	INSERT INTO tenant_memberships (org_id, user_id, role)
	SELECT t.id, u.id, made.role FROM unnest($1::text[], $2::text[], $3::text[]) AS made (email, tenant, role)
	JOIN users u ON lower(u.email) = lower(made.email) JOIN tenants t ON t.name = made.tenant
	ON CONFLICT (user_id) DO NOTHING`

const seedProjectMemberships = `
	INSERT INTO project_memberships (project_id, user_id, role)
	SELECT p.id, u.id, made.role FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS made (email, tenant, project, role)
	JOIN users u ON lower(u.email) = lower(made.email) JOIN tenants t ON t.name = made.tenant
	JOIN projects p ON p.org_id = t.id AND p.name = made.project AND p.deleted_at IS NULL
	ON CONFLICT (project_id, user_id) DO NOTHING`

const selectSeedProjects = `
	SELECT t.id, t.name, p.id, p.name FROM tenants t JOIN projects p ON p.org_id = t.id AND p.deleted_at IS NULL
	WHERE t.name = ANY($1)`

const selectSeedPeople = `SELECT id, lower(email) FROM users WHERE lower(email) = ANY($1)`
