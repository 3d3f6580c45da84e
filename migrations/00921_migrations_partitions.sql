-- +goose Up
-- migrations: the month of a pending delivery is not dropped.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION drop_partitions(parent text, before timestamptz) RETURNS int LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = public, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
	lowest CONSTANT jsonb := '{"outbox_events": 7, "inbox": 7, "notifications": 30, "webhook_deliveries": 30, "audit_logs": 90, "plan_actions": 30, "plans": 30, "allocation_transitions": 90}';
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
					WHERE p.xid IS NULL OR (e.xid, e.seq) > (p.xid, p.seq))
				OR EXISTS (SELECT FROM %1$I e JOIN dead_letters d USING (event_id) WHERE d.resolved_at IS NULL)', old.partition) INTO busy;
			busy := busy OR EXISTS (SELECT FROM event_consumers c WHERE c.oldest_at < old.ends_at)
				OR EXISTS (SELECT FROM event_replays r WHERE r.done_at IS NULL AND r.from_at < old.ends_at);
		ELSIF parent = 'inbox' THEN
			-- A stored event can be published again. Its id may be of the month before.
			busy := EXISTS (SELECT FROM table_partitions o WHERE o.name = 'outbox_events' AND o.starts_at <= old.ends_at);
		ELSIF parent = 'audit_logs' THEN
			EXECUTE format('SELECT count(*) <> coalesce((SELECT rows FROM audit_exports WHERE month = %L), -1) FROM %I',
				old.starts_at, old.partition) INTO busy;
		ELSIF parent = 'webhook_deliveries' THEN
			EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE status = ''pending'')', old.partition) INTO busy;
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
	'that a consumer, a dead letter or a replay still needs, inbox rows of stored events, deliveries that are still to be sent, audit rows that are not exported, or a '
	'month that is younger than the lowest retention of the table.';
