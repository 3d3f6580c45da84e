package backup

const (
	// tryLock is released by the end of the session, also of a killed process.
	tryLock = `SELECT pg_try_advisory_lock(hashtextextended('backup.create', 0))`

	selectSystem = `
		SELECT system_identifier::text, current_setting('server_version_num')::int / 10000, current_database(),
			(SELECT rolname FROM pg_roles WHERE oid = 10),
			(SELECT setting::bigint FROM pg_settings WHERE name = 'wal_segment_size'),
			(SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied),
			current_setting('archive_mode'), clock_timestamp()
		FROM pg_control_system()`

	selectNow = `SELECT clock_timestamp()`

	// selectTables lists what a restore must contain: not unlogged tables, which it empties.
	selectTables = `
		SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
		ORDER BY n.nspname, c.relname`

	snapshot = `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY`
	patient  = `SET LOCAL statement_timeout = 0`

	// selectQuiet is the first statement of the snapshot: no transaction with an id may be in progress in it.
	selectQuiet = `SELECT pg_snapshot_xmax(s)::text, pg_snapshot_xmin(s) = pg_snapshot_xmax(s) FROM pg_current_snapshot() s`

	// selectAfter and the two after it run in another session, in this sequence. A transaction whose commit is before the
	// position either still has the lock of its id, or has raised the end of the snapshot.
	selectAfter = `SELECT pg_current_wal_insert_lsn()::text`
	selectFree  = `SELECT NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'transactionid' AND granted)`
	selectXmax  = `SELECT pg_snapshot_xmax(pg_current_snapshot())::text`

	// switchSegment ends the present segment, so that PostgreSQL archives it. A message before it makes sure that the
	// segment has a record.
	switchSegment = `SELECT pg_switch_wal()::text FROM pg_logical_emit_message(false, 'gpuaas.backup', $1::text)`

	// selectReached is read after the end of a recovery. The time of the last replayed commit stays known. The last column
	// is the role that owns the schema.
	selectReached = `
		SELECT pg_current_wal_lsn()::text, timeline_id, pg_last_xact_replay_timestamp(),
			(SELECT pg_get_userbyid(relowner)::text FROM pg_class WHERE oid = 'goose_db_version'::regclass)
		FROM pg_control_checkpoint()`

	selectSystemOnly = `SELECT system_identifier::text FROM pg_control_system()`
)
