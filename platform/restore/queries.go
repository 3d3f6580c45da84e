package restore

const (
	columns = `id, backup_id, restored_to, began_at, by, confirmed_at, confirmed_by, report`

	// A backup of a time at which a restore was not confirmed contains that restore, too. The newest one is in progress, and
	// the database knows nothing after the earliest point.
	selectOpen = `
		SELECT (array_agg(id ORDER BY began_at DESC))[1], (array_agg(backup_id ORDER BY began_at DESC))[1], min(restored_to), max(began_at),
			(array_agg(by ORDER BY began_at DESC))[1], (array_agg(report ORDER BY began_at DESC))[1]
		FROM restores WHERE confirmed_at IS NULL HAVING count(*) > 0`
	selectLast   = `SELECT ` + columns + ` FROM restores WHERE confirmed_at IS NOT NULL ORDER BY confirmed_at DESC LIMIT 1`
	selectLatest = `SELECT max(began_at) FROM restores`

	insertRestore = `INSERT INTO restores (id, backup_id, restored_to, by) VALUES ($1, $2, $3, $4) RETURNING ` + columns
	replaceOpen   = `UPDATE restores SET backup_id = $2, restored_to = $3, by = $4, report = '{}' WHERE id = $1 RETURNING ` + columns
	lockRestores  = `LOCK TABLE restores IN SHARE ROW EXCLUSIVE MODE`
	lockReaders   = `LOCK TABLE restores IN ACCESS EXCLUSIVE MODE`
	lockReports   = `LOCK TABLE restore_reports IN SHARE MODE`

	confirmOpen = `UPDATE restores SET confirmed_at = now(), confirmed_by = $1, report = report || $2 WHERE confirmed_at IS NULL`

	storePart = `UPDATE restores SET report = jsonb_set(report, ARRAY[$1], $2::jsonb) WHERE confirmed_at IS NULL`

	putReport = `
		INSERT INTO restore_reports (node_id, complete, allocations) VALUES ($1, $2, $3)
		ON CONFLICT (node_id) DO UPDATE SET reported_at = now(), complete = excluded.complete, allocations = excluded.allocations`
	insertUnknown = `
		INSERT INTO restore_allocations (allocation_id, node_id, restore_id, fence) VALUES ($1, $2, $3, $4)
		ON CONFLICT (allocation_id) DO UPDATE SET node_id = excluded.node_id, restore_id = excluded.restore_id, fence = excluded.fence`
	selectUnknown = `SELECT allocation_id FROM restore_allocations WHERE node_id = $1 AND allocation_id = ANY($2)`

	selectDifferences = `
		SELECT kind, node_id, node, allocation_id, status, phase, fence, stored_fence FROM restore_differences ORDER BY kind, node, allocation_id`
	selectNodes = `SELECT node_id, name, reported_at FROM restore_expected_nodes ORDER BY name`

	selectServers = `
		SELECT DISTINCT application_name FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = ANY($1) ORDER BY 1`
)
