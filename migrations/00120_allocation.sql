-- +goose Up
-- allocation: rights of projects to slots for a time, and their state machine.

CREATE TABLE allocations (
	id              uuid PRIMARY KEY, -- equals the uid of its desired object
	org_id          uuid NOT NULL REFERENCES tenants,
	project_id      uuid NOT NULL REFERENCES projects,
	user_id         uuid NOT NULL, -- a user or a service account, therefore without a foreign key
	name            text NOT NULL,
	labels          jsonb NOT NULL DEFAULT '{}',
	sku             text NOT NULL,
	region          text NOT NULL,
	gpus            int NOT NULL CHECK (gpus > 0),
	price_minor     bigint NOT NULL, -- per GPU and hour
	currency        text NOT NULL,
	key_ids         uuid[] NOT NULL DEFAULT '{}', -- SSH keys of the request, until the allocation has slots
	queue_until     timestamptz, -- a queued allocation fails at this time
	node_id         uuid, -- null while the allocation is queued
	login           text NOT NULL,
	host_uid        int NOT NULL,
	status          text NOT NULL CHECK (status IN ('requested', 'provisioning', 'active', 'releasing', 'released', 'failed', 'release_failed')),
	reason          text NOT NULL DEFAULT '', -- of a release or a failure
	message         text NOT NULL DEFAULT '',
	-- The reason why an active allocation is not charged: the platform cannot prove that it works.
	paused          text NOT NULL DEFAULT '' CHECK (paused IN ('', 'observation_stale', 'node_unhealthy')),
	-- The eviction that was announced to the tenant: deadline, actor and reason.
	eviction_at     timestamptz,
	eviction_by     text NOT NULL DEFAULT '',
	eviction_reason text NOT NULL DEFAULT '',
	correlation_id  text NOT NULL DEFAULT '', -- of the request that is being processed
	trace           text NOT NULL DEFAULT '', -- its traceparent
	version         bigint NOT NULL DEFAULT 1,
	created_at      timestamptz NOT NULL DEFAULT now(),
	status_at       timestamptz NOT NULL DEFAULT now(),
	active_at       timestamptz,
	ended_at        timestamptz,
	expires_at      timestamptz,
	CONSTRAINT allocations_ended_has_a_time CHECK ((status IN ('released', 'failed')) = (ended_at IS NOT NULL)),
	CONSTRAINT allocations_active_was_active CHECK (status <> 'active' OR active_at IS NOT NULL),
	CONSTRAINT allocations_paused_are_active CHECK (paused = '' OR status = 'active'),
	-- A queued allocation has no node. It may still be released, or fail.
	CONSTRAINT allocations_wait_without_a_node CHECK (node_id IS NOT NULL OR status IN ('requested', 'releasing', 'released', 'failed')),
	CONSTRAINT allocations_eviction_by_actor CHECK ((eviction_at IS NOT NULL) = (eviction_by <> ''))
) WITH (fillfactor = 80);
COMMENT ON TABLE allocations IS 'Allocations and their status.';
-- The name of a final allocation is free for another one.
CREATE UNIQUE INDEX allocations_one_name ON allocations (project_id, name) WHERE status NOT IN ('released', 'failed');
CREATE INDEX allocations_by_project ON allocations (project_id, created_at DESC, id DESC);
CREATE INDEX allocations_by_tenant ON allocations (org_id, created_at DESC, id DESC);
-- The allocations that count for the caps.
CREATE INDEX allocations_live ON allocations (org_id, user_id) WHERE status NOT IN ('released', 'failed', 'release_failed');
-- The queue of an SKU: the oldest request gets the next free slots.
CREATE INDEX allocations_queued ON allocations (sku, created_at, id) WHERE node_id IS NULL AND status = 'requested';
CREATE INDEX allocations_paused ON allocations (id) WHERE paused <> '';
SELECT scope_rows('allocations', 'org_id = (SELECT scope_tenant())');
CREATE CONSTRAINT TRIGGER allocations_are_audited AFTER INSERT ON allocations
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();

