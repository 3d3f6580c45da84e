-- +goose Up
-- revision: Git sources and the snapshots that were read from them.

CREATE TABLE git_sources (
	name              text PRIMARY KEY,
	repository        text NOT NULL, -- URL or path, without a password
	ref               text NOT NULL, -- the tracked branch
	dirs              text[] NOT NULL,
	declared_by       text NOT NULL CHECK (declared_by IN ('server', 'environment')), -- by a flag of the server, or by an Environment object
	settings          jsonb NOT NULL DEFAULT '{}', -- forge and verification; secrets are references
	-- From the last poll, by any replica.
	head              text NOT NULL DEFAULT '', -- the commit of ref
	tree_hash         text NOT NULL DEFAULT '', -- of the folders in that commit
	checked_at        timestamptz,
	fetched_at        timestamptz,
	error_code        text NOT NULL DEFAULT '', -- why the last poll failed
	error             text NOT NULL DEFAULT '',
	error_since       timestamptz,
	sync_requested_at timestamptz NOT NULL DEFAULT '-infinity', -- when a webhook or a user requested a sync
	suspended_by      text NOT NULL DEFAULT '',
	suspended_reason  text NOT NULL DEFAULT '',
	suspended_at      timestamptz,
	suspended_until   timestamptz, -- null in a suspension: until an actor resumes it
	version           bigint NOT NULL DEFAULT 1,
	removed_at        timestamptz, -- the source was removed; its objects stay as they are
	CONSTRAINT git_sources_suspended_by_actor CHECK ((suspended_at IS NOT NULL) = (suspended_by <> ''))
);
COMMENT ON TABLE git_sources IS
	'Git repositories that the control plane reads. A flag of the server names the first one, whose Environment '
	'object may name others.';
-- Suspension is a decision of an actor. The role that syncs is exempt.
CREATE CONSTRAINT TRIGGER git_sources_decisions_are_audited AFTER UPDATE OF suspended_by, suspended_reason, suspended_until ON git_sources
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	WHEN (current_setting('is_superuser') <> 'on' AND current_user NOT IN ('gpuaas_reconcile', 'gpuaas_work'))
	EXECUTE FUNCTION demand_audit();

CREATE TABLE desired_revisions (
	revision     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	source       text NOT NULL,
	repository   text NOT NULL DEFAULT '',
	commit       text NOT NULL,
	parent       text NOT NULL DEFAULT '', -- the commit of the revision before
	tree_hash    text NOT NULL DEFAULT '',
	author       text NOT NULL DEFAULT '',
	author_email text NOT NULL DEFAULT '', -- the approver must be another user
	message      text NOT NULL DEFAULT '',
	committed_at timestamptz,
	signer       text NOT NULL DEFAULT '', -- of the verified commit signature
	status       text NOT NULL CHECK (status IN ('fetched', 'invalid', 'planned', 'waiting_approval', 'applied', 'rejected')),
	findings     jsonb NOT NULL DEFAULT '[]',
	waits        jsonb NOT NULL DEFAULT '[]', -- what needs an approval, and why
	plan_id      uuid,
	objects      int NOT NULL DEFAULT 0,
	created_n    int NOT NULL DEFAULT 0,
	changed_n    int NOT NULL DEFAULT 0,
	deleted_n    int NOT NULL DEFAULT 0,
	adopted_n    int NOT NULL DEFAULT 0,
	version      bigint NOT NULL DEFAULT 1,
	created_at   timestamptz NOT NULL DEFAULT now(),
	updated_at   timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE desired_revisions IS 'Snapshots of desired state that were read from Git, one for each commit.';
CREATE INDEX desired_revisions_by_source ON desired_revisions (source, revision);

CREATE TABLE desired_pointer (
	source     text PRIMARY KEY,
	revision   bigint NOT NULL REFERENCES desired_revisions,
	commit     text NOT NULL,
	tree_hash  text NOT NULL,
	applied_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE desired_pointer IS 'The applied revision of each source. The transaction that applies a revision moves this one row.';
