-- +goose Up
-- audit: months that were exported to the archive, after which their rows may be dropped.

CREATE TABLE audit_exports (
	month       timestamptz PRIMARY KEY, -- its first moment, in UTC
	file        text NOT NULL,           -- name in the archive
	rows        bigint NOT NULL CHECK (rows >= 0),
	sha256      bytea NOT NULL CHECK (length(sha256) = 32), -- of the file
	exported_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE audit_exports IS
	'Months of the audit log that are complete, sealed, and stored in the archive. Their rows may be dropped; the seals stay. Append-only.';
CREATE TRIGGER audit_exports_append_only BEFORE UPDATE OR DELETE ON audit_exports FOR EACH ROW EXECUTE FUNCTION reject_change();
CREATE TRIGGER audit_exports_not_emptied BEFORE TRUNCATE ON audit_exports FOR EACH STATEMENT EXECUTE FUNCTION reject_change();
