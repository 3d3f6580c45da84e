-- +goose Up
-- desired: desired objects.

CREATE TABLE desired_objects (
	uid              uuid PRIMARY KEY,
	kind             text NOT NULL,
	scope            text NOT NULL DEFAULT '', -- of an allocation: the id of its project
	name             text NOT NULL,
	labels           jsonb NOT NULL DEFAULT '{}',
	annotations      jsonb NOT NULL DEFAULT '{}',
	spec             jsonb NOT NULL,
	spec_hash        text NOT NULL,
	generation       bigint NOT NULL DEFAULT 1, -- rises with each change of the spec
	resource_version bigint NOT NULL DEFAULT 1, -- rises with each write
	fence            bigint NOT NULL DEFAULT 0, -- rises with each decision
	epoch            bigint NOT NULL DEFAULT 0, -- rises when its history restarts
	owner            text NOT NULL CHECK (owner IN ('git', 'api')),
	-- Where the owner Git has it.
	source           text NOT NULL DEFAULT '',
	repository       text NOT NULL DEFAULT '',
	commit           text NOT NULL DEFAULT '',
	path             text NOT NULL DEFAULT '',
	line             int NOT NULL DEFAULT 0,
	col              int NOT NULL DEFAULT 0,
	-- The source whose next revision may adopt the object from the API.
	adopt_by         text NOT NULL DEFAULT '',
	adopt_until      timestamptz,
	suspended_by     text NOT NULL DEFAULT '',
	suspended_reason text NOT NULL DEFAULT '',
	suspended_at     timestamptz,
	suspended_until  timestamptz, -- null in a suspension: until an actor resumes it
	created_at       timestamptz NOT NULL DEFAULT now(),
	updated_at       timestamptz NOT NULL DEFAULT now(),
	deleted_at       timestamptz, -- not null: a tombstone
	CONSTRAINT desired_objects_git_has_a_path CHECK (owner <> 'git' OR path <> ''),
	CONSTRAINT desired_objects_suspended_by_actor CHECK ((suspended_at IS NOT NULL) = (suspended_by <> ''))
) WITH (fillfactor = 80);
COMMENT ON TABLE desired_objects IS
	'Desired objects. A deleted one stays as a tombstone until the node confirms the cleanup.';
-- The name of a tombstone is free for another object.
CREATE UNIQUE INDEX desired_objects_one_name ON desired_objects (kind, scope, name) WHERE deleted_at IS NULL;
CREATE INDEX desired_objects_by_source ON desired_objects (source, kind, name) WHERE owner = 'git';
-- A tenant sees the objects of its allocations; the others belong to the platform. CASE makes sure that PostgreSQL casts
-- only the scope of an allocation to uuid.
SELECT scope_rows('desired_objects', 'CASE WHEN kind = ''Allocation'' THEN EXISTS (SELECT FROM projects p WHERE p.id = desired_objects.scope::uuid) ELSE false END');
-- Suspension and adoption are decisions of an actor. The roles that apply a revision are exempt.
CREATE CONSTRAINT TRIGGER desired_objects_decisions_are_audited
	AFTER UPDATE OF adopt_by, adopt_until, suspended_by, suspended_reason, suspended_until ON desired_objects
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	WHEN (current_setting('is_superuser') <> 'on' AND current_user NOT IN ('gpuaas_reconcile', 'gpuaas_work'))
	EXECUTE FUNCTION demand_audit();