-- A uid must not be used again for 30 days; the sequence takes years to restart. Servers reserve blocks of 100.
CREATE SEQUENCE allocation_host_uid AS int INCREMENT BY 100 MINVALUE 200000 MAXVALUE 2000000000 CYCLE;
COMMENT ON SEQUENCE allocation_host_uid IS 'Numeric user ids of logins on the nodes.';

CREATE TABLE allocation_transitions (
	allocation_id uuid NOT NULL,
	version       bigint NOT NULL, -- of the allocation after the transition
	trigger       text NOT NULL,
	from_status   text NOT NULL,
	to_status     text NOT NULL,
	reason        text NOT NULL DEFAULT '',
	message       text NOT NULL DEFAULT '',
	at            timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (allocation_id, version)
);
COMMENT ON TABLE allocation_transitions IS 'Every transition of every allocation. Append-only.';
-- The statement that inserts an allocation also inserts its first transition, and cannot see the allocation yet. The
-- version 1 of another allocation already exists, so the exception gives no access to it.
SELECT scope_rows('allocation_transitions', 'EXISTS (SELECT FROM allocations a WHERE a.id = allocation_id)',
	'version = 1 AND (SELECT scope_tenant()) IS NOT NULL OR EXISTS (SELECT FROM allocations a WHERE a.id = allocation_id)');
CREATE TRIGGER allocation_transitions_append_only BEFORE UPDATE OR DELETE ON allocation_transitions FOR EACH ROW EXECUTE FUNCTION reject_change();
CREATE TRIGGER allocation_transitions_not_emptied BEFORE TRUNCATE ON allocation_transitions FOR EACH STATEMENT EXECUTE FUNCTION reject_change();

-- The transitions of product/allocation/state.go a second time: a defect in the code must not change the status of an
-- allocation in another way.
-- +goose StatementBegin
CREATE FUNCTION allocation_transition_is_listed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF (OLD.status, NEW.status) NOT IN (
		('requested', 'provisioning'), ('requested', 'releasing'), ('requested', 'failed'),
		('provisioning', 'active'), ('provisioning', 'releasing'), ('provisioning', 'failed'),
		('active', 'releasing'), ('releasing', 'released'), ('releasing', 'release_failed'),
		('release_failed', 'releasing'), ('release_failed', 'released')
	) THEN
		RAISE EXCEPTION 'the state machine has no transition from % to %', OLD.status, NEW.status USING ERRCODE = 'check_violation';
	END IF;
	RETURN NEW;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION allocation_transition_is_listed IS 'Rejects a change of status that the state machine does not have.';
CREATE TRIGGER allocations_transition_is_listed BEFORE UPDATE OF status ON allocations
	FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION allocation_transition_is_listed();

-- +goose StatementBegin
CREATE FUNCTION allocation_transition_is_recorded() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM allocation_transitions WHERE allocation_id = NEW.id AND version = NEW.version
		AND from_status = OLD.status AND to_status = NEW.status) THEN
		RAISE EXCEPTION 'allocation % became % without a row in allocation_transitions', NEW.id, NEW.status USING ERRCODE = 'check_violation';
	END IF;
	RETURN NULL;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION allocation_transition_is_recorded IS 'Rejects a change of status without its row in allocation_transitions.';
CREATE CONSTRAINT TRIGGER allocations_transition_is_recorded AFTER UPDATE ON allocations
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION allocation_transition_is_recorded();

CREATE VIEW allocation_progress WITH (security_invoker = true) AS
	SELECT id AS allocation_id, status, status_at, expires_at, price_minor * gpus AS hourly_minor, currency, eviction_at, eviction_by, eviction_reason FROM allocations;
COMMENT ON VIEW allocation_progress IS 'What the control loop reads of an allocation.';
