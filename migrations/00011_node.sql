-- +goose Up
-- room: inventory
ALTER TABLE nodes
	ADD proof_key     bytea,                      -- Ed25519, made by the node's root half at enrolment: what it signs its proofs with
	ADD topology      jsonb,                      -- as last reported whole
	ADD fingerprint   text NOT NULL DEFAULT '',   -- SHA-256 of the hardware that was accepted; a differing report holds the node
	ADD accepted      jsonb,                      -- that hardware
	ADD changed       text NOT NULL DEFAULT '',   -- how the hardware of the last whole report differs from it
	ADD agent_version text NOT NULL DEFAULT '',   -- as last reported
	ADD drained_at    timestamptz,                -- observed: nobody stands on it while it drains
	ADD retiring      boolean NOT NULL DEFAULT false, -- drains because it is declared no more, and retires with the last proof
	ADD address       text NOT NULL DEFAULT '';   -- declared: where its SSH service is reached; empty: its name
-- Until when a hold keeps the slot unsold; null: none does. On the slot itself, for
-- only the row that a claim waits for is looked at again after the wait.
ALTER TABLE slots ADD held_until timestamptz;

-- A reason that keeps a node or a slot unsold, with who set it and until when.
-- Several may stand at once; only whoever set one lifts it.
CREATE TABLE holds (
	id         uuid PRIMARY KEY,
	node_id    uuid NOT NULL REFERENCES nodes,
	slot_id    uuid REFERENCES slots, -- null: the whole node
	kind       text NOT NULL CHECK (kind IN ('cordon', 'drain', 'quarantine')),
	cause      text NOT NULL CHECK (cause IN ('operator', 'fingerprint', 'health', 'update')),
	owner      text NOT NULL,         -- the actor's resource name, or system
	reason     text NOT NULL,
	deadline   timestamptz,           -- of a drain: tenants leave by then; of another: when it ends by itself
	created_at timestamptz NOT NULL DEFAULT now(),
	lifted_at  timestamptz,
	lifted_by  text NOT NULL DEFAULT '',
	CONSTRAINT holds_lifted_by_someone CHECK ((lifted_at IS NOT NULL) = (lifted_by <> '')),
	CONSTRAINT holds_quarantine_a_slot CHECK ((kind = 'quarantine') = (slot_id IS NOT NULL)),
	CONSTRAINT holds_drain_by_a_deadline CHECK (kind <> 'drain' OR deadline IS NOT NULL)
);
CREATE INDEX holds_standing ON holds (node_id) WHERE lifted_at IS NULL;
CREATE INDEX holds_of_slot ON holds (slot_id) WHERE slot_id IS NOT NULL AND lifted_at IS NULL;
CREATE UNIQUE INDEX holds_one_of_a_kind ON holds (node_id, coalesce(slot_id, '00000000-0000-0000-0000-000000000000'), kind, owner, cause) WHERE lifted_at IS NULL;
-- What the platform held by itself of late, for the breaker.
CREATE INDEX holds_by_platform ON holds (created_at) WHERE cause <> 'operator';

-- What the loop may know of a node: whether it sells, how its hardware differs from
-- what was accepted, whether it must be empty and by when, and whether a hold has run out.
CREATE OR REPLACE VIEW node_progress WITH (security_invoker = true) AS
	SELECT n.id AS node_id, n.reachability = 'reachable' AS reachable,
		NOT n.cordoned AND n.lifecycle <> 'retired' AND h.standing = 0 AS on_market, n.lifecycle <> 'retired' AS listed,
		n.changed, n.lifecycle, n.retiring, h.leave_at, h.lapses_at,
		EXISTS (SELECT FROM slots s WHERE s.node_id = n.id AND (s.status IN ('claimed', 'dirty')
			OR EXISTS (SELECT FROM slot_claims c WHERE c.slot_id = s.id AND upper_inf(c.period)))) AS occupied
	FROM nodes n, LATERAL (
		SELECT count(*) AS standing, min(deadline) FILTER (WHERE kind = 'drain') AS leave_at,
			min(deadline) FILTER (WHERE kind <> 'drain') AS lapses_at
		FROM holds WHERE node_id = n.id AND slot_id IS NULL AND lifted_at IS NULL
	) h;
-- And who must leave a node that drains, with the first deadline and whose it is.
CREATE VIEW leave_progress WITH (security_invoker = true) AS
	SELECT DISTINCT ON (c.allocation_id) c.allocation_id, h.deadline AS leave_at, h.owner, h.reason
	FROM holds h JOIN slots s ON s.node_id = h.node_id JOIN slot_claims c ON c.slot_id = s.id AND upper_inf(c.period)
	WHERE h.kind = 'drain' AND h.lifted_at IS NULL ORDER BY c.allocation_id, h.deadline, h.id;

