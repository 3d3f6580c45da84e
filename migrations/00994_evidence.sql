-- +goose Up
-- evidence: bundles of signed records of a change. Their files are in the object store.
CREATE TABLE evidence_bundles (
	id              uuid PRIMARY KEY,
	org_id          uuid, -- of an allocation; null: only the platform reads it
	kind            text NOT NULL CHECK (kind IN ('allocation', 'revision', 'plan', 'key_rotation')),
	about           text NOT NULL, -- a resource name
	subject         text NOT NULL, -- the id or number in it
	cause           text NOT NULL,
	requested_by    text NOT NULL,
	correlation_id  text NOT NULL DEFAULT '',
	changed_at      timestamptz, -- of a change that a search has found; the next search begins with it
	status          text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'signed', 'failed')),
	attempts        integer NOT NULL DEFAULT 0, -- also those that ended with their process
	failure_code    text NOT NULL DEFAULT '', -- of the last attempt
	failure_message text NOT NULL DEFAULT '',
	number          bigint CHECK (number > 0),
	previous        text,  -- the digest of the bundle before
	sha256          text CHECK (sha256 ~ '^[0-9a-f]{64}$'),
	size_bytes      bigint,
	object_key      uuid,  -- of the file
	key_id          text,
	public_key      bytea CHECK (length(public_key) = 32),
	created_at      timestamptz NOT NULL DEFAULT now(),
	updated_at      timestamptz NOT NULL DEFAULT now(),
	signed_at       timestamptz,
	CONSTRAINT evidence_bundles_one_for_each_cause UNIQUE (kind, cause),
	CONSTRAINT evidence_bundles_one_chain UNIQUE (number),
	CONSTRAINT evidence_bundles_signed_as_a_whole CHECK (
		(status = 'signed') = (num_nulls(number, previous, sha256, size_bytes, object_key, key_id, public_key, signed_at) = 0)
		AND (status <> 'signed') = (num_nonnulls(number, previous, sha256, size_bytes, object_key, key_id, public_key, signed_at) = 0)),
	CONSTRAINT evidence_bundles_failed_with_a_reason CHECK (status <> 'failed' OR failure_code <> '')
);
COMMENT ON TABLE evidence_bundles IS 'Evidence bundles. The row of a signed bundle names its file, its number in the chain and the key that has signed it.';
CREATE INDEX evidence_bundles_by_subject ON evidence_bundles (subject, id);
CREATE INDEX evidence_bundles_by_tenant ON evidence_bundles (org_id, id);
CREATE INDEX evidence_bundles_by_age ON evidence_bundles (created_at);
CREATE INDEX evidence_bundles_by_change ON evidence_bundles (kind, changed_at) WHERE changed_at IS NOT NULL;
CREATE INDEX evidence_bundles_pending ON evidence_bundles (attempts, id) WHERE status = 'pending';
CREATE INDEX evidence_bundles_failed ON evidence_bundles (updated_at) WHERE status = 'failed';
CREATE UNIQUE INDEX evidence_bundles_by_file ON evidence_bundles (object_key) WHERE object_key IS NOT NULL;
SELECT scope_rows('evidence_bundles', 'org_id = (SELECT scope_tenant())');
