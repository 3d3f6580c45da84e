-- +goose Up
-- identity: a session is confirmed at the provider every few minutes, and its end is reported to the provider.

-- The envelope had the refresh token alone. A session that begins afterwards stores both tokens.
ALTER TABLE sessions RENAME COLUMN refresh_enc TO grant_enc;
UPDATE sessions SET grant_enc = NULL WHERE grant_enc IS NOT NULL;
COMMENT ON COLUMN sessions.grant_enc IS 'An envelope with the refresh token and the ID token of the OIDC provider. After the end of the session it remains until the provider has revoked the refresh token.';

ALTER TABLE sessions
	ADD COLUMN checked_at      timestamptz, -- when the provider last confirmed the user; NULL if it granted no refresh token
	ADD COLUMN check_tried_at  timestamptz, -- the last attempt, so that parallel requests make one
	ADD COLUMN revoke_tried_at timestamptz; -- the last attempt to revoke the refresh token of an ended session

CREATE INDEX sessions_to_revoke ON sessions (coalesce(ended_at, expires_at)) WHERE grant_enc IS NOT NULL;
