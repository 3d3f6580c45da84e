-- +goose Up
-- storage: since when the database knows all that happened, and which backend objects no file can have again.

CREATE TABLE storage_history (
	one            boolean PRIMARY KEY DEFAULT true CHECK (one),
	server_started timestamptz NOT NULL, -- another one after a restart, a failover and a physical restore
	written_by     xid8 NOT NULL, -- the transaction that wrote this row; another one after the restore of a dump
	since          timestamptz NOT NULL
);
COMMENT ON TABLE storage_history IS 'Since when no restart and no restore of PostgreSQL can have lost what other transactions had committed.';
INSERT INTO storage_history (server_started, written_by, since) VALUES (pg_postmaster_start_time(), pg_current_xact_id(), now());

-- +goose StatementBegin
CREATE FUNCTION storage_known_since() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	known timestamptz;
BEGIN
	SELECT h.since INTO known FROM storage_history h
	WHERE h.server_started = pg_postmaster_start_time() AND h.xmin::text::bigint = h.written_by::text::bigint % 4294967296;
	IF known IS NULL THEN
		UPDATE storage_history h SET server_started = pg_postmaster_start_time(), written_by = pg_current_xact_id(), since = clock_timestamp()
		RETURNING h.since INTO known;
	END IF;
	RETURN known;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION storage_known_since IS
	'Returns the time since which the database knows all that happened. It is that of the first call after a restart or a '
	'restore of PostgreSQL: a restored database does not know what became of uploads that were in progress.';

ALTER TABLE storage_reservations
	ADD COLUMN unused boolean NOT NULL DEFAULT false; -- of a replaced or purged file: no file can have it again, in no history

ALTER TABLE storage_checks
	ADD COLUMN unknown_uploads bigint NOT NULL DEFAULT 0; -- uploads in the object store without a row that were left
