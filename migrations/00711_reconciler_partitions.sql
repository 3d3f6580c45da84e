-- +goose Up
-- reconciler: plans and actions in monthly partitions, by id. They were stored for ever.

ALTER TABLE plan_actions DROP CONSTRAINT plan_actions_plan_id_fkey;
ALTER TABLE plan_approvals DROP CONSTRAINT plan_approvals_plan_id_fkey;
ALTER TABLE plans RENAME TO plans_before;
ALTER TABLE plan_actions RENAME TO plan_actions_before;

CREATE TABLE plans (LIKE plans_before INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING COMMENTS) PARTITION BY RANGE (id);
COMMENT ON TABLE plans IS
	'Plans of the control loop that were not empty (origin loop), and plans of changes by users and commits (origin change). '
	'One partition for each month.';
CREATE TABLE plan_actions (LIKE plan_actions_before INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING COMMENTS) PARTITION BY RANGE (plan_id);
COMMENT ON TABLE plan_actions IS
	'Actions of the plans of the control loop, with their reasons. One partition for each month.';
-- Ids of another version than 7. The code creates none; a row that has one must not fail the pass of the loop.
CREATE TABLE plans_other PARTITION OF plans DEFAULT;
CREATE TABLE plan_actions_other PARTITION OF plan_actions DEFAULT;

-- Existing rows move.
SELECT make_partition(parent, date_trunc('month', coalesce((SELECT min(created_at) FROM plans_before), now()) AT TIME ZONE 'UTC') AT TIME ZONE 'UTC')
FROM unnest(ARRAY['plans', 'plan_actions']) AS parent;
SELECT make_partitions(3);
INSERT INTO plans SELECT * FROM plans_before;
INSERT INTO plan_actions SELECT * FROM plan_actions_before;
DROP TABLE plan_actions_before, plans_before;

ALTER TABLE plans ADD PRIMARY KEY (id);
CREATE INDEX plans_by_time ON plans (created_at);
CREATE INDEX plans_by_change ON plans (source, commit, id) WHERE origin = 'change';
CREATE CONSTRAINT TRIGGER plans_decisions_are_audited AFTER UPDATE OF decided_by, decision ON plans
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	WHEN (current_setting('is_superuser') <> 'on' AND current_user NOT IN ('gpuaas_reconcile', 'gpuaas_work'))
	EXECUTE FUNCTION demand_audit();

ALTER TABLE plan_actions ADD PRIMARY KEY (plan_id, number);
CREATE INDEX plan_actions_by_object ON plan_actions (object_id, plan_id);
CREATE INDEX plan_actions_automatic ON plan_actions (plan_id) WHERE automatic;
ALTER TABLE plan_actions ADD CONSTRAINT plan_actions_plan_id_fkey FOREIGN KEY (plan_id) REFERENCES plans ON DELETE CASCADE;
ALTER TABLE plan_approvals ADD CONSTRAINT plan_approvals_plan_id_fkey FOREIGN KEY (plan_id) REFERENCES plans ON DELETE CASCADE;

-- The order in which healed drift is deleted.
CREATE INDEX drift_by_end ON drift (healed_at) WHERE healed_at IS NOT NULL;
