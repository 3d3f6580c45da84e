-- +goose Up
-- secret: keys of their own for evidence bundles, which the workers sign.

ALTER TABLE signing_keys DROP CONSTRAINT signing_keys_purpose_check;
ALTER TABLE signing_keys ADD CONSTRAINT signing_keys_purpose_check
	CHECK (purpose IN ('authority', 'statements', 'tasks', 'logins', 'tokens', 'cursors', 'fields', 'webhooks', 'relay', 'recordings', 'mounts', 'evidence'));
