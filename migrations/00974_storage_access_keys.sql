-- +goose Up
-- storage: the access keys of the S3 endpoint.

CREATE TABLE storage_access_keys (
	id            uuid PRIMARY KEY,
	org_id        uuid NOT NULL,
	project_id    uuid NOT NULL,
	access_key_id text COLLATE "C" NOT NULL CONSTRAINT storage_access_keys_one_id UNIQUE,
	secret_enc    bytea NOT NULL, -- sealed, not hashed: the server calculates signatures with it
	name          text NOT NULL,
	prefix        text NOT NULL DEFAULT '', -- the folder whose files the key can use; empty: all of the project
	read_only     boolean NOT NULL,
	creator       jsonb NOT NULL, -- the caller whose present rights limit each use
	created_by    text NOT NULL, -- an actor, as in the audit log
	created_at    timestamptz NOT NULL DEFAULT now(),
	expires_at    timestamptz, -- null: no end
	last_used_at  timestamptz -- within a minute
);
COMMENT ON TABLE storage_access_keys IS 'Access keys of the S3 endpoint. A revoked key has no row.';
CREATE INDEX storage_access_keys_by_project ON storage_access_keys (project_id, id);
SELECT scope_rows('storage_access_keys', 'org_id = (SELECT scope_tenant())');
