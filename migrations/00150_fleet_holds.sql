-- +goose Up
-- fleet: holds on nodes and slots, and what the control loop reads of a node.

CREATE TABLE holds (
	id         uuid PRIMARY KEY,
	node_id    uuid NOT NULL REFERENCES nodes,
	slot_id    uuid REFERENCES slots, -- null: the whole node
	kind       text NOT NULL CHECK (kind IN ('cordon', 'drain', 'quarantine')),
	cause      text NOT NULL CHECK (cause IN ('operator', 'fingerprint', 'health', 'update')),
	owner      text NOT NULL, -- URN of the actor, or system
	reason     text NOT NULL,
	deadline   timestamptz,   -- of a drain: tenants are evicted then; of another hold: it expires then
	created_at timestamptz NOT NULL DEFAULT now(),
	lifted_at  timestamptz,
	lifted_by  text NOT NULL DEFAULT '',
	CONSTRAINT holds_lifted_by_actor CHECK ((lifted_at IS NOT NULL) = (lifted_by <> '')),
	CONSTRAINT holds_quarantine_a_slot CHECK ((kind = 'quarantine') = (slot_id IS NOT NULL)),
	CONSTRAINT holds_drain_by_a_deadline CHECK (kind <> 'drain' OR deadline IS NOT NULL)
);
COMMENT ON TABLE holds IS
	'Holds: reasons not to sell a node or a slot. Several may exist at once, and only the owner of one lifts it.';
CREATE INDEX holds_active ON holds (node_id) WHERE lifted_at IS NULL;
CREATE INDEX holds_of_slot ON holds (slot_id) WHERE slot_id IS NOT NULL AND lifted_at IS NULL;
CREATE UNIQUE INDEX holds_one_of_a_kind ON holds (node_id, coalesce(slot_id, '00000000-0000-0000-0000-000000000000'), kind, owner, cause)
	WHERE lifted_at IS NULL;
-- The breaker counts the recent holds that the platform set.
CREATE INDEX holds_by_platform ON holds (created_at) WHERE cause <> 'operator';
-- Holds that the platform sets by itself need no audit row.
CREATE CONSTRAINT TRIGGER holds_decisions_are_audited AFTER INSERT OR UPDATE OF lifted_at ON holds
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	WHEN (current_setting('is_superuser') <> 'on' AND current_user NOT IN ('gpuaas_reconcile', 'gpuaas_work', 'gpuaas_node'))
	EXECUTE FUNCTION demand_audit();

CREATE VIEW node_progress WITH (security_invoker = true) AS
	SELECT n.id AS node_id, n.reachability = 'reachable' AS reachable,
		NOT n.cordoned AND n.lifecycle <> 'retired' AND h.active = 0 AS sellable, n.lifecycle <> 'retired' AS in_fleet,
		n.changed, n.lifecycle, n.retiring, h.drain_deadline, h.hold_expires_at,
		EXISTS (SELECT FROM slots s WHERE s.node_id = n.id AND (s.status IN ('claimed', 'dirty')
			OR EXISTS (SELECT FROM slot_claims c WHERE c.slot_id = s.id AND upper_inf(c.period)))) AS occupied
	FROM nodes n, LATERAL (
		SELECT count(*) AS active, min(deadline) FILTER (WHERE kind = 'drain') AS drain_deadline,
			min(deadline) FILTER (WHERE kind <> 'drain') AS hold_expires_at
		FROM holds WHERE node_id = n.id AND slot_id IS NULL AND lifted_at IS NULL
	) h;
COMMENT ON VIEW node_progress IS
	'What the control loop reads of a node: whether it is sold, whether its hardware changed, by when it must be '
	'empty, and when its first hold expires.';

CREATE VIEW eviction_progress WITH (security_invoker = true) AS
	SELECT DISTINCT ON (c.allocation_id) c.allocation_id, h.deadline AS eviction_at, h.owner, h.reason
	FROM holds h JOIN slots s ON s.node_id = h.node_id JOIN slot_claims c ON c.slot_id = s.id AND upper_inf(c.period)
	WHERE h.kind = 'drain' AND h.lifted_at IS NULL ORDER BY c.allocation_id, h.deadline, h.id;
COMMENT ON VIEW eviction_progress IS
	'Allocations on draining nodes, with the drain whose deadline comes first.';
