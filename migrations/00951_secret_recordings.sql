-- +goose Up
-- secret: data keys of their own for recordings, which the role terminal seals and the API opens. The role terminal does not get
-- the data keys of other columns.

ALTER TABLE signing_keys DROP CONSTRAINT signing_keys_purpose_check;
ALTER TABLE signing_keys ADD CONSTRAINT signing_keys_purpose_check
	CHECK (purpose IN ('authority', 'statements', 'tasks', 'logins', 'tokens', 'cursors', 'fields', 'webhooks', 'relay', 'recordings'));
