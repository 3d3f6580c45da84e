-- +goose Up
-- secret: a key of the role "terminal" signs requests for streams, and nodes accept it for nothing else.

ALTER TABLE signing_keys DROP CONSTRAINT signing_keys_purpose_check;
ALTER TABLE signing_keys ADD CONSTRAINT signing_keys_purpose_check
	CHECK (purpose IN ('authority', 'statements', 'tasks', 'logins', 'tokens', 'cursors', 'fields', 'webhooks', 'relay'));
