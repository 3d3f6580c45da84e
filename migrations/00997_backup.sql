-- +goose Up
-- backup: backups of this database, and the last verification of each.
CREATE TABLE backups (
	id          text PRIMARY KEY,
	started_at  timestamptz NOT NULL,
	ended_at    timestamptz NOT NULL,
	size_bytes  bigint NOT NULL CHECK (size_bytes >= 0),
	verified_at timestamptz, -- null: never
	faults      integer NOT NULL DEFAULT 0 CHECK (faults >= 0), -- of the last verification
	CONSTRAINT backups_with_faults_are_verified CHECK (faults = 0 OR verified_at IS NOT NULL)
);
COMMENT ON TABLE backups IS 'Backups of this database that are in the target. The target is the truth; metrics read the rows.';
CREATE INDEX backups_by_end ON backups (ended_at);
