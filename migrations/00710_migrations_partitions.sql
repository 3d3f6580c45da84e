-- +goose Up
-- migrations: monthly partitions of every partitioned table, and the end of old ones. A DELETE of a month of rows leaves
-- as many dead rows and their index entries; a dropped partition leaves nothing.

-- An id of version 7 begins with the milliseconds since 1970. A table whose rows must be found by their id alone is
-- partitioned by the id: its primary key and the foreign keys to it need no second column.
CREATE FUNCTION id_floor(at timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
	RETURN rpad(lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint), 12, '0'), 32, '0')::uuid;
COMMENT ON FUNCTION id_floor IS 'Returns the lowest id of version 7 that a row of this time can have.';

-- The month of a partition is the end of its name. The partition for rows of no month ("…_other") is not listed.
CREATE VIEW table_partitions AS
	SELECT p.relname::text AS name, c.relname::text AS partition, month AS starts_at, month + interval '1 month' AS ends_at
	FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent JOIN pg_class c ON c.oid = i.inhrelid
	CROSS JOIN LATERAL (SELECT to_date(right(c.relname, 6), 'YYYYMM')::timestamp AT TIME ZONE 'UTC' AS month) AS of
	WHERE p.relkind = 'p' AND p.relnamespace = 'public'::regnamespace AND c.relname ~ '_[0-9]{6}$';
COMMENT ON VIEW table_partitions IS 'The monthly partitions of each partitioned table.';

-- +goose StatementBegin
CREATE FUNCTION make_partition(parent text, month timestamptz) RETURNS void LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
	child text := format('%s_%s', parent, to_char(month AT TIME ZONE 'UTC', 'YYYYMM'));
	by_id boolean := (SELECT a.atttypid = 'uuid'::regtype FROM pg_partitioned_table p
		JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0] WHERE p.partrelid = parent::regclass);
	ends  timestamptz := (month AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC';
BEGIN
	IF to_regclass(child) IS NOT NULL THEN
		RETURN;
	END IF;
	EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', child, parent,
		CASE WHEN by_id THEN id_floor(month)::text ELSE month::text END, CASE WHEN by_id THEN id_floor(ends)::text ELSE ends::text END);
	-- A partition inherits the row triggers of its parent, but not the TRUNCATE trigger of an append-only table.
	IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = parent::regclass AND tgname = parent || '_not_emptied') THEN
		EXECUTE format('CREATE TRIGGER not_emptied BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION reject_change()', child);
	END IF;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION make_partition IS 'Creates the partition of one month if it is missing.';

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION make_partitions(n int) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
	parent text;
	this   timestamp := date_trunc('month', now() AT TIME ZONE 'UTC');
	since  timestamp;
BEGIN
	PERFORM pg_advisory_xact_lock(hashtext('make_partitions'));
	FOR parent IN SELECT relname FROM pg_partitioned_table p JOIN pg_class c ON c.oid = p.partrelid
		WHERE relnamespace = 'public'::regnamespace ORDER BY relname DESC
	LOOP
		-- The months between the newest partition and this month, too: use during an outage is charged in its months.
		SELECT least(max(starts_at) AT TIME ZONE 'UTC', this) INTO since FROM table_partitions WHERE name = parent;
		PERFORM make_partition(parent, month AT TIME ZONE 'UTC')
		FROM generate_series(coalesce(since, this), this + make_interval(months => n), interval '1 month') AS month ORDER BY month;
	END LOOP;
END $$;
-- +goose StatementEnd

-- SECURITY DEFINER: the workers own no table. A worker may be compromised, so the function itself has the
-- lowest retention of each table, and the conditions under which rows may go.
-- +goose StatementBegin
CREATE FUNCTION drop_partitions(parent text, before timestamptz) RETURNS int LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = public, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
	lowest CONSTANT jsonb := '{"outbox_events": 7, "audit_logs": 90, "plan_actions": 30, "plans": 30, "allocation_transitions": 90}';
	old    record;
	n      int := 0;
	busy   boolean;
BEGIN
	IF lowest -> parent IS NULL THEN
		RAISE EXCEPTION 'partitions of % are never dropped', parent USING ERRCODE = 'restrict_violation';
	END IF;
	PERFORM pg_advisory_xact_lock(hashtext('make_partitions'));
	FOR old IN SELECT * FROM table_partitions
		WHERE name = parent AND ends_at <= least(before, now() - make_interval(days => (lowest ->> parent)::int)) ORDER BY starts_at
	LOOP
		IF parent = 'outbox_events' THEN
			EXECUTE format('SELECT EXISTS (SELECT FROM %I e LEFT JOIN outbox_position p USING (stream)
				WHERE p.xid IS NULL OR (e.xid, e.seq) > (p.xid, p.seq))', old.partition) INTO busy;
		ELSIF parent = 'audit_logs' THEN
			EXECUTE format('SELECT count(*) <> coalesce((SELECT rows FROM audit_exports WHERE month = %L), -1) FROM %I',
				old.starts_at, old.partition) INTO busy;
		ELSE
			busy := false;
		END IF;
		EXIT WHEN busy;
		IF parent = 'plans' THEN
			EXECUTE format('DELETE FROM plan_approvals WHERE plan_id IN (SELECT id FROM %I)', old.partition);
		END IF;
		EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', parent, old.partition);
		EXECUTE format('DROP TABLE %I', old.partition);
		n := n + 1;
	END LOOP;
	RETURN n;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION drop_partitions IS
	'Drops the partitions that end before a time, and returns their number. It never drops events that are not published, '
	'audit rows that are not exported, or a month that is younger than the lowest retention of the table.';