-- What each source says about the health of a node or one of its GPUs, merged when
-- read. A source that falls silent is an alert of its own.
CREATE TABLE health_reports (
	node_id    uuid NOT NULL REFERENCES nodes,
	source     text NOT NULL,              -- xid, nvml, disk, clock, operator …
	target     text NOT NULL DEFAULT '',   -- GPU UUID; empty: the node
	level      text NOT NULL CHECK (level IN ('healthy', 'degraded', 'unhealthy', 'unknown')),
	check_id   text NOT NULL DEFAULT '',   -- what raised it: xid_79, row_remap_failed …
	message    text NOT NULL DEFAULT '',
	action     text NOT NULL DEFAULT '',   -- of the action table
	classes    text[] NOT NULL DEFAULT '{}', -- prevent_allocations, prevent_host_state_changes, suppress_external_alerting, exclude_from_state_machine_sla
	since      timestamptz NOT NULL DEFAULT now(),
	seen_at    timestamptz NOT NULL DEFAULT now(),
	until      timestamptz,                -- an operator's override ends
	actor      text NOT NULL DEFAULT '',   -- who overrode
	PRIMARY KEY (node_id, source, target, check_id)
);

-- The breaker of automatic holds: while a row is not cleared the platform holds
-- nothing more by itself, and a person must say that it may.
CREATE TABLE breaker_trips (
	id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
	tripped_at timestamptz NOT NULL DEFAULT now(),
	held       int NOT NULL,            -- nodes that were held of late when it tripped
	allowed    int NOT NULL,            -- and how many might have been
	fleet      int NOT NULL,
	reason     text NOT NULL,           -- of the hold that was refused first
	refused    uuid[] NOT NULL,         -- nodes that it has kept from being held
	cleared_at timestamptz,
	cleared_by text NOT NULL DEFAULT '',
	CONSTRAINT breaker_trips_cleared_by_someone CHECK ((cleared_at IS NOT NULL) = (cleared_by <> ''))
);
CREATE UNIQUE INDEX breaker_trips_one_standing ON breaker_trips ((true)) WHERE cleared_at IS NULL;

-- Builds of the agent that nodes may run, with the signed metadata that they check.
CREATE TABLE agent_releases (
	version    text NOT NULL,
	platform   text NOT NULL,             -- linux/amd64
	digest     text NOT NULL,             -- SHA-256 of the binary, hex
	size_bytes bigint NOT NULL,
	minimum    text NOT NULL DEFAULT '',  -- no older version is gone back to from here
	metadata   bytea NOT NULL,            -- canonical bytes that were signed
	signature  bytea NOT NULL,
	kid        text NOT NULL,
	expires_at timestamptz NOT NULL,
	created_at timestamptz NOT NULL DEFAULT now(),
	created_by text NOT NULL,
	PRIMARY KEY (version, platform)
);
-- One row for each node and version that it was asked to become.
CREATE TABLE agent_updates (
	node_id     uuid NOT NULL REFERENCES nodes,
	version     text NOT NULL,
	previous    text NOT NULL DEFAULT '',
	ring        int NOT NULL,             -- 0 goes first
	fence       bigint NOT NULL,          -- of the task that asked
	health      text NOT NULL,            -- of the node when it was asked: it must not be worse afterwards
	status      text NOT NULL CHECK (status IN ('waiting', 'asked', 'running', 'healthy', 'rolled_back', 'failed')),
	message     text NOT NULL DEFAULT '',
	deadline_at timestamptz,              -- of the health gate
	created_at  timestamptz NOT NULL DEFAULT now(),
	updated_at  timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (node_id, version)
);
CREATE INDEX agent_updates_under_way ON agent_updates (deadline_at) WHERE status IN ('asked', 'running');
-- How far each version that some node is to have has come, as last judged.
CREATE TABLE agent_rollouts (
	version    text PRIMARY KEY,
	status     text NOT NULL CHECK (status IN ('rolling', 'done', 'stopped', 'blocked')),
	ring       int NOT NULL,
	nodes      int NOT NULL,              -- that are to have it
	has        int NOT NULL,
	going      int NOT NULL,
	lost       int NOT NULL,              -- that went back to another, or failed
	message    text NOT NULL DEFAULT '',
	turns      int NOT NULL DEFAULT 1,    -- counts changes of the status
	updated_at timestamptz NOT NULL DEFAULT now()
);
-- What a build must be made for, as last reported; empty where the agent does not replace itself.
ALTER TABLE nodes ADD agent_platform text NOT NULL DEFAULT '';

