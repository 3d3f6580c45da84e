-- +goose Up
-- identity: sessions and API keys know how and when their user signed in, and a credential knows the API key that created it.

ALTER TABLE sessions
	ADD COLUMN authenticated_at timestamptz, -- null: the identity provider did not state it; it never counts as recent
	ADD COLUMN methods text NOT NULL DEFAULT ''; -- acr and amr values of the sign-in, separated by spaces
-- The user of a session of the previous release had signed in at its start, unless a provider did it.
UPDATE sessions SET authenticated_at = created_at WHERE issuer = 'local' AND ended_at IS NULL;

ALTER TABLE api_keys
	ADD COLUMN methods text NOT NULL DEFAULT '', -- of the sign-in that created it
	ADD COLUMN made_by uuid; -- the API key that created it; it ends with that key
ALTER TABLE service_account_credentials ADD COLUMN made_by uuid;
ALTER TABLE ssh_keys ADD COLUMN made_by uuid;
CREATE INDEX api_keys_by_maker ON api_keys (made_by) WHERE made_by IS NOT NULL;
CREATE INDEX service_account_credentials_by_maker ON service_account_credentials (made_by) WHERE made_by IS NOT NULL;
CREATE INDEX ssh_keys_by_maker ON ssh_keys (made_by) WHERE made_by IS NOT NULL;
