-- +goose Up
-- secret: whether a node uses its newest certificate, and in which of its enrolments it was issued. A rotation counted
-- nodes that had been sent the new root, also if their certificate was of the old authority or had never arrived.

ALTER TABLE certificates ADD COLUMN used_at timestamptz, ADD COLUMN enrolment bigint NOT NULL DEFAULT 1;
COMMENT ON COLUMN certificates.used_at IS 'The first request with this certificate; null: none yet.';
COMMENT ON COLUMN certificates.enrolment IS 'Counts the enrolments of the node; a renewal does not change it. Reports of the node are sorted by it.';
UPDATE certificates SET used_at = created_at;
