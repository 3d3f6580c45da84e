-- +goose Up
-- storage: uploads in parts, which survive restarts of the client and of the server.

CREATE TABLE storage_uploads (
	id           uuid PRIMARY KEY, -- also that of the backend object, and of its reservation
	org_id       uuid NOT NULL,
	project_id   uuid NOT NULL,
	path         text NOT NULL,
	media_type   text NOT NULL,
	size_bytes   bigint CHECK (size_bytes >= 0), -- null: not announced
	part_bytes   bigint CHECK (part_bytes > 0), -- of each part but the last; null: any
	sha256       bytea CHECK (length(sha256) = 32), -- null: not compared
	if_absent    boolean NOT NULL,
	if_match     text NOT NULL,
	handle       text NOT NULL, -- the name of the upload in the object store
	state        text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'completed', 'aborted')),
	result       jsonb, -- the response to every further completion
	-- The SHA-256 of the first bytes, where a completion ended before it had read all of them.
	hashed_bytes bigint NOT NULL DEFAULT 0,
	hash_state   bytea,
	created_by   text NOT NULL, -- an actor, as in the audit log
	created_at   timestamptz NOT NULL DEFAULT now(),
	expires_at   timestamptz NOT NULL,
	CONSTRAINT storage_uploads_completed_has_result CHECK ((state = 'completed') = (result IS NOT NULL))
);
COMMENT ON TABLE storage_uploads IS 'Uploads in parts. Completed and aborted ones remain until they expire, for requests that are repeated.';
CREATE INDEX storage_uploads_of_project ON storage_uploads (project_id, id) WHERE state = 'open';
CREATE INDEX storage_uploads_by_end ON storage_uploads (expires_at);
SELECT scope_rows('storage_uploads', 'org_id = (SELECT scope_tenant())');

CREATE TABLE storage_parts (
	upload_id      uuid NOT NULL REFERENCES storage_uploads ON DELETE CASCADE,
	number         integer NOT NULL CHECK (number BETWEEN 1 AND 10000),
	org_id         uuid NOT NULL,
	reserved_bytes bigint NOT NULL DEFAULT 0 CHECK (reserved_bytes >= 0), -- where the size of the upload is not announced
	size_bytes     bigint CHECK (size_bytes >= 0), -- null: only reserved
	sha256         bytea CHECK (length(sha256) = 32),
	-- What the object store named the stored bytes, the last one first: equal bytes can arrive several times.
	tags           text[] NOT NULL DEFAULT '{}',
	stored_at      timestamptz, -- null: not known to have arrived
	PRIMARY KEY (upload_id, number),
	CONSTRAINT storage_parts_known CHECK ((size_bytes IS NULL) = (sha256 IS NULL) AND (stored_at IS NULL OR size_bytes IS NOT NULL))
);
COMMENT ON TABLE storage_parts IS 'Parts of uploads that have arrived, or that a client sends to the object store itself.';
SELECT scope_rows('storage_parts', 'org_id = (SELECT scope_tenant())');
