-- +goose Up
-- storage: what the comparison of the object store with the files has found.

CREATE TABLE storage_checks (
	one             boolean PRIMARY KEY DEFAULT true CHECK (one),
	after_key       uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000', -- the next slice begins behind it
	unknown         bigint NOT NULL DEFAULT 0, -- backend objects without a file that this pass has left
	unknown_last    bigint NOT NULL DEFAULT 0, -- and the pass before
	collected       bigint NOT NULL DEFAULT 0, -- backend objects without a file that were deleted, of all passes
	finished_at     timestamptz, -- of the last pass
	-- After a restore of an older database the object store has objects that the database does not know. An operator confirms
	-- that those from before this time may be deleted.
	confirmed_until timestamptz NOT NULL DEFAULT 'epoch'
);
COMMENT ON TABLE storage_checks IS 'The position of the comparison of the object store with the files, and what it has found.';
INSERT INTO storage_checks DEFAULT VALUES;

CREATE TABLE storage_faults (
	object_key uuid PRIMARY KEY,
	org_id     uuid NOT NULL,
	project_id uuid NOT NULL,
	fault      text NOT NULL CHECK (fault IN ('missing', 'damaged')), -- damaged: another size or checksum
	found_at   timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE storage_faults IS 'Files whose bytes the object store has lost or changed. The files stay.';
SELECT scope_rows('storage_faults', 'org_id = (SELECT scope_tenant())');
