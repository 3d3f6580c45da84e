-- +goose Up
-- secret: certificates of nodes. Private keys are in files or in Vault, never here.

CREATE TABLE certificates (
	serial     text PRIMARY KEY, -- lower-case hex
	node_id    uuid NOT NULL,
	issuer     text NOT NULL DEFAULT '', -- the key that signed it
	trust      text NOT NULL DEFAULT '', -- version of the trust state that the node received with it; a rotation ends when all nodes have the new one
	status     text NOT NULL CHECK (status IN ('active', 'superseded', 'revoked', 'expired')),
	reason     text NOT NULL DEFAULT '', -- of the revocation
	created_at timestamptz NOT NULL DEFAULT now(),
	not_after  timestamptz NOT NULL,
	revoked_at timestamptz
);
COMMENT ON TABLE certificates IS 'Certificates of nodes. The node API accepts the active and superseded ones.';
CREATE INDEX certificates_by_node ON certificates (node_id) WHERE status = 'active';
-- Roles that replace or expire certificates by themselves are exempt.
CREATE CONSTRAINT TRIGGER certificates_decisions_are_audited AFTER UPDATE OF revoked_at ON certificates
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	WHEN (current_setting('is_superuser') <> 'on' AND current_user NOT IN ('gpuaas_reconcile', 'gpuaas_work', 'gpuaas_node'))
	EXECUTE FUNCTION demand_audit();
