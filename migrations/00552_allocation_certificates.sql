-- +goose Up
-- allocation: certificates of SSH logins, so that they can be revoked, and the SSH authorities that the node of an allocation
-- was sent.

CREATE TABLE ssh_certificates (
	serial        bigint PRIMARY KEY, -- the 64 bits of the certificate's serial, as a signed number
	allocation_id uuid NOT NULL REFERENCES allocations,
	principal     uuid NOT NULL,      -- the user or service account that it was issued to
	expires_at    timestamptz NOT NULL,
	revoked_at    timestamptz
);
COMMENT ON TABLE ssh_certificates IS
	'Certificates of SSH logins, by serial. Those of a user who lost access are revoked on the node until they expire.';
CREATE INDEX ssh_certificates_by_principal ON ssh_certificates (principal, expires_at);
CREATE INDEX ssh_certificates_by_allocation ON ssh_certificates (allocation_id) WHERE revoked_at IS NOT NULL;
CREATE INDEX ssh_certificates_by_age ON ssh_certificates (expires_at);
SELECT scope_rows('ssh_certificates', 'EXISTS (SELECT FROM allocations a WHERE a.id = allocation_id)');

ALTER TABLE allocations ADD COLUMN authorities text NOT NULL DEFAULT ''; -- a hash; empty: none were sent
