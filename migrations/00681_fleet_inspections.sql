-- +goose Up
-- fleet: inspections of slots without a proof. A node that was replaced never proves anything, so operators state what
-- they saw.

CREATE TABLE slot_inspections (
	slot_id      uuid NOT NULL REFERENCES slots,
	claimed_at   timestamptz NOT NULL, -- start of the claim that the inspection is about; -infinity: the slot never had one
	actor        text NOT NULL,
	reason       text NOT NULL,
	inspected_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (slot_id, claimed_at, actor)
);
COMMENT ON TABLE slot_inspections IS
	'Statements of operators that nothing of the last tenant of a slot is left. Enough of them free the slot without a proof.';
CREATE CONSTRAINT TRIGGER slot_inspections_are_audited AFTER INSERT OR UPDATE ON slot_inspections
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();
