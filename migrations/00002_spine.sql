-- +goose Up
-- room: desired
CREATE TABLE desired_objects (
	uid              uuid PRIMARY KEY,
	kind             text NOT NULL,
	scope            text NOT NULL DEFAULT '',
	name             text NOT NULL,
	labels           jsonb NOT NULL DEFAULT '{}',
	annotations      jsonb NOT NULL DEFAULT '{}',
	spec             jsonb NOT NULL,
	spec_hash        text NOT NULL,
	generation       bigint NOT NULL DEFAULT 1,
	resource_version bigint NOT NULL DEFAULT 1,
	fence            bigint NOT NULL DEFAULT 0,
	epoch            bigint NOT NULL DEFAULT 0,
	owner            text NOT NULL CHECK (owner IN ('git', 'api')),
	repository       text NOT NULL DEFAULT '',
	commit           text NOT NULL DEFAULT '',
	path             text NOT NULL DEFAULT '',
	line             int  NOT NULL DEFAULT 0,
	col              int  NOT NULL DEFAULT 0,
	created_at       timestamptz NOT NULL DEFAULT now(),
	updated_at       timestamptz NOT NULL DEFAULT now(),
	deleted_at       timestamptz,
	CONSTRAINT desired_objects_git_has_a_path CHECK (owner <> 'git' OR path <> '')
) WITH (fillfactor = 80);
-- A tombstone keeps its name free for a successor.
CREATE UNIQUE INDEX desired_objects_one_name ON desired_objects (kind, scope, name) WHERE deleted_at IS NULL;

CREATE TABLE desired_revisions (
	revision   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	source     text NOT NULL,
	commit     text NOT NULL,
	status     text NOT NULL CHECK (status IN ('fetched', 'invalid', 'planned', 'waiting_approval', 'applied', 'rejected')),
	objects    int NOT NULL DEFAULT 0,
	created_n  int NOT NULL DEFAULT 0,
	changed_n  int NOT NULL DEFAULT 0,
	deleted_n  int NOT NULL DEFAULT 0,
	findings   jsonb NOT NULL DEFAULT '[]',
	created_at timestamptz NOT NULL DEFAULT now()
);
-- The one pointer that a revision moves, per source.
CREATE TABLE desired_pointer (
	source     text PRIMARY KEY,
	revision   bigint NOT NULL REFERENCES desired_revisions,
	commit     text NOT NULL,
	tree_hash  text NOT NULL,
	applied_at timestamptz NOT NULL DEFAULT now()
);

-- room: observed
CREATE TABLE observed_nodes (
	node_id     uuid PRIMARY KEY,
	boot        bigint NOT NULL,
	boot_id     text NOT NULL,
	sequence    bigint NOT NULL,
	complete    boolean NOT NULL,
	missing     text[] NOT NULL DEFAULT '{}',
	agent       text NOT NULL,
	capability  int NOT NULL,
	inventory   jsonb NOT NULL,
	content_hash text NOT NULL, -- of the report without its counters: an unchanged report writes one row
	foreign_use text[] NOT NULL DEFAULT '{}',
	seen_at     timestamptz NOT NULL,
	stale_at    timestamptz NOT NULL
) WITH (fillfactor = 50); -- rewritten by every report; room keeps the updates HOT

