-- +goose Up
-- migrations: monthly partitions of the append-only tables of audit, event and ledger.

-- SECURITY DEFINER: the role of the workers creates partitions and owns no table. The function also creates the months
-- between the newest partition and this month: use during an outage of the servers is charged in the months of the use.
-- +goose StatementBegin
CREATE FUNCTION make_partitions(n int) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
	parent text;
	month  date;
	last   date := date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => n);
BEGIN
	PERFORM pg_advisory_xact_lock(hashtext('make_partitions'));
	FOREACH parent IN ARRAY ARRAY['audit_logs', 'outbox_events', 'ledger_entries'] LOOP
		SELECT coalesce(max(to_date(right(inhrelid::regclass::text, 6), 'YYYYMM')), last) INTO month
		FROM pg_inherits WHERE inhparent = parent::regclass AND inhrelid::regclass::text ~ '_[0-9]{6}$';
		month := least(month, date_trunc('month', now() AT TIME ZONE 'UTC')::date);
		WHILE month <= last LOOP
			IF to_regclass(format('%s_%s', parent, to_char(month, 'YYYYMM'))) IS NULL THEN
				EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)',
					format('%s_%s', parent, to_char(month, 'YYYYMM')), parent,
					month::timestamp AT TIME ZONE 'UTC', (month + interval '1 month')::timestamp AT TIME ZONE 'UTC');
				-- A partition inherits the row triggers of its parent, but not the TRUNCATE trigger.
				EXECUTE format('CREATE TRIGGER not_emptied BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION reject_change()',
					format('%s_%s', parent, to_char(month, 'YYYYMM')));
			END IF;
			month := month + interval '1 month';
		END LOOP;
	END LOOP;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION make_partitions IS
	'Creates the missing partitions up to n months ahead. Any number of processes may call it at any time.';
SELECT make_partitions(3);
