-- +goose Up
-- identity: whom e-mails go to.

CREATE VIEW user_contacts WITH (security_invoker = true) AS
	SELECT id, email, oidc_issuer NOT IN ('local', 'deleted') AS verified, disabled_at IS NULL AS active, deleted_at FROM users;
COMMENT ON VIEW user_contacts IS
	'E-mail addresses of users. A sign-in provider has verified the address of each user that it has signed in. The address '
	'of a local user is not verified.';

CREATE VIEW open_invitations WITH (security_invoker = true) AS
	SELECT i.id, i.org_id, t.name AS tenant, i.email, i.role, i.created_at, i.expires_at FROM invitations i JOIN tenants t ON t.id = i.org_id
	WHERE i.accepted_at IS NULL AND i.revoked_at IS NULL AND i.expires_at > now();
COMMENT ON VIEW open_invitations IS 'Invitations that can be accepted.';
