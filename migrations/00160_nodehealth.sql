-- +goose Up
-- nodehealth: health of nodes and GPUs, and the breaker of automatic holds.

CREATE TABLE health_reports (
	node_id     uuid NOT NULL REFERENCES nodes,
	source      text NOT NULL,              -- xid, nvml, disk, clock, operator
	target      text NOT NULL DEFAULT '',   -- GPU UUID; empty: the node
	level       text NOT NULL CHECK (level IN ('healthy', 'degraded', 'unhealthy', 'unknown')),
	check_id    text NOT NULL DEFAULT '',   -- the check that raised it: xid_79, row_remap_failed
	message     text NOT NULL DEFAULT '',
	action      text NOT NULL DEFAULT '',   -- of the fault table
	classes     text[] NOT NULL DEFAULT '{}', -- prevent_allocations, prevent_host_state_changes, suppress_external_alerting, exclude_from_state_machine_sla
	since       timestamptz NOT NULL DEFAULT now(),
	observed_at timestamptz NOT NULL DEFAULT now(),
	until       timestamptz,                -- end of a health override
	actor       text NOT NULL DEFAULT '',   -- of a health override
	PRIMARY KEY (node_id, source, target, check_id)
);
COMMENT ON TABLE health_reports IS
	'Health values of nodes and GPUs by source, with the overrides of operators. Readers merge them.';

CREATE TABLE breaker_trips (
	id             uuid PRIMARY KEY DEFAULT gen_random_uuid(),
	tripped_at     timestamptz NOT NULL DEFAULT now(),
	held           int NOT NULL,    -- nodes with a recent automatic hold
	allowed        int NOT NULL,    -- the limit for them
	fleet          int NOT NULL,    -- all nodes
	reason         text NOT NULL,   -- of the first rejected hold
	rejected_nodes uuid[] NOT NULL, -- nodes whose hold was rejected
	cleared_at     timestamptz,
	cleared_by     text NOT NULL DEFAULT '',
	CONSTRAINT breaker_trips_cleared_by_actor CHECK ((cleared_at IS NOT NULL) = (cleared_by <> ''))
);
COMMENT ON TABLE breaker_trips IS
	'Trips of the breaker of automatic holds. While one is not cleared, the platform sets no hold by itself.';
CREATE UNIQUE INDEX breaker_trips_one_open ON breaker_trips ((true)) WHERE cleared_at IS NULL;
-- An operator clears the breaker. Trips themselves need no audit row.
CREATE CONSTRAINT TRIGGER breaker_trips_decisions_are_audited AFTER UPDATE OF cleared_at ON breaker_trips
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	WHEN (current_setting('is_superuser') <> 'on' AND current_user NOT IN ('gpuaas_reconcile', 'gpuaas_work', 'gpuaas_node'))
	EXECUTE FUNCTION demand_audit();
