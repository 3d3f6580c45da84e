-- +goose Up
-- allocation: reports of tenants about faults that the platform has not seen, and the proofs by which nodes have ended
-- allocations. The observed state forgets a proof when the node forgets the allocation.

CREATE TABLE fault_reports (
	id             uuid PRIMARY KEY,
	allocation_id  uuid NOT NULL REFERENCES allocations,
	org_id         uuid NOT NULL REFERENCES tenants,
	node_id        uuid NOT NULL,
	gpu            text NOT NULL DEFAULT '', -- UUID; empty: the node
	message        text NOT NULL,
	reported_by    text NOT NULL,
	reported_at    timestamptz NOT NULL DEFAULT now(),
	status         text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'confirmed', 'rejected')),
	decided_by     text NOT NULL DEFAULT '',
	decided_at     timestamptz,
	decided_reason text NOT NULL DEFAULT '',
	CONSTRAINT fault_reports_decided_by_actor CHECK ((status <> 'open') = (decided_at IS NOT NULL AND decided_by <> ''))
);
COMMENT ON TABLE fault_reports IS 'Faults that tenants report. A confirmed one is not charged from the report on.';
CREATE INDEX fault_reports_by_allocation ON fault_reports (allocation_id);
CREATE INDEX fault_reports_open ON fault_reports (id) WHERE status = 'open';
SELECT scope_rows('fault_reports', 'org_id = (SELECT scope_tenant())');
CREATE CONSTRAINT TRIGGER fault_reports_are_audited AFTER INSERT OR UPDATE ON fault_reports
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();

CREATE TABLE release_proofs (
	allocation_id uuid PRIMARY KEY REFERENCES allocations,
	proof         jsonb NOT NULL, -- as the helper of the node signed it
	public_key    bytea NOT NULL DEFAULT '', -- the key that the node was enrolled with then
	proved_at     timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE release_proofs IS 'The proof that ended each allocation. Append-only.';
SELECT scope_rows('release_proofs', 'EXISTS (SELECT FROM allocations a WHERE a.id = allocation_id)');
CREATE TRIGGER release_proofs_append_only BEFORE UPDATE OR DELETE ON release_proofs FOR EACH ROW EXECUTE FUNCTION reject_change();
CREATE TRIGGER release_proofs_not_emptied BEFORE TRUNCATE ON release_proofs FOR EACH STATEMENT EXECUTE FUNCTION reject_change();
