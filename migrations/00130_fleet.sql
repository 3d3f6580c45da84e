-- +goose Up
-- fleet: nodes, their GPUs, and enrolment. Operator holds follow in 00150, because they refer to slots.

CREATE TABLE nodes (
	id             uuid PRIMARY KEY, -- uid of the desired object
	name           text NOT NULL UNIQUE,
	-- From the desired object.
	sku            text NOT NULL,
	region         text NOT NULL,
	onboarding     text NOT NULL CHECK (onboarding IN ('manual', 'maas', 'simulated')),
	expected_gpus  int NOT NULL,
	hardware       text NOT NULL DEFAULT '',
	cordoned       boolean NOT NULL DEFAULT false,
	address        text NOT NULL DEFAULT '', -- of its SSH service; empty: its name
	-- State.
	lifecycle      text NOT NULL CHECK (lifecycle IN ('declared', 'commissioning', 'enrolled', 'active', 'offline', 'draining', 'drained', 'retired')),
	health         text NOT NULL DEFAULT 'unknown' CHECK (health IN ('healthy', 'degraded', 'unhealthy', 'unknown')),
	reachability   text NOT NULL DEFAULT 'stale' CHECK (reachability IN ('reachable', 'stale', 'partitioned')),
	message        text NOT NULL DEFAULT '',
	drained_at     timestamptz, -- no allocation is on the node while it drains
	retiring       boolean NOT NULL DEFAULT false, -- its object was deleted: the node drains and retires with its last proof
	-- From reports.
	proof_key      bytea, -- Ed25519 public key of the helper, created at enrolment; it signs the proofs
	topology       jsonb, -- of the last complete report
	fingerprint    text NOT NULL DEFAULT '', -- SHA-256 of the accepted hardware; a report with other hardware puts a hold on the node
	accepted       jsonb, -- the accepted hardware
	changed        text NOT NULL DEFAULT '', -- difference between accepted and reported hardware
	agent_version  text NOT NULL DEFAULT '',
	agent_platform text NOT NULL DEFAULT '', -- of the build that it needs; empty if the agent cannot replace itself
	version        bigint NOT NULL DEFAULT 1,
	updated_at     timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE nodes IS 'Managed computers: applied spec, lifecycle, health and reachability.';

CREATE TABLE gpus (
	uuid       text PRIMARY KEY,
	node_id    uuid NOT NULL REFERENCES nodes,
	index      int NOT NULL,
	model      text NOT NULL,
	memory_mib bigint NOT NULL,
	health     text NOT NULL,
	reasons    text[] NOT NULL DEFAULT '{}', -- of the health value
	present    boolean NOT NULL DEFAULT true, -- in the last complete report
	updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE gpus IS 'Physical devices of the nodes.';
CREATE INDEX gpus_by_node ON gpus (node_id);

CREATE TABLE enrolment_tokens (
	secret_hash    bytea PRIMARY KEY,
	node_id        uuid NOT NULL REFERENCES nodes,
	created_at     timestamptz NOT NULL DEFAULT now(),
	expires_at     timestamptz NOT NULL,
	used_at        timestamptz,
	revoked_at     timestamptz,
	-- The server creates the certificate outside of any transaction. The request that redeems the token reserves it
	-- meanwhile; the reservation of a crashed server ends by itself.
	reserved_by    uuid,
	reserved_until timestamptz
);
COMMENT ON TABLE enrolment_tokens IS 'Tokens for the first contact of a node, for one use, as SHA-256.';
CREATE CONSTRAINT TRIGGER enrolment_tokens_are_audited AFTER INSERT ON enrolment_tokens
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();