CREATE TABLE observed_allocations (
	allocation_id uuid PRIMARY KEY,
	node_id       uuid NOT NULL,
	phase         text NOT NULL CHECK (phase IN ('working', 'ready', 'broken', 'gone')),
	fence         bigint NOT NULL,
	observed_generation bigint NOT NULL,
	spec_hash     text NOT NULL,
	step          text NOT NULL DEFAULT '',
	message       text NOT NULL DEFAULT '',
	proof         jsonb,
	-- What the last task at this fence came to, when it did not succeed.
	failures      int NOT NULL DEFAULT 0,
	failed_fence  bigint NOT NULL DEFAULT 0,
	failed_code   text NOT NULL DEFAULT '',
	seen_at       timestamptz NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX observed_allocations_by_node ON observed_allocations (node_id);

-- What a room last carried out of a declaration that needs no host.
CREATE TABLE observed_objects (
	uid        uuid PRIMARY KEY,
	kind       text NOT NULL,
	generation bigint NOT NULL,
	spec_hash  text NOT NULL,
	gone       boolean NOT NULL DEFAULT false,
	seen_at    timestamptz NOT NULL DEFAULT now()
);

-- room: reconciler
CREATE TABLE reconcile_due (
	kind      text NOT NULL,
	object_id uuid NOT NULL,
	due_at    timestamptz NOT NULL,
	reason    text NOT NULL,
	-- What the last plan asked for and until when it waits for the answer.
	asked_verb       text NOT NULL DEFAULT '',
	asked_event      text NOT NULL DEFAULT '',
	asked_fence      bigint NOT NULL DEFAULT 0,
	asked_generation bigint NOT NULL DEFAULT 0,
	asked_failures   int NOT NULL DEFAULT 0,
	asked_until      timestamptz,
	-- By object first: the loop asks for keys of any kind.
	PRIMARY KEY (object_id, kind)
) WITH (fillfactor = 70);
CREATE INDEX reconcile_due_by_time ON reconcile_due (due_at);

-- +goose StatementBegin
-- mark_due is how every room tells the loop to look; the earlier time wins.
CREATE FUNCTION mark_due(k text, id uuid, at timestamptz, why text) RETURNS void LANGUAGE sql AS $$
	INSERT INTO reconcile_due (kind, object_id, due_at, reason) VALUES (k, id, at, why)
	ON CONFLICT (kind, object_id) DO UPDATE SET due_at = excluded.due_at, reason = excluded.reason
	WHERE excluded.due_at < reconcile_due.due_at
$$;
-- +goose StatementEnd

CREATE TABLE plans (
	id         uuid PRIMARY KEY,
	created_at timestamptz NOT NULL DEFAULT now(),
	hash       text NOT NULL,
	status     text NOT NULL DEFAULT 'applied' CHECK (status IN ('proposed', 'approved', 'applied', 'stale', 'rejected')),
	actions    int NOT NULL,
	held       int NOT NULL DEFAULT 0 -- actions that the check refused
);
CREATE TABLE plan_actions (
	plan_id    uuid NOT NULL REFERENCES plans ON DELETE CASCADE,
	number     int NOT NULL,
	kind       text NOT NULL,
	object_id  uuid NOT NULL,
	node_id    uuid,
	verb       text NOT NULL,
	event      text NOT NULL DEFAULT '',
	fence      bigint NOT NULL,
	generation bigint NOT NULL,
	epoch      bigint NOT NULL,
	reason     text NOT NULL,
	held       text NOT NULL DEFAULT '', -- why the check refused it
	judged     boolean NOT NULL DEFAULT false, -- decided by the platform itself; the breaker counts these
	PRIMARY KEY (plan_id, number)
);
CREATE INDEX plan_actions_by_object ON plan_actions (object_id, plan_id);
CREATE INDEX plan_actions_judged ON plan_actions (plan_id) WHERE judged;
CREATE INDEX plans_by_time ON plans (created_at);

CREATE TABLE drift (
	id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
	kind       text NOT NULL,
	object_id  uuid NOT NULL,
	field      text NOT NULL,
	status     text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'healed', 'ignored')),
	opened_at  timestamptz NOT NULL DEFAULT now(),
	healed_at  timestamptz,
	CONSTRAINT drift_healed_has_a_time CHECK ((status = 'healed') = (healed_at IS NOT NULL))
);
CREATE UNIQUE INDEX drift_one_open ON drift (object_id, field) WHERE status = 'open';

-- room: jobs/nodetask
CREATE TABLE node_tasks (
	id            uuid PRIMARY KEY,
	node_id       uuid NOT NULL,
	allocation_id uuid, -- null for tasks about the node
	type          text NOT NULL,
	fence         bigint NOT NULL,
	generation    bigint NOT NULL,
	attempt       int NOT NULL,
	body          bytea NOT NULL,
	signature     bytea NOT NULL,
	status        text NOT NULL CHECK (status IN ('queued', 'delivered', 'running', 'succeeded', 'failed', 'expired', 'superseded')),
	step          text NOT NULL DEFAULT '',
	code          text NOT NULL DEFAULT '',
	message       text NOT NULL DEFAULT '',
	created_at    timestamptz NOT NULL DEFAULT now(),
	delivered_at  timestamptz,
	finished_at   timestamptz,
	expires_at    timestamptz NOT NULL
);
CREATE INDEX node_tasks_waiting ON node_tasks (node_id, created_at) WHERE status IN ('queued', 'delivered', 'running');
-- One live order per allocation: a newer one supersedes it first.
CREATE UNIQUE INDEX node_tasks_one_live ON node_tasks (allocation_id) WHERE status IN ('queued', 'delivered', 'running');
CREATE INDEX node_tasks_by_allocation ON node_tasks (allocation_id, fence, attempt);

-- +goose Down
DROP TABLE node_tasks, drift, plan_actions, plans, reconcile_due, observed_objects, observed_allocations, observed_nodes, desired_pointer, desired_revisions, desired_objects;
DROP FUNCTION mark_due;
