-- +goose Up
-- change: approvals of plans.

ALTER TABLE plans ADD COLUMN approvals_needed int NOT NULL DEFAULT 1 CHECK (approvals_needed BETWEEN 1 AND 2);
COMMENT ON COLUMN plans.approvals_needed IS
	'Two, if no signature, forge or sign-in identifies the author: a commit contains any name.';

CREATE TABLE plan_approvals (
	plan_id  uuid NOT NULL REFERENCES plans ON DELETE CASCADE,
	approver text NOT NULL, -- actor
	reason   text NOT NULL,
	at       timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (plan_id, approver)
);
COMMENT ON TABLE plan_approvals IS 'Approvals of a change by users. The plan is approved when their number is approvals_needed.';
CREATE CONSTRAINT TRIGGER plan_approvals_are_audited AFTER INSERT ON plan_approvals
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();
