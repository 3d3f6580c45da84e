-- +goose Up
-- room: desired
-- Where declarations are kept. The server's flags name the first source, the
-- Environment it declares may name more; the rest of a row is what was last seen
-- of the repository, by whichever replica looked.
CREATE TABLE git_sources (
	name          text PRIMARY KEY,
	repository    text NOT NULL, -- URL or path, without a password
	ref           text NOT NULL, -- the tracked branch
	dirs          text[] NOT NULL,
	declared_by   text NOT NULL CHECK (declared_by IN ('server', 'environment')),
	settings      jsonb NOT NULL DEFAULT '{}', -- as declared: forge, verification; secrets are references
	-- What was seen.
	head          text NOT NULL DEFAULT '', -- the commit that ref named
	tree_hash     text NOT NULL DEFAULT '', -- of that commit's folders
	checked_at    timestamptz,
	fetched_at    timestamptz,
	fault_code    text NOT NULL DEFAULT '',
	fault         text NOT NULL DEFAULT '', -- why the last look failed
	fault_since   timestamptz,
	-- What people asked.
	asked_at      timestamptz NOT NULL DEFAULT '-infinity', -- a look, by a hook or a person
	suspended_by  text NOT NULL DEFAULT '',
	suspended_reason text NOT NULL DEFAULT '',
	suspended_at  timestamptz,
	suspended_until timestamptz, -- with suspended_at: without an end
	version       bigint NOT NULL DEFAULT 1,
	gone_at       timestamptz, -- no longer declared; its objects stay as they are
	CONSTRAINT git_sources_suspended_by_someone CHECK ((suspended_at IS NOT NULL) = (suspended_by <> ''))
);

ALTER TABLE desired_objects
	ADD source           text NOT NULL DEFAULT '', -- of the Git owner; a repository may hold several
	ADD adopt_by         text NOT NULL DEFAULT '', -- the source whose next revision may take this object over from the API
	ADD adopt_until      timestamptz,
	ADD suspended_by     text NOT NULL DEFAULT '',
	ADD suspended_reason text NOT NULL DEFAULT '',
	ADD suspended_at     timestamptz,
	ADD suspended_until  timestamptz,
	ADD CONSTRAINT desired_objects_suspended_by_someone CHECK ((suspended_at IS NOT NULL) = (suspended_by <> ''));
UPDATE desired_objects SET source = repository WHERE owner = 'git';
CREATE INDEX desired_objects_by_source ON desired_objects (source, kind, name) WHERE owner = 'git';

ALTER TABLE desired_revisions
	ADD repository   text NOT NULL DEFAULT '',
	ADD tree_hash    text NOT NULL DEFAULT '',
	ADD parent       text NOT NULL DEFAULT '', -- the commit that the source stood at before
	ADD author       text NOT NULL DEFAULT '',
	ADD author_email text NOT NULL DEFAULT '', -- whoever approves must be another
	ADD message      text NOT NULL DEFAULT '',
	ADD committed_at timestamptz,
	ADD signer       text NOT NULL DEFAULT '', -- whose signature was verified
	ADD adopted_n    int NOT NULL DEFAULT 0,
	ADD waits        jsonb NOT NULL DEFAULT '[]', -- what must be approved, and why
	ADD plan_id      uuid,
	ADD version      bigint NOT NULL DEFAULT 1, -- rises with each word about the commit
	ADD updated_at   timestamptz NOT NULL DEFAULT now();
CREATE INDEX desired_revisions_by_source ON desired_revisions (source, revision);

-- room: event
ALTER TABLE outbox_events
	DROP CONSTRAINT outbox_events_stream_check,
	ADD CONSTRAINT outbox_events_stream_check CHECK (stream IN ('PROVISIONING', 'BILLING', 'PAYMENTS', 'FLEET'));

-- room: observed
ALTER TABLE observed_nodes ADD devices jsonb; -- model and serial of each GPU; null before a report says so
ALTER TABLE observed_objects ADD epoch bigint NOT NULL DEFAULT 0; -- the one that was carried out

-- room: inventory
-- What the loop may know: whether a node sells, so that it counts what it takes away.
CREATE OR REPLACE VIEW node_progress WITH (security_invoker = true) AS
	SELECT id AS node_id, reachability = 'reachable' AS reachable, NOT cordoned AND lifecycle <> 'retired' AS on_market, lifecycle <> 'retired' AS listed FROM nodes;

