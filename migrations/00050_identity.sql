-- +goose Up
-- identity: tenants, projects, users, service accounts, and what they sign in with.

CREATE TABLE tenants (
	id         uuid PRIMARY KEY,
	name       text NOT NULL UNIQUE,
	currency   text NOT NULL DEFAULT 'EUR',
	version    bigint NOT NULL DEFAULT 1,
	created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE tenants IS 'Owners of money and data. A tenant buys in one currency.';
SELECT scope_rows('tenants', 'id = (SELECT scope_tenant())');

CREATE TABLE projects (
	id          uuid PRIMARY KEY,
	org_id      uuid NOT NULL REFERENCES tenants,
	name        text NOT NULL,
	description text NOT NULL DEFAULT '',
	version     bigint NOT NULL DEFAULT 1,
	created_at  timestamptz NOT NULL DEFAULT now(),
	deleted_at  timestamptz -- the row stays: allocations and charges refer to it
);
COMMENT ON TABLE projects IS 'Scopes inside a tenant.';
-- The name of a deleted project is free for another one.
CREATE UNIQUE INDEX projects_one_name ON projects (org_id, name) WHERE deleted_at IS NULL;
SELECT scope_rows('projects', 'org_id = (SELECT scope_tenant())');

CREATE TABLE users (
	id           uuid PRIMARY KEY,
	oidc_issuer  text NOT NULL DEFAULT 'local',
	oidc_subject text NOT NULL,
	email        text NOT NULL,
	name         text NOT NULL,
	role         text NOT NULL CHECK (role IN ('user', 'admin', 'operator', 'billing_operator')),
	role_from    text NOT NULL DEFAULT 'platform' CHECK (role_from IN ('platform', 'provider')), -- set by an admin, or by the OIDC provider at each sign-in
	version      bigint NOT NULL DEFAULT 1,
	created_at   timestamptz NOT NULL DEFAULT now(),
	signed_in_at timestamptz,
	disabled_at  timestamptz,
	UNIQUE (oidc_issuer, oidc_subject)
);
COMMENT ON TABLE users IS 'Users of the installation, with their platform role.';
CREATE UNIQUE INDEX users_one_email ON users (lower(email));

CREATE TABLE tenant_memberships (
	org_id  uuid NOT NULL REFERENCES tenants,
	user_id uuid NOT NULL UNIQUE REFERENCES users, -- a user belongs to one tenant
	role    text NOT NULL CHECK (role IN ('owner', 'member', 'viewer', 'billing')),
	PRIMARY KEY (org_id, user_id)
);
COMMENT ON TABLE tenant_memberships IS 'The role of a user in a tenant.';
SELECT scope_rows('tenant_memberships', 'org_id = (SELECT scope_tenant())');
-- A user is visible to itself and to its tenant.
SELECT scope_rows('users', 'id = (SELECT scope_principal()) OR EXISTS (SELECT FROM tenant_memberships m WHERE m.user_id = users.id)');

CREATE TABLE project_memberships (
	project_id uuid NOT NULL REFERENCES projects,
	user_id    uuid NOT NULL REFERENCES users,
	role       text NOT NULL CHECK (role IN ('admin', 'member', 'viewer')),
	UNIQUE (project_id, user_id)
);
COMMENT ON TABLE project_memberships IS 'The role of a user in a project.';
SELECT scope_rows('project_memberships', 'EXISTS (SELECT FROM projects p WHERE p.id = project_id)');

CREATE TABLE invitations (
	id          uuid PRIMARY KEY,
	org_id      uuid NOT NULL REFERENCES tenants,
	email       text NOT NULL,
	role        text NOT NULL CHECK (role IN ('owner', 'member', 'viewer', 'billing')),
	invited_by  uuid NOT NULL, -- principal
	created_at  timestamptz NOT NULL DEFAULT now(),
	expires_at  timestamptz NOT NULL,
	accepted_at timestamptz,
	revoked_at  timestamptz
);
COMMENT ON TABLE invitations IS 'Pending memberships by e-mail address, with the accepted and revoked ones.';
CREATE UNIQUE INDEX invitations_one_open ON invitations (org_id, lower(email)) WHERE accepted_at IS NULL AND revoked_at IS NULL;
SELECT scope_rows('invitations', 'org_id = (SELECT scope_tenant())');

CREATE TABLE service_accounts (
	id           uuid PRIMARY KEY,
	org_id       uuid NOT NULL REFERENCES tenants,
	project_id   uuid NOT NULL REFERENCES projects,
	name         text NOT NULL,
	description  text NOT NULL DEFAULT '',
	scopes       text[] NOT NULL, -- the maximum that its tokens may have
	version      bigint NOT NULL DEFAULT 1,
	created_by   uuid NOT NULL, -- principal
	created_at   timestamptz NOT NULL DEFAULT now(),
	last_used_at timestamptz,
	disabled_at  timestamptz,
	deleted_at   timestamptz -- the row stays: allocations and audit rows refer to it
);
COMMENT ON TABLE service_accounts IS 'Identities of programs, each in one project.';
CREATE UNIQUE INDEX service_accounts_one_name ON service_accounts (project_id, name) WHERE deleted_at IS NULL;
SELECT scope_rows('service_accounts', 'org_id = (SELECT scope_tenant())');

CREATE TABLE service_account_credentials (
	id                 uuid PRIMARY KEY,
	service_account_id uuid NOT NULL REFERENCES service_accounts,
	org_id             uuid NOT NULL REFERENCES tenants,
	secret_hash        bytea NOT NULL UNIQUE,
	created_at         timestamptz NOT NULL DEFAULT now(),
	expires_at         timestamptz,
	revoked_at         timestamptz,
	last_used_at       timestamptz
);
COMMENT ON TABLE service_account_credentials IS 'Secrets of service accounts, as hashes.';
CREATE INDEX service_account_credentials_by_account ON service_account_credentials (service_account_id);
SELECT scope_rows('service_account_credentials', 'org_id = (SELECT scope_tenant())');

CREATE TABLE api_keys (
	id           uuid PRIMARY KEY,
	user_id      uuid NOT NULL REFERENCES users,
	name         text NOT NULL,
	secret_hash  bytea NOT NULL UNIQUE, -- SHA-256 of 256 random bits: a slow hash would protect nothing, as nobody can guess them
	scopes       text[] NOT NULL DEFAULT '{}', -- empty: everything that its user may do
	created_at   timestamptz NOT NULL DEFAULT now(),
	expires_at   timestamptz,
	revoked_at   timestamptz,
	last_used_at timestamptz
);
COMMENT ON TABLE api_keys IS 'Personal API keys of users, as hashes.';
CREATE INDEX api_keys_by_user ON api_keys (user_id);
-- A tenant sees the API keys and sessions of its members, because it revokes them when a user leaves.
SELECT scope_rows('api_keys', 'user_id = (SELECT scope_principal()) OR EXISTS (SELECT FROM tenant_memberships m WHERE m.user_id = api_keys.user_id)');

CREATE TABLE sessions (
	id           uuid PRIMARY KEY,
	user_id      uuid NOT NULL REFERENCES users,
	kind         text NOT NULL DEFAULT 'browser' CHECK (kind IN ('browser', 'program')),
	secret_hash  bytea NOT NULL UNIQUE,
	issuer       text NOT NULL DEFAULT 'local',
	refresh_enc  bytea, -- encrypted refresh token of the OIDC provider; a sign-out revokes it there
	address      text NOT NULL DEFAULT '', -- of the client at sign-in, so that the user can recognise the session
	user_agent   text NOT NULL DEFAULT '',
	created_at   timestamptz NOT NULL DEFAULT now(),
	expires_at   timestamptz NOT NULL,
	ended_at     timestamptz,
	last_used_at timestamptz
);
COMMENT ON TABLE sessions IS 'Sign-in states of users.';
CREATE INDEX sessions_by_user ON sessions (user_id) WHERE ended_at IS NULL;
SELECT scope_rows('sessions', 'user_id = (SELECT scope_principal()) OR EXISTS (SELECT FROM tenant_memberships m WHERE m.user_id = sessions.user_id)');

CREATE TABLE ssh_keys (
	id          uuid PRIMARY KEY,
	user_id     uuid NOT NULL, -- a user or a service account, therefore without a foreign key
	name        text NOT NULL,
	public_key  text NOT NULL,
	fingerprint text NOT NULL,
	created_at  timestamptz NOT NULL DEFAULT now(),
	UNIQUE (user_id, fingerprint),
	UNIQUE (user_id, name)
);
COMMENT ON TABLE ssh_keys IS 'Public SSH keys that an allocation accepts.';
SELECT scope_rows('ssh_keys', 'user_id = (SELECT scope_principal())');

CREATE TABLE user_passwords (
	user_id    uuid PRIMARY KEY REFERENCES users,
	hash       text NOT NULL, -- argon2id with its parameters, in PHC form
	changed_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE user_passwords IS 'Password hashes of users who do not sign in through an OIDC provider.';
SELECT scope_rows('user_passwords', 'user_id = (SELECT scope_principal())');

CREATE TABLE sign_in_links (
	secret_hash bytea PRIMARY KEY,
	user_id     uuid NOT NULL REFERENCES users,
	created_at  timestamptz NOT NULL DEFAULT now(),
	expires_at  timestamptz NOT NULL,
	used_at     timestamptz
);
COMMENT ON TABLE sign_in_links IS 'Links that sign a user in once. The first admin signs in with one.';
-- The server reads a link before it knows the user. Only the scope of the platform sees links.
SELECT scope_rows('sign_in_links', 'false');

-- Without a policy: the hashes name no tenant. A policy would hide a revoked token from a transaction without a
-- scope, and the token would be valid again.
CREATE TABLE revoked_tokens (
	token_hash bytea PRIMARY KEY,
	expires_at timestamptz NOT NULL -- of the token; the row has no use afterwards
);
COMMENT ON TABLE revoked_tokens IS 'Access tokens of other issuers that were signed out before their end.';

CREATE TABLE idempotency_keys (
	principal  uuid NOT NULL,
	method     text NOT NULL,
	route      text NOT NULL,
	key        text NOT NULL,
	body_hash  bytea NOT NULL, -- of the request; another request with the same key is rejected
	status     int NOT NULL,
	location   text NOT NULL DEFAULT '',
	etag       text NOT NULL DEFAULT '',
	body       bytea NOT NULL DEFAULT '', -- of the response, byte for byte
	encrypted  boolean NOT NULL DEFAULT false, -- the body contains a secret and is encrypted
	created_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (principal, method, route, key)
);
COMMENT ON TABLE idempotency_keys IS
	'Stored responses. A repeated request with the same key gets the response of the first one.';
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);
SELECT scope_rows('idempotency_keys', 'principal = (SELECT scope_principal())');

-- Unlogged: a crash resets the limits. Without a policy: the server counts a request before it knows the caller.
CREATE UNLOGGED TABLE rate_limits (
	bucket  text PRIMARY KEY, -- class and caller
	full_at timestamptz NOT NULL -- when the whole limit is available again (GCRA)
);
COMMENT ON TABLE rate_limits IS 'Used request rates.';

CREATE CONSTRAINT TRIGGER tenants_are_audited AFTER INSERT OR UPDATE OR DELETE ON tenants
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();
CREATE CONSTRAINT TRIGGER projects_are_audited AFTER INSERT OR UPDATE OR DELETE ON projects
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();
CREATE CONSTRAINT TRIGGER users_are_audited
	AFTER INSERT OR DELETE OR UPDATE OF oidc_issuer, oidc_subject, email, name, role, role_from, disabled_at ON users
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();
CREATE CONSTRAINT TRIGGER tenant_memberships_are_audited AFTER INSERT OR UPDATE OR DELETE ON tenant_memberships
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();
CREATE CONSTRAINT TRIGGER project_memberships_are_audited AFTER INSERT OR UPDATE OR DELETE ON project_memberships
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();
CREATE CONSTRAINT TRIGGER invitations_are_audited AFTER INSERT OR UPDATE OR DELETE ON invitations
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();
CREATE CONSTRAINT TRIGGER service_accounts_are_audited
	AFTER INSERT OR DELETE OR UPDATE OF org_id, project_id, name, description, scopes, disabled_at, deleted_at ON service_accounts
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();
CREATE CONSTRAINT TRIGGER service_account_credentials_are_audited
	AFTER INSERT OR DELETE OR UPDATE OF service_account_id, org_id, secret_hash, expires_at, revoked_at ON service_account_credentials
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();
CREATE CONSTRAINT TRIGGER api_keys_are_audited
	AFTER INSERT OR DELETE OR UPDATE OF user_id, name, secret_hash, scopes, expires_at, revoked_at ON api_keys
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();
CREATE CONSTRAINT TRIGGER sessions_are_audited AFTER INSERT OR UPDATE OF user_id, secret_hash, expires_at, ended_at ON sessions
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();
CREATE CONSTRAINT TRIGGER ssh_keys_are_audited AFTER INSERT OR UPDATE OR DELETE ON ssh_keys
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();
CREATE CONSTRAINT TRIGGER user_passwords_are_audited AFTER INSERT OR UPDATE OR DELETE ON user_passwords
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();
CREATE CONSTRAINT TRIGGER sign_in_links_are_audited AFTER INSERT OR UPDATE OF user_id, secret_hash, expires_at ON sign_in_links
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();
