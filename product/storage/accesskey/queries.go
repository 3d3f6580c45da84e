package accesskey

const (
	keyColumns = `id, org_id, project_id, access_key_id, name, prefix, read_only, created_by, created_at, expires_at, last_used_at, secret_enc, creator,
		coalesce(last_used_at < now() - interval '1 minute', true), coalesce(allocation_id, '00000000-0000-0000-0000-000000000000'),
		coalesce(expires_at <= now(), false)`

	selectKeys = `SELECT ` + keyColumns + ` FROM storage_access_keys WHERE project_id = $1 AND id > $2 ORDER BY id LIMIT $3`
	selectKey  = `SELECT ` + keyColumns + ` FROM storage_access_keys WHERE project_id = $1 AND id = $2`
	selectUse  = `SELECT ` + keyColumns + ` FROM storage_access_keys WHERE access_key_id = $1`
	touchKey   = `UPDATE storage_access_keys SET last_used_at = now() WHERE id = $1`
	deleteKey  = `DELETE FROM storage_access_keys WHERE project_id = $1 AND id = $2`
	// The caller has locked the project.
	insertKey = `
	INSERT INTO storage_access_keys (id, org_id, project_id, access_key_id, secret_enc, name, prefix, read_only, creator, created_by, created_at, expires_at)
	SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12 WHERE (SELECT count(*) FROM storage_access_keys WHERE project_id = $3 AND allocation_id IS NULL) < $13`
	deleteExpired = `DELETE FROM storage_access_keys WHERE project_id = $1 AND expires_at < now() - $2::interval AND allocation_id IS NULL`

	// It has ended until its node requests it.
	insertMountKey = `
	INSERT INTO storage_access_keys (id, org_id, project_id, access_key_id, secret_enc, name, prefix, read_only, creator, created_by, expires_at, allocation_id, mount_at, node_id)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, now(), $11, $12, nullif($13, '00000000-0000-0000-0000-000000000000'::uuid))`
	placeMountKeys  = `UPDATE storage_access_keys SET node_id = $2 WHERE allocation_id = $1`
	deleteMountKeys = `DELETE FROM storage_access_keys WHERE allocation_id = $1`
	extendMountKeys = `
	UPDATE storage_access_keys SET expires_at = now() + $3::interval WHERE allocation_id = $1 AND node_id = $2
	RETURNING id, mount_at, access_key_id, secret_enc, expires_at`

	// $1 is the beginning of the envelopes of the newest data key.
	selectOld = `SELECT id, ARRAY[secret_enc] FROM storage_access_keys WHERE substr(secret_enc, 1, length($1::bytea)) <> $1 AND id > $2`
	countOld  = `SELECT count(*) FROM storage_access_keys WHERE substr(secret_enc, 1, length($1::bytea)) <> $1`
	pageOld   = ` ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED`
	ofTools   = ` AND allocation_id IS NULL`
	ofMounts  = ` AND allocation_id IS NOT NULL`

	selectOldSecrets = selectOld + ofTools + pageOld
	countOldSecrets  = countOld + ofTools
	selectOldMounts  = selectOld + ofMounts + pageOld
	countOldMounts   = countOld + ofMounts
	resealSecret     = `UPDATE storage_access_keys SET secret_enc = $2 WHERE id = $1`
)