-- room: allocation
-- One that waits for capacity has no node yet: who asked first is served first.
ALTER TABLE allocations
	ALTER node_id DROP NOT NULL,
	ADD key_ids     uuid[] NOT NULL DEFAULT '{}', -- the SSH keys that were named, until it is placed
	ADD queue_until timestamptz, -- given up then
	ADD CONSTRAINT allocations_wait_without_a_node CHECK (node_id IS NOT NULL OR status IN ('requested', 'releasing', 'released', 'failed'));
CREATE INDEX allocations_queued ON allocations (sku, created_at, id) WHERE node_id IS NULL AND status = 'requested';
-- And what an allocation costs its tenant by the hour.
CREATE OR REPLACE VIEW allocation_progress WITH (security_invoker = true) AS
	SELECT id AS allocation_id, status, status_at, expires_at, price_minor * gpus AS hourly_minor, currency FROM allocations;

-- room: reconciler
-- One history for what the loop decided (origin loop) and for what people's changes
-- would do (origin change): the latter are proposed, approved, applied or refused.
ALTER TABLE plans
	ADD origin      text NOT NULL DEFAULT 'loop' CHECK (origin IN ('loop', 'change')),
	ADD source      text NOT NULL DEFAULT '', -- empty: objects that the API owns
	ADD commit      text NOT NULL DEFAULT '',
	ADD pull        int NOT NULL DEFAULT 0, -- of the forge; 0: none
	ADD document    jsonb NOT NULL DEFAULT '{}', -- steps, blast radius, money, waits
	ADD objects     jsonb NOT NULL DEFAULT '[]', -- what applying it declares, where no commit holds it
	ADD author      text NOT NULL DEFAULT '', -- who wrote the change: an e-mail address or an actor
	ADD decided_by  text NOT NULL DEFAULT '',
	ADD decided_at  timestamptz,
	ADD decision    text NOT NULL DEFAULT '', -- the reason that was given
	ADD applied_at  timestamptz,
	ADD CONSTRAINT plans_decided_by_someone CHECK ((decided_at IS NOT NULL) = (decided_by <> ''));
CREATE INDEX plans_by_change ON plans (source, commit, id) WHERE origin = 'change';

ALTER TABLE drift
	ADD name        text NOT NULL DEFAULT '', -- of the object
	ADD desired     text NOT NULL DEFAULT '',
	ADD observed    text NOT NULL DEFAULT '',
	ADD owner       text NOT NULL DEFAULT 'platform', -- who must act: platform, operator, tenant
	ADD cause       text NOT NULL DEFAULT '',
	ADD policy      text NOT NULL DEFAULT 'heal' CHECK (policy IN ('heal', 'warn', 'ignore')),
	ADD deadline_at timestamptz,
	ADD seen_at     timestamptz NOT NULL DEFAULT now(),
	ADD cost_minor  bigint NOT NULL DEFAULT 0, -- per hour, while it lasts
	ADD currency    text NOT NULL DEFAULT '',
	ADD version     bigint NOT NULL DEFAULT 1,
	ADD ignored_by  text NOT NULL DEFAULT '',
	ADD ignored_reason text NOT NULL DEFAULT '',
	ADD ignored_until timestamptz,
	ADD CONSTRAINT drift_ignored_by_someone CHECK (status <> 'ignored' OR ignored_by <> '' AND ignored_until IS NOT NULL);
DROP INDEX drift_one_open;
CREATE UNIQUE INDEX drift_one_standing ON drift (object_id, field) WHERE status IN ('open', 'ignored');
-- Read backwards: open, ignored, healed, and the newest first.
CREATE INDEX drift_by_status ON drift (status, opened_at, id);
CREATE INDEX drift_by_object ON drift (object_id);

-- What a forge should show, and what it was last told. Whoever posts compares the
-- two: a forge that was down is told later, and once.
CREATE TABLE forge_reports (
	source      text NOT NULL,
	subject     text NOT NULL, -- a commit for a status, pull/N for its comment
	context     text NOT NULL, -- gpuaas/validate|plan|policy|sync, or comment
	state       text NOT NULL DEFAULT '' CHECK (state IN ('', 'pending', 'success', 'failure', 'error')),
	body        text NOT NULL, -- a status's one line, or the comment
	url         text NOT NULL DEFAULT '',
	hash        text NOT NULL, -- of the above
	told        text NOT NULL DEFAULT '', -- the hash that the forge was last told
	remote_id   text NOT NULL DEFAULT '', -- of the comment there
	attempts    int NOT NULL DEFAULT 0,
	fault       text NOT NULL DEFAULT '',
	next_at     timestamptz NOT NULL DEFAULT now(),
	updated_at  timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (source, subject, context)
);
CREATE INDEX forge_reports_untold ON forge_reports (next_at) WHERE told <> hash;

