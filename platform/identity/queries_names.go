package identity

const selectProjectNames = `SELECT id, name FROM projects WHERE id = ANY ($1::uuid[])`

const userHasEmail = `SELECT EXISTS (SELECT FROM users WHERE lower(email) = lower($1))`

const selectNames = `
	SELECT id, name FROM projects WHERE id = ANY ($1::uuid[])
	UNION ALL SELECT id, coalesce(nullif(name, ''), email) FROM users WHERE id = ANY ($1::uuid[])
	UNION ALL SELECT id, name FROM service_accounts WHERE id = ANY ($1::uuid[])`
