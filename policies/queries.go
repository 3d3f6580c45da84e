package policies

const readRevision = `SELECT revision FROM policy_revision`

// Declared roles are in the same snapshot as the values, so that both are of one revision.
const readValues = `
	SELECT policy_revision.revision, v.key, v.subject, v.value
	FROM policy_revision LEFT JOIN (
		SELECT key, subject, value, scope FROM policy_values WHERE subject IS NOT NULL
		UNION ALL SELECT '` + roleKey + `', name, to_jsonb(operations), name FROM declared_roles
	) v ON true
	ORDER BY v.key, v.scope`

// roleKey marks a row of a declared role. No policy key has this name.
const roleKey = "role"

const setRole = `
	WITH next AS (
		UPDATE policy_revision SET revision = revision + 1
		WHERE NOT EXISTS (SELECT FROM declared_roles WHERE name = $1 AND operations = $2 AND object_id = $3) RETURNING 1
	)
	INSERT INTO declared_roles (name, operations, object_id) SELECT $1, $2, $3 FROM next
	ON CONFLICT (name) DO UPDATE SET operations = excluded.operations, object_id = excluded.object_id, set_at = now()`

const unsetRole = `
	WITH gone AS (DELETE FROM declared_roles WHERE name = $1 RETURNING 1)
	UPDATE policy_revision SET revision = revision + 1 WHERE EXISTS (SELECT FROM gone)`

const selectRoles = `SELECT name, operations FROM declared_roles WHERE name = ANY ($1)`

const readStored = `SELECT key, scope, value FROM policy_values WHERE key = ANY ($1)`

const readSubjects = `SELECT DISTINCT scope, subject FROM policy_values WHERE scope = ANY ($1::text[]) AND subject IS NOT NULL`

const readScopes = `SELECT DISTINCT scope FROM policy_values WHERE subject = ANY ($1::text[]) ORDER BY scope`

// Two writers queue here, so that the later commit has the higher revision.
const lockRevision = `SELECT revision FROM policy_revision FOR UPDATE`

// The first subject of a scope stays: a name may later belong to another tenant.
const setValue = `
	WITH next AS (
		UPDATE policy_revision SET revision = revision + 1
		WHERE NOT EXISTS (SELECT 1 FROM policy_values
			WHERE key = $1 AND scope = $2 AND subject IS NOT NULL AND value = $4::jsonb AND source = $5 AND object_id = $6)
		RETURNING revision
	)
	INSERT INTO policy_values (key, scope, subject, value, revision, source, object_id)
	SELECT $1, $2, $3, $4::jsonb, next.revision, $5, $6 FROM next
	ON CONFLICT (key, scope) DO UPDATE
	SET subject = coalesce(policy_values.subject, excluded.subject), value = excluded.value, revision = excluded.revision,
		source = excluded.source, object_id = excluded.object_id, set_at = now()`

// An object whose key or scope changes leaves no value at the old ones.
const unsetMoved = `
	WITH moved AS (DELETE FROM policy_values WHERE object_id = $1 AND (key, scope) <> ($2, $3) RETURNING 1)
	UPDATE policy_revision SET revision = revision + 1 WHERE EXISTS (SELECT 1 FROM moved)`

// The statement locks in the same sequence as the one that sets a value.
const unsetValue = `
	WITH next AS (
		UPDATE policy_revision SET revision = revision + 1
		WHERE EXISTS (SELECT 1 FROM policy_values WHERE key = $1 AND scope = $2)
		RETURNING revision
	)
	DELETE FROM policy_values USING next WHERE key = $1 AND scope = $2`
