package policies

const readRevision = `SELECT revision FROM policy_revision`

const readValues = `
	SELECT policy_revision.revision, policy_values.key, policy_values.scope, policy_values.value
	FROM policy_revision LEFT JOIN policy_values ON true`

const readStored = `SELECT key, scope, value FROM policy_values WHERE key = ANY ($1)`

// Two writers queue here, so that the later commit has the higher revision.
const lockRevision = `SELECT revision FROM policy_revision FOR UPDATE`

const setValue = `
	WITH next AS (
		UPDATE policy_revision SET revision = revision + 1
		WHERE NOT EXISTS (SELECT 1 FROM policy_values WHERE key = $1 AND scope = $2 AND value = $3::jsonb AND source = $4)
		RETURNING revision
	)
	INSERT INTO policy_values (key, scope, value, revision, source)
	SELECT $1, $2, $3::jsonb, next.revision, $4 FROM next
	ON CONFLICT (key, scope) DO UPDATE
	SET value = excluded.value, revision = excluded.revision, source = excluded.source, set_at = now()`

// The statement locks in the same sequence as the one that sets a value.
const unsetValue = `
	WITH next AS (
		UPDATE policy_revision SET revision = revision + 1
		WHERE EXISTS (SELECT 1 FROM policy_values WHERE key = $1 AND scope = $2)
		RETURNING revision
	)
	DELETE FROM policy_values USING next WHERE key = $1 AND scope = $2`
