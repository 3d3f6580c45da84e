package storage

import "fmt"

const (
	// ObjectColumns are those of ScanObject.
	ObjectColumns = `id, parent_id, name, type, size_bytes, object_key, sha256, media_type, created_by, created_at, updated_at, deleted_at, purge_at, deleted_path,
		deepest, longest, metadata`

	// $2 are the folded names. A name is compared by its folded form, for which a folder has one object. LIMIT makes PostgreSQL
	// read the index for each name: as a plain join it reads all files of the installation.
	selectPath = `
	WITH RECURSIVE walk AS (
		SELECT o.*, 0 AS depth FROM storage_objects o WHERE o.id = $1
		UNION ALL
		SELECT o.*, w.depth + 1 FROM walk w, LATERAL (
			SELECT * FROM storage_objects WHERE parent_id = w.id AND folded = ($2::text[])[w.depth + 1] AND deleted_at IS NULL LIMIT 1) o
		WHERE w.depth < cardinality($2::text[])
	)
	SELECT ` + ObjectColumns + ` FROM walk ORDER BY depth`

	lockProject = `SELECT 1 FROM storage_usage WHERE scope_id = $1 FOR UPDATE`

	// $1 is the tenant and $2 the project. The project is inserted first, as it is locked first.
	insertRoot = `
	WITH project AS (INSERT INTO storage_usage (scope_id, org_id, project_id) VALUES ($2, $1, $2) ON CONFLICT DO NOTHING),
		tenant AS (INSERT INTO storage_usage (scope_id, org_id) VALUES ($1, $1) ON CONFLICT DO NOTHING)
	INSERT INTO storage_objects (id, org_id, project_id, name, folded, type) VALUES ($2, $1, $2, '', '', 'folder') ON CONFLICT DO NOTHING`

	updateUsage = `
	UPDATE storage_usage SET bytes = bytes + $2, reserved_bytes = reserved_bytes + $3, objects = objects + $4
	WHERE scope_id = $1 RETURNING bytes + reserved_bytes, objects`

	selectUsage = `
	SELECT coalesce(sum(bytes) FILTER (WHERE scope_id = $1), 0)::bigint, coalesce(sum(reserved_bytes) FILTER (WHERE scope_id = $1), 0)::bigint,
		coalesce(sum(objects) FILTER (WHERE scope_id = $1), 0)::bigint,
		coalesce(sum(bytes + reserved_bytes) FILTER (WHERE scope_id = $2), 0)::bigint, coalesce(sum(objects) FILTER (WHERE scope_id = $2), 0)::bigint
	FROM storage_usage WHERE scope_id IN ($1, $2)`

	insertReservation = `
	INSERT INTO storage_reservations (object_key, org_id, project_id, bytes, expires_at) VALUES ($1, $2, $3, $4, now() + $5::interval)`
	updateReservation = `UPDATE storage_reservations SET bytes = $2, expires_at = now() + $3::interval WHERE object_key = $1 AND expires_at > now()`
	endReservation    = `
	UPDATE storage_reservations r SET bytes = 0, expires_at = now()
	FROM (SELECT object_key, bytes FROM storage_reservations WHERE object_key = $1 FOR UPDATE) old WHERE r.object_key = old.object_key RETURNING old.bytes`
	// A reservation that has ended belongs to the cleanup job, which may be deleting the backend object.
	useReservation = `DELETE FROM storage_reservations WHERE object_key = $1 AND expires_at > now() RETURNING bytes`
	// The backend object of a replaced or purged file, if no other file has it.
	leaveObject = `
	INSERT INTO storage_reservations (object_key, org_id, project_id, bytes, expires_at, unused)
	SELECT $1, $2, $3, 0, now() + $4::interval, true WHERE NOT EXISTS (SELECT FROM storage_objects WHERE object_key = $1) ON CONFLICT DO NOTHING`

	insertObject = `
	INSERT INTO storage_objects (id, org_id, project_id, parent_id, name, folded, type, size_bytes, object_key, sha256, media_type, created_by, deepest, longest, metadata)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`
	replaceFile = `
	UPDATE storage_objects SET size_bytes = $2, object_key = $3, sha256 = $4, media_type = $5, created_by = $6, metadata = $7, updated_at = now() WHERE id = $1`
	setMetadata = `UPDATE storage_objects SET metadata = $2, updated_at = now() WHERE id = $1`
	growFolder  = `UPDATE storage_objects SET deepest = greatest(deepest, $2), longest = greatest(longest, $3) WHERE id = $1`
	moveObject  = `UPDATE storage_objects SET parent_id = $2, name = $3, folded = $4, updated_at = now() WHERE id = $1`

	trashObject = `
	UPDATE storage_objects SET deleted_at = now(), purge_at = now() + $2::interval, deleted_path = $3 WHERE id = $1 RETURNING deleted_at, purge_at`
	untrashObject = `
	UPDATE storage_objects SET deleted_at = NULL, purge_at = NULL, deleted_path = NULL, parent_id = $2, name = $3, folded = $4, updated_at = now() WHERE id = $1`
	purgeNow      = `UPDATE storage_objects SET purge_at = now() WHERE id = $1 RETURNING purge_at`
	isEmpty       = `SELECT NOT EXISTS (SELECT FROM storage_objects WHERE parent_id = $1 AND deleted_at IS NULL)`
	selectTrash   = `SELECT ` + ObjectColumns + ` FROM storage_objects WHERE project_id = $1 AND deleted_at IS NOT NULL AND purge_at > now() AND id > $2 ORDER BY id LIMIT $3`
	selectInTrash = `SELECT ` + ObjectColumns + ` FROM storage_objects WHERE project_id = $1 AND id = $2 AND deleted_at IS NOT NULL`

	// The live folders from one to the outermost folder of the project, that one first. Without it the folder is deleted or
	// purged.
	selectFolders = `
	WITH RECURSIVE up AS (
		SELECT o.*, 0 AS depth FROM storage_objects o WHERE o.id = $1 AND o.deleted_at IS NULL
		UNION ALL
		SELECT o.*, u.depth + 1 FROM up u, LATERAL (SELECT * FROM storage_objects WHERE id = u.parent_id AND deleted_at IS NULL LIMIT 1) o
	)
	SELECT ` + ObjectColumns + ` FROM up ORDER BY depth DESC`

	selectPurge = `
	SELECT DISTINCT org_id, project_id FROM (SELECT org_id, project_id FROM storage_objects WHERE purge_at <= now() ORDER BY purge_at LIMIT $1) due`
	trashChildren = `
	UPDATE storage_objects SET deleted_at = now(), purge_at = now(), deleted_path = name WHERE id IN (
		SELECT o.id FROM storage_objects f JOIN storage_objects o ON o.parent_id = f.id AND o.deleted_at IS NULL
		WHERE f.project_id = $1 AND f.type = 'folder' AND f.purge_at <= now() LIMIT $2)`
	// The rows of a statement see what was before it, so the purged files are excluded from those that use a backend object.
	deletePurged = `
	WITH purged AS (
		DELETE FROM storage_objects WHERE id IN (
			SELECT id FROM storage_objects o WHERE project_id = $1 AND purge_at <= now()
				AND (type = 'file' OR NOT EXISTS (SELECT FROM storage_objects c WHERE c.parent_id = o.id AND c.deleted_at IS NULL)) ORDER BY purge_at LIMIT $3)
		RETURNING id, object_key, size_bytes
	), unused AS (
		INSERT INTO storage_reservations (object_key, org_id, project_id, bytes, expires_at, unused)
		SELECT DISTINCT object_key, $2::uuid, $1, 0, now(), true FROM purged p WHERE object_key IS NOT NULL
			AND NOT EXISTS (SELECT FROM storage_objects o WHERE o.object_key = p.object_key AND o.id NOT IN (SELECT id FROM purged)) ON CONFLICT DO NOTHING
	)
	SELECT coalesce(sum(size_bytes), 0)::bigint, count(*) FROM purged`

	lockProjects = `SELECT project_id FROM storage_usage WHERE org_id = $1 AND project_id IS NOT NULL ORDER BY project_id FOR UPDATE`
	// What is below a deleted folder is purged with it.
	purgeTenant = `
	WITH purged AS (
		UPDATE storage_objects SET deleted_at = coalesce(deleted_at, now()), purge_at = now(), deleted_path = coalesce(deleted_path, name)
		WHERE org_id = $1 AND parent_id IS NOT NULL AND (parent_id = project_id OR deleted_at IS NOT NULL)
	)
	SELECT coalesce(sum(objects), 0)::bigint, coalesce(sum(bytes), 0)::bigint FROM storage_usage WHERE org_id = $1 AND project_id IS NOT NULL`
	selectTotals = `
	SELECT coalesce(sum(bytes), 0)::bigint, coalesce(sum(reserved_bytes), 0)::bigint, coalesce(sum(objects), 0)::bigint FROM storage_usage WHERE project_id IS NULL`
	// One row, also for a project that has never stored anything.
	lockEmpty = `
	SELECT coalesce(sum(objects), 0)::bigint, coalesce(sum(bytes + reserved_bytes), 0)::bigint
	FROM (SELECT objects, bytes, reserved_bytes FROM storage_usage WHERE scope_id = $1 FOR UPDATE) locked`
	// An upload in progress may have reserved no byte: its size is not known, or its file is empty.
	openUploads  = `SELECT count(*) FROM storage_uploads WHERE project_id = $1 AND state = 'open' AND expires_at > now()`
	tenantStores = `
	SELECT coalesce(sum(objects), 0)::bigint, coalesce(sum(bytes + reserved_bytes), 0)::bigint,
		(SELECT count(*) FROM storage_uploads WHERE org_id = $1 AND state = 'open' AND expires_at > now())
	FROM storage_usage WHERE scope_id = $1`

	selectEnded = `SELECT object_key, org_id, project_id FROM storage_reservations WHERE expires_at <= now() ORDER BY expires_at LIMIT $1`

	// The bytes of an upload that began before a restart or a restore of the database may be those of a file that the database does
	// not know. They stay in the object store until an operator confirms, like all that it does not know.
	isCovered = `(%[1]s.created_at >= (SELECT storage_known_since()) OR %[1]s.created_at < (SELECT confirmed_until FROM storage_checks))`
)

var emptyReservation = `
	UPDATE storage_reservations r SET bytes = 0
	FROM (SELECT object_key, bytes FROM storage_reservations WHERE object_key = $1 AND expires_at <= now() FOR UPDATE) old
	WHERE r.object_key = old.object_key
	RETURNING old.bytes, NOT EXISTS (SELECT FROM storage_objects o WHERE o.object_key = r.object_key) AND (r.unused OR ` + fmt.Sprintf(isCovered, "r") + `)`

const (
	cleanupDue = `
	SELECT EXISTS (SELECT FROM storage_objects WHERE purge_at <= now()) OR EXISTS (SELECT FROM storage_reservations WHERE expires_at <= now())
		OR EXISTS (SELECT FROM storage_uploads WHERE expires_at <= now())`
	deleteReservation = `DELETE FROM storage_reservations WHERE object_key = $1 AND expires_at <= now()`
)
