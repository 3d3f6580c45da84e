-- +goose Up
-- metering: whether the database was in use at a time.

CREATE FUNCTION metering_covers(moment timestamptz, longest interval) RETURNS boolean LANGUAGE sql STABLE
	RETURN EXISTS (SELECT FROM usage_ticks WHERE from_s <= extract(epoch FROM moment) AND to_s > extract(epoch FROM moment)
		AND to_s - from_s <= extract(epoch FROM longest));
COMMENT ON FUNCTION metering_covers IS
	'Reports whether a tick of at most this length contains the time. After a restore of an older database, one long tick '
	'contains the time that is lost.';
