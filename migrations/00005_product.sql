-- +goose Up
-- room: inventory
CREATE TABLE nodes (
	id           uuid PRIMARY KEY, -- uid of the declaration
	name         text NOT NULL UNIQUE,
	sku          text NOT NULL,
	region       text NOT NULL,
	onboarding   text NOT NULL CHECK (onboarding IN ('manual', 'maas', 'simulated')),
	expected_gpus int NOT NULL,
	lifecycle    text NOT NULL CHECK (lifecycle IN ('declared', 'commissioning', 'enrolled', 'active', 'offline', 'draining', 'drained', 'retired')),
	health       text NOT NULL DEFAULT 'unknown' CHECK (health IN ('healthy', 'degraded', 'unhealthy', 'unknown')),
	reachability text NOT NULL DEFAULT 'stale' CHECK (reachability IN ('reachable', 'stale', 'partitioned')),
	cordoned     boolean NOT NULL DEFAULT false,
	hardware     text NOT NULL DEFAULT '',
	message      text NOT NULL DEFAULT '',
	version      bigint NOT NULL DEFAULT 1,
	updated_at   timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE gpus (
	uuid       text PRIMARY KEY,
	node_id    uuid NOT NULL REFERENCES nodes,
	index      int NOT NULL,
	model      text NOT NULL,
	memory_mib bigint NOT NULL,
	health     text NOT NULL,
	reasons    text[] NOT NULL DEFAULT '{}',
	present    boolean NOT NULL DEFAULT true,
	updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX gpus_by_node ON gpus (node_id);
CREATE TABLE slots (
	id         uuid PRIMARY KEY,
	node_id    uuid NOT NULL REFERENCES nodes,
	gpu_uuid   text NOT NULL UNIQUE REFERENCES gpus, -- one slot a GPU under the whole_gpu profile
	sku        text NOT NULL,
	region     text NOT NULL,
	status     text NOT NULL CHECK (status IN ('clean', 'claimed', 'dirty', 'quarantined')),
	fence      bigint NOT NULL DEFAULT 0, -- of the last proof that cleaned it
	reason     text NOT NULL DEFAULT '',
	updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX slots_by_node ON slots (node_id);
CREATE INDEX slots_for_sale ON slots (sku, region, node_id) WHERE status = 'clean';
CREATE TABLE slot_claims (
	slot_id       uuid NOT NULL REFERENCES slots,
	allocation_id uuid NOT NULL,
	period        tstzrange NOT NULL,
	CONSTRAINT slot_claims_one_holder EXCLUDE USING gist (slot_id WITH =, period WITH &&)
);
CREATE INDEX slot_claims_by_allocation ON slot_claims (allocation_id);
CREATE TABLE enrolment_tokens (
	secret_hash bytea PRIMARY KEY,
	node_id     uuid NOT NULL REFERENCES nodes,
	expires_at  timestamptz NOT NULL,
	used_at     timestamptz,
	created_at  timestamptz NOT NULL DEFAULT now()
);

-- What the loop may know of a node: the room's published view.
CREATE VIEW node_progress AS SELECT id AS node_id, reachability = 'reachable' AS reachable FROM nodes;

-- room: allocation
CREATE TABLE allocations (
	id           uuid PRIMARY KEY, -- equals the uid of its declaration
	org_id       uuid NOT NULL REFERENCES tenants,
	project_id   uuid NOT NULL REFERENCES projects,
	user_id      uuid NOT NULL REFERENCES users,
	name         text NOT NULL,
	sku          text NOT NULL,
	region       text NOT NULL,
	gpus         int NOT NULL CHECK (gpus > 0),
	node_id      uuid NOT NULL,
	price_minor  bigint NOT NULL, -- per GPU and hour
	currency     text NOT NULL,
	login        text NOT NULL,
	host_uid     int NOT NULL,
	status       text NOT NULL CHECK (status IN ('requested', 'provisioning', 'active', 'releasing', 'released', 'failed', 'release_failed')),
	reason       text NOT NULL DEFAULT '', -- of a release or a failure
	message      text NOT NULL DEFAULT '',
	labels       jsonb NOT NULL DEFAULT '{}',
	correlation_id text NOT NULL DEFAULT '', -- of the request that is being worked off
	trace        text NOT NULL DEFAULT '', -- its traceparent
	version      bigint NOT NULL DEFAULT 1,
	created_at   timestamptz NOT NULL DEFAULT now(),
	status_at    timestamptz NOT NULL DEFAULT now(),
	active_at    timestamptz,
	ended_at     timestamptz,
	expires_at   timestamptz,
	CONSTRAINT allocations_ended_has_a_time CHECK ((status IN ('released', 'failed')) = (ended_at IS NOT NULL)),
	CONSTRAINT allocations_active_was_active CHECK (status <> 'active' OR active_at IS NOT NULL)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX allocations_one_name ON allocations (project_id, name) WHERE status NOT IN ('released', 'failed');
CREATE INDEX allocations_by_project ON allocations (project_id, created_at DESC, id DESC);
CREATE INDEX allocations_by_tenant ON allocations (org_id, created_at DESC, id DESC);
CREATE INDEX allocations_live ON allocations (org_id, user_id) WHERE status NOT IN ('released', 'failed', 'release_failed');
-- A login uid is not used again for 30 days; the sequence takes years to come
-- round. Servers take it in blocks of 100.
CREATE SEQUENCE allocation_host_uid AS int INCREMENT BY 100 MINVALUE 200000 MAXVALUE 2000000000 CYCLE;

CREATE TABLE allocation_transitions (
	allocation_id uuid NOT NULL,
	version       bigint NOT NULL,
	event         text NOT NULL,
	from_status   text NOT NULL,
	to_status     text NOT NULL,
	reason        text NOT NULL DEFAULT '',
	message       text NOT NULL DEFAULT '',
	at            timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (allocation_id, version)
);
CREATE TRIGGER allocation_transitions_append_only BEFORE UPDATE OR DELETE ON allocation_transitions FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- +goose StatementBegin
-- The machine once more, behind the code: a status moves only as listed, and not
-- without the row that says so.
CREATE FUNCTION allocation_move_is_listed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF (OLD.status, NEW.status) NOT IN (
		('requested', 'provisioning'), ('requested', 'releasing'), ('requested', 'failed'),
		('provisioning', 'active'), ('provisioning', 'releasing'), ('provisioning', 'failed'),
		('active', 'releasing'), ('releasing', 'released'), ('releasing', 'release_failed'),
		('release_failed', 'releasing'), ('release_failed', 'released')
	) THEN
		RAISE EXCEPTION 'an allocation that is % does not become %', OLD.status, NEW.status USING ERRCODE = 'check_violation';
	END IF;
	RETURN NEW;
END $$;
CREATE FUNCTION allocation_move_has_a_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM allocation_transitions WHERE allocation_id = NEW.id AND version = NEW.version
		AND from_status = OLD.status AND to_status = NEW.status) THEN
		RAISE EXCEPTION 'allocation % became % without a row in its history', NEW.id, NEW.status USING ERRCODE = 'check_violation';
	END IF;
	RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER allocations_move_as_listed BEFORE UPDATE OF status ON allocations
	FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION allocation_move_is_listed();
CREATE CONSTRAINT TRIGGER allocations_move_with_a_row AFTER UPDATE ON allocations
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION allocation_move_has_a_row();

-- What the loop may know of an allocation's progress: the room's published view.
CREATE VIEW allocation_progress AS
	SELECT id AS allocation_id, status, status_at, expires_at FROM allocations;

-- +goose Down
DROP VIEW allocation_progress, node_progress;
DROP TABLE allocation_transitions, allocations, enrolment_tokens, slot_claims, slots, gpus, nodes;
DROP FUNCTION allocation_move_has_a_row, allocation_move_is_listed;
DROP SEQUENCE allocation_host_uid;
