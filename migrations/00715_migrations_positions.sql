-- +goose Up
-- migrations: positions of transactions that survive a logical dump. Events and audit rows are ordered by the number of
-- their transaction. A database that is filled from a dump numbers its transactions from the beginning: new rows would
-- come before the old ones, and the old ones would be above every horizon, so that no reader read them.

-- The position of a transaction is its number plus a base, which is 0 until a database is filled from a dump. It is a
-- constant of these functions, so that PostgreSQL inlines them and an insert reads no further table. A dump contains them.
CREATE FUNCTION xact_position() RETURNS xid8 LANGUAGE sql VOLATILE RETURN pg_current_xact_id();
COMMENT ON FUNCTION xact_position IS 'Returns the position of this transaction among those that write events and audit rows.';
CREATE FUNCTION xact_horizon() RETURNS xid8 LANGUAGE sql STABLE RETURN pg_snapshot_xmin(pg_current_snapshot());
COMMENT ON FUNCTION xact_horizon IS 'Returns the position below which every transaction has ended.';

ALTER TABLE outbox_events ALTER COLUMN xid SET DEFAULT xact_position();
ALTER TABLE audit_logs ALTER COLUMN xid SET DEFAULT xact_position();

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION demand_audit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET enable_bitmapscan = off AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM public.audit_logs WHERE at = now() AND xid = public.xact_position()) THEN
		-- Of a partition, the name of its table.
		RAISE EXCEPTION '% of % needs an audit row in its transaction', TG_OP, regexp_replace(TG_TABLE_NAME, '_([0-9]{6}|other)$', '')
			USING ERRCODE = 'restrict_violation', TABLE = regexp_replace(TG_TABLE_NAME, '_([0-9]{6}|other)$', ''), CONSTRAINT = TG_NAME,
				HINT = 'Write an audit row in the transaction of the change.';
	END IF;
	RETURN NULL;
END $$;

-- A row that this transaction sees has a position below the next transaction, unless it came from a dump.
CREATE FUNCTION continue_positions() RETURNS bigint LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
	highest numeric := (SELECT coalesce(max(p::text::numeric), 0) FROM (
		SELECT (SELECT xid FROM audit_logs ORDER BY xid DESC LIMIT 1) AS p
		UNION ALL SELECT (SELECT up_to FROM audit_seals ORDER BY up_to DESC LIMIT 1)
		UNION ALL SELECT (SELECT xid FROM outbox_position ORDER BY xid DESC LIMIT 1)
		UNION ALL SELECT (SELECT xid FROM outbox_events WHERE stream = s ORDER BY xid DESC LIMIT 1)
			FROM unnest(ARRAY['PROVISIONING', 'BILLING', 'PAYMENTS', 'FLEET']) AS s) AS stored);
	next    numeric := pg_snapshot_xmax(pg_current_snapshot())::text::numeric;
	base    numeric := xact_position()::text::numeric - pg_current_xact_id()::text::numeric;
BEGIN
	IF highest >= base + next THEN
		base := highest + 1 - pg_snapshot_xmin(pg_current_snapshot())::text::numeric;
		EXECUTE format($f$CREATE OR REPLACE FUNCTION xact_position() RETURNS xid8 LANGUAGE sql VOLATILE
			RETURN (pg_current_xact_id()::text::numeric + %s)::text::xid8$f$, base);
		EXECUTE format($f$CREATE OR REPLACE FUNCTION xact_horizon() RETURNS xid8 LANGUAGE sql STABLE
			RETURN (pg_snapshot_xmin(pg_current_snapshot())::text::numeric + %s)::text::xid8$f$, base);
	END IF;
	RETURN base;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION continue_positions IS
	'Raises the base of the positions in a database that was filled from a dump, and returns it. The server calls it at '
	'its start as the owner, before it serves.';
