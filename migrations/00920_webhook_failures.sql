-- +goose Up
-- webhook: failures that are far apart do not add up.

ALTER TABLE webhook_endpoints ADD COLUMN failed_at timestamptz; -- the last failure
UPDATE webhook_endpoints SET failed_at = updated_at WHERE failing_since IS NOT NULL;