-- +goose StatementBegin
-- Who suspends, adopts, approves or ignores is written down with it. A role's own
-- work (a revision applied, a look taken) is no person's change.
DO $$
DECLARE
	line record;
BEGIN
	FOR line IN SELECT * FROM (VALUES
		('git_sources', 'UPDATE OF suspended_by, suspended_reason, suspended_until'),
		('desired_objects', 'UPDATE OF adopt_by, adopt_until, suspended_by, suspended_reason, suspended_until'),
		('plans', 'UPDATE OF decided_by, decision'),
		('drift', 'UPDATE OF ignored_by, ignored_reason, ignored_until')
	) AS demanded (name, events) LOOP
		EXECUTE format('CREATE CONSTRAINT TRIGGER %I AFTER %s ON %I DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
			WHEN (current_setting(''is_superuser'') <> ''on'' AND current_user NOT IN (''gpuaas_reconcile'', ''gpuaas_work'')) EXECUTE FUNCTION demand_audit()', line.name || '_decisions_are_audited', line.events, line.name);
	END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP TABLE forge_reports, git_sources;
-- The facts of a stream that nobody relays stay as they are.
ALTER TABLE outbox_events
	DROP CONSTRAINT outbox_events_stream_check,
	ADD CONSTRAINT outbox_events_stream_check CHECK (stream IN ('PROVISIONING', 'BILLING', 'PAYMENTS')) NOT VALID;
DROP TRIGGER desired_objects_decisions_are_audited ON desired_objects;
DROP TRIGGER plans_decisions_are_audited ON plans;
DROP TRIGGER drift_decisions_are_audited ON drift;
DROP INDEX drift_by_status, drift_by_object, drift_one_standing;
DELETE FROM drift WHERE status = 'ignored';
CREATE UNIQUE INDEX drift_one_open ON drift (object_id, field) WHERE status = 'open';
ALTER TABLE drift DROP CONSTRAINT drift_ignored_by_someone, DROP name, DROP desired, DROP observed, DROP owner, DROP cause, DROP policy, DROP deadline_at,
	DROP seen_at, DROP cost_minor, DROP currency, DROP version, DROP ignored_by, DROP ignored_reason, DROP ignored_until;
DELETE FROM plans WHERE origin = 'change';
ALTER TABLE plans DROP CONSTRAINT plans_decided_by_someone, DROP origin, DROP source, DROP commit, DROP pull, DROP document, DROP objects, DROP author,
	DROP decided_by, DROP decided_at, DROP decision, DROP applied_at;
DROP VIEW node_progress, allocation_progress;
CREATE VIEW node_progress WITH (security_invoker = true) AS SELECT id AS node_id, reachability = 'reachable' AS reachable FROM nodes;
CREATE VIEW allocation_progress WITH (security_invoker = true) AS SELECT id AS allocation_id, status, status_at, expires_at FROM allocations;
UPDATE allocations SET node_id = '00000000-0000-0000-0000-000000000000' WHERE node_id IS NULL;
DROP INDEX allocations_queued;
ALTER TABLE allocations DROP CONSTRAINT allocations_wait_without_a_node, DROP key_ids, DROP queue_until, ALTER node_id SET NOT NULL;
ALTER TABLE observed_objects DROP epoch;
ALTER TABLE observed_nodes DROP devices;
DROP INDEX desired_revisions_by_source;
ALTER TABLE desired_revisions DROP repository, DROP tree_hash, DROP parent, DROP author, DROP author_email, DROP message, DROP committed_at, DROP signer,
	DROP adopted_n, DROP waits, DROP plan_id, DROP version, DROP updated_at;
DROP INDEX desired_objects_by_source;
ALTER TABLE desired_objects DROP CONSTRAINT desired_objects_suspended_by_someone, DROP source, DROP adopt_by, DROP adopt_until, DROP suspended_by,
	DROP suspended_reason, DROP suspended_at, DROP suspended_until;
