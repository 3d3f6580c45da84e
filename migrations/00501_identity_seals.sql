-- +goose Up
-- identity: stored secrets were sealed with one key of a file, without its id. The present keys cannot open them. They
-- are removed: a response is stored for a day, and without its refresh token a session ends here and not at the provider.

UPDATE sessions SET refresh_enc = NULL WHERE refresh_enc IS NOT NULL;
DELETE FROM idempotency_keys WHERE encrypted;
COMMENT ON COLUMN sessions.refresh_enc IS 'An envelope with the refresh token of the OIDC provider; a sign-out revokes it there.';
COMMENT ON COLUMN idempotency_keys.encrypted IS 'The body contains a secret and is an envelope.';
