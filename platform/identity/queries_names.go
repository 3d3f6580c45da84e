package identity

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