ALTER TABLE enrolment_tokens
	ADD revoked_at     timestamptz,
	ADD reserved_by    uuid,        -- who redeems it now: its certificate is being made outside any transaction
	ADD reserved_until timestamptz; -- one that crashed lets go here

-- room: allocation
-- That its node drains, as its tenant was told: by when it leaves, whose word that is, and why.
ALTER TABLE allocations
	ADD leave_at  timestamptz,
	ADD leave_by  text NOT NULL DEFAULT '',
	ADD leave_why text NOT NULL DEFAULT '',
	ADD CONSTRAINT allocations_leave_by_somebody CHECK ((leave_at IS NOT NULL) = (leave_by <> ''));
CREATE OR REPLACE VIEW allocation_progress WITH (security_invoker = true) AS
	SELECT id AS allocation_id, status, status_at, expires_at, price_minor * gpus AS hourly_minor, currency, leave_at, leave_by, leave_why FROM allocations;

-- room: secret
ALTER TABLE certificates
	ADD issuer     text NOT NULL DEFAULT '', -- which key signed it
	ADD trust      text NOT NULL DEFAULT '', -- stamp of what its node was told to believe with it: a roll-over ends when all know
	ADD revoked_at timestamptz,
	ADD reason     text NOT NULL DEFAULT '';

-- room: observed
-- What one server process vouches for: every node whose row names the lease was
-- heard at seen_at or later, and says what its row says. One row written for
-- thousands that would say the same.
CREATE TABLE observed_leases (
	id       uuid PRIMARY KEY,
	seen_at  timestamptz NOT NULL,
	stale_at timestamptz NOT NULL
) WITH (fillfactor = 50);
-- No index: it would keep the updates from being HOT. May outlive the lease, whose
-- time has passed then.
ALTER TABLE observed_nodes ADD lease uuid;

-- room: jobs/nodetask
-- A question about the node itself, answered by this message.
ALTER TABLE node_tasks ADD answer jsonb;
CREATE INDEX node_tasks_about_node ON node_tasks (node_id, fence) WHERE allocation_id IS NULL AND fence > 0;

-- +goose StatementBegin
DO $$
DECLARE
	line record;
BEGIN
	FOR line IN SELECT * FROM (VALUES
		('holds', 'INSERT OR UPDATE OF lifted_at'),
		('breaker_trips', 'UPDATE OF cleared_at'),
		('agent_releases', 'INSERT OR UPDATE'),
		('certificates', 'UPDATE OF revoked_at')
	) AS demanded (name, events) LOOP
		EXECUTE format('CREATE CONSTRAINT TRIGGER %I AFTER %s ON %I DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
			WHEN (current_setting(''is_superuser'') <> ''on'' AND current_user NOT IN (''gpuaas_reconcile'', ''gpuaas_work'', ''gpuaas_node'')) EXECUTE FUNCTION demand_audit()', line.name || '_decisions_are_audited', line.events, line.name);
	END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER certificates_decisions_are_audited ON certificates;
DROP INDEX node_tasks_about_node;
ALTER TABLE node_tasks DROP answer;
ALTER TABLE observed_nodes DROP lease;
DROP TABLE observed_leases;
ALTER TABLE certificates DROP issuer, DROP trust, DROP revoked_at, DROP reason;
ALTER TABLE enrolment_tokens DROP revoked_at, DROP reserved_by, DROP reserved_until;
DROP VIEW leave_progress, node_progress, allocation_progress;
CREATE VIEW node_progress WITH (security_invoker = true) AS
	SELECT id AS node_id, reachability = 'reachable' AS reachable, NOT cordoned AND lifecycle <> 'retired' AS on_market, lifecycle <> 'retired' AS listed FROM nodes;
CREATE VIEW allocation_progress WITH (security_invoker = true) AS
	SELECT id AS allocation_id, status, status_at, expires_at, price_minor * gpus AS hourly_minor, currency FROM allocations;
ALTER TABLE allocations DROP CONSTRAINT allocations_leave_by_somebody, DROP leave_at, DROP leave_by, DROP leave_why;
ALTER TABLE slots DROP held_until;
DROP TABLE agent_rollouts, agent_updates, agent_releases, breaker_trips, health_reports, holds;
ALTER TABLE nodes DROP retiring, DROP address, DROP proof_key, DROP topology, DROP accepted, DROP changed, DROP fingerprint, DROP agent_version, DROP agent_platform, DROP drained_at;
