-- +goose Up
-- reconciler: the due set, plans, and drift.

CREATE TABLE reconcile_due (
	kind                text NOT NULL,
	object_id           uuid NOT NULL,
	due_at              timestamptz NOT NULL,
	reason              text NOT NULL,
	-- The action of the previous plan, and the time until which the loop waits for its effect.
	previous_verb       text NOT NULL DEFAULT '',
	previous_trigger    text NOT NULL DEFAULT '',
	previous_fence      bigint NOT NULL DEFAULT 0,
	previous_generation bigint NOT NULL DEFAULT 0,
	previous_failures   int NOT NULL DEFAULT 0,
	previous_until      timestamptz,
	-- The object comes first: the loop reads keys of any kind.
	PRIMARY KEY (object_id, kind)
) WITH (fillfactor = 70);
COMMENT ON TABLE reconcile_due IS 'The due set: objects that the control loop reconciles at due_at.';
CREATE INDEX reconcile_due_by_time ON reconcile_due (due_at);

-- SECURITY DEFINER, because most roles have no right to the table. The fixed search_path prevents that a caller puts a
-- table of the same name in front of it.
-- +goose StatementBegin
CREATE FUNCTION mark_due(kind text, object_id uuid, at timestamptz, reason text) RETURNS void LANGUAGE sql
	SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
	INSERT INTO reconcile_due (kind, object_id, due_at, reason) VALUES ($1, $2, $3, $4)
	ON CONFLICT (kind, object_id) DO UPDATE SET due_at = excluded.due_at, reason = excluded.reason
	WHERE excluded.due_at < reconcile_due.due_at
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION mark_due IS 'Adds an object to the due set. The earlier time wins. All packages use it.';

CREATE TABLE plans (
	id               uuid PRIMARY KEY,
	origin           text NOT NULL DEFAULT 'loop' CHECK (origin IN ('loop', 'change')),
	created_at       timestamptz NOT NULL DEFAULT now(),
	hash             text NOT NULL,
	status           text NOT NULL DEFAULT 'applied' CHECK (status IN ('proposed', 'approved', 'applied', 'stale', 'rejected')),
	actions          int NOT NULL,
	rejected_actions int NOT NULL DEFAULT 0, -- actions that the plan check rejected
	-- Of a change.
	source           text NOT NULL DEFAULT '', -- empty: objects that the API owns
	commit           text NOT NULL DEFAULT '',
	pull             int NOT NULL DEFAULT 0, -- number of the pull request; 0: none
	document         jsonb NOT NULL DEFAULT '{}', -- steps, blast radius, cost, required approvals
	objects          jsonb NOT NULL DEFAULT '[]', -- the objects to write, if no commit contains them
	author           text NOT NULL DEFAULT '', -- e-mail address or actor
	decided_by       text NOT NULL DEFAULT '',
	decided_at       timestamptz,
	decision         text NOT NULL DEFAULT '', -- its reason
	applied_at       timestamptz,
	CONSTRAINT plans_decided_by_actor CHECK ((decided_at IS NOT NULL) = (decided_by <> ''))
);
COMMENT ON TABLE plans IS
	'Plans of the control loop that were not empty (origin loop), and plans of changes by users and commits (origin change).';
CREATE INDEX plans_by_time ON plans (created_at);
CREATE INDEX plans_by_change ON plans (source, commit, id) WHERE origin = 'change';
-- Approval and rejection are decisions of an actor. The roles that apply a plan are exempt.
CREATE CONSTRAINT TRIGGER plans_decisions_are_audited AFTER UPDATE OF decided_by, decision ON plans
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	WHEN (current_setting('is_superuser') <> 'on' AND current_user NOT IN ('gpuaas_reconcile', 'gpuaas_work'))
	EXECUTE FUNCTION demand_audit();

CREATE TABLE plan_actions (
	plan_id         uuid NOT NULL REFERENCES plans ON DELETE CASCADE,
	number          int NOT NULL,
	kind            text NOT NULL,
	object_id       uuid NOT NULL,
	node_id         uuid,
	verb            text NOT NULL,
	trigger         text NOT NULL DEFAULT '', -- the trigger that a record action applies
	fence           bigint NOT NULL,
	generation      bigint NOT NULL,
	epoch           bigint NOT NULL,
	reason          text NOT NULL,
	rejected_reason text NOT NULL DEFAULT '', -- why the plan check rejected it; empty: it did not
	automatic       boolean NOT NULL DEFAULT false, -- chosen by the platform, without a request; the breaker counts these
	PRIMARY KEY (plan_id, number)
);
COMMENT ON TABLE plan_actions IS 'Actions of the plans of the control loop, with their reasons.';
CREATE INDEX plan_actions_by_object ON plan_actions (object_id, plan_id);
CREATE INDEX plan_actions_automatic ON plan_actions (plan_id) WHERE automatic;

CREATE TABLE drift (
	id             uuid PRIMARY KEY DEFAULT gen_random_uuid(),
	kind           text NOT NULL,
	object_id      uuid NOT NULL,
	name           text NOT NULL DEFAULT '', -- of the object
	field          text NOT NULL,
	desired        text NOT NULL DEFAULT '',
	observed       text NOT NULL DEFAULT '',
	cause          text NOT NULL DEFAULT '',
	owner          text NOT NULL DEFAULT 'platform', -- who must act: platform, operator, tenant
	policy         text NOT NULL DEFAULT 'heal' CHECK (policy IN ('heal', 'warn', 'ignore')),
	status         text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'healed', 'ignored')),
	cost_minor     bigint NOT NULL DEFAULT 0, -- per hour, while the drift is open
	currency       text NOT NULL DEFAULT '',
	version        bigint NOT NULL DEFAULT 1,
	opened_at      timestamptz NOT NULL DEFAULT now(),
	observed_at    timestamptz NOT NULL DEFAULT now(),
	deadline_at    timestamptz,
	healed_at      timestamptz,
	ignored_by     text NOT NULL DEFAULT '',
	ignored_reason text NOT NULL DEFAULT '',
	ignored_until  timestamptz,
	CONSTRAINT drift_healed_has_a_time CHECK ((status = 'healed') = (healed_at IS NOT NULL)),
	CONSTRAINT drift_ignored_by_actor CHECK (status <> 'ignored' OR ignored_by <> '' AND ignored_until IS NOT NULL)
);
COMMENT ON TABLE drift IS 'Differences between desired and observed state that appeared after the object had converged.';
CREATE UNIQUE INDEX drift_one_open ON drift (object_id, field) WHERE status IN ('open', 'ignored');
-- Lists read it backwards: open, ignored, healed, and the newest first.
CREATE INDEX drift_by_status ON drift (status, opened_at, id);
CREATE INDEX drift_by_object ON drift (object_id);
-- An operator ignores drift. The roles that find and heal it are exempt.
CREATE CONSTRAINT TRIGGER drift_decisions_are_audited AFTER UPDATE OF ignored_by, ignored_reason, ignored_until ON drift
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	WHEN (current_setting('is_superuser') <> 'on' AND current_user NOT IN ('gpuaas_reconcile', 'gpuaas_work'))
	EXECUTE FUNCTION demand_audit();
