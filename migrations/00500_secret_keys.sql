-- +goose Up
-- secret: the private keys of the installation, sealed under a key-encryption key that is not in the database, and the
-- signed statements of public keys. Servers had shared the keys as files of a folder, and each process could read all.

CREATE TABLE signing_keys (
	id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	purpose    text NOT NULL CHECK (purpose IN ('authority', 'statements', 'tasks', 'logins', 'tokens', 'cursors', 'fields')),
	generation integer NOT NULL CHECK (generation > 0),
	status     text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'ended')),
	public     bytea NOT NULL, -- an Ed25519 key, or certificates in PEM; empty for a symmetric key
	sealed     bytea,          -- the envelope of the private key; an ended key has none
	created_at timestamptz NOT NULL DEFAULT now(),
	ended_at   timestamptz,
	-- The number of an ended key is not used again, because signatures name it.
	CONSTRAINT signing_keys_have_one_number UNIQUE (purpose, generation),
	CONSTRAINT signing_keys_end_without_a_secret CHECK ((status = 'ended') = (sealed IS NULL) AND (status = 'ended') = (ended_at IS NOT NULL))
);
COMMENT ON TABLE signing_keys IS
	'Private keys by purpose, sealed under the key-encryption key. A database role reads the purposes of its server role '
	'only; the policies are in grants.sql.';
ALTER TABLE signing_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE signing_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY owner ON signing_keys TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE CONSTRAINT TRIGGER signing_keys_are_audited AFTER INSERT OR UPDATE OR DELETE ON signing_keys
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();

CREATE VIEW public_keys AS SELECT purpose, generation, status, public, created_at, ended_at FROM signing_keys;
COMMENT ON VIEW public_keys IS 'The public parts of all keys, for every role.';

CREATE TABLE key_sets (
	kind       text NOT NULL CHECK (kind IN ('control', 'releases')),
	sequence   bigint NOT NULL CHECK (sequence > 0),
	kid        text NOT NULL, -- the key that signed
	body       bytea NOT NULL,
	signature  bytea NOT NULL CHECK (length(signature) = 64),
	created_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (kind, sequence)
);
COMMENT ON TABLE key_sets IS
	'Signed statements of the keys that nodes trust: those of the control plane, which a task key signs at each rotation, '
	'and those of agent releases, which a release key signs outside of the servers. Append-only.';
CREATE TRIGGER key_sets_append_only BEFORE UPDATE OR DELETE ON key_sets FOR EACH ROW EXECUTE FUNCTION reject_change();
CREATE TRIGGER key_sets_not_emptied BEFORE TRUNCATE ON key_sets FOR EACH STATEMENT EXECUTE FUNCTION reject_change();
CREATE CONSTRAINT TRIGGER key_sets_are_audited AFTER INSERT ON key_sets
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();
