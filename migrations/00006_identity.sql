-- +goose Up
-- room: identity
ALTER TABLE tenants ADD version bigint NOT NULL DEFAULT 1;

-- A project that is gone keeps its row: its allocations and charges name it.
ALTER TABLE projects
	ADD description text NOT NULL DEFAULT '',
	ADD version bigint NOT NULL DEFAULT 1,
	ADD deleted_at timestamptz,
	DROP CONSTRAINT projects_org_id_name_key;
CREATE UNIQUE INDEX projects_one_name ON projects (org_id, name) WHERE deleted_at IS NULL;

ALTER TABLE users
	ADD version bigint NOT NULL DEFAULT 1,
	-- Who decides the role: the platform's administrators, or the provider at each sign-in.
	ADD role_from text NOT NULL DEFAULT 'platform' CHECK (role_from IN ('platform', 'provider')),
	ADD disabled_at timestamptz,
	ADD signed_in_at timestamptz,
	DROP CONSTRAINT users_email_key;
CREATE UNIQUE INDEX users_one_email ON users (lower(email));

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
CREATE UNIQUE INDEX invitations_one_open ON invitations (org_id, lower(email)) WHERE accepted_at IS NULL AND revoked_at IS NULL;

CREATE TABLE service_accounts (
	id           uuid PRIMARY KEY,
	org_id       uuid NOT NULL REFERENCES tenants,
	project_id   uuid NOT NULL REFERENCES projects,
	name         text NOT NULL,
	description  text NOT NULL DEFAULT '',
	scopes       text[] NOT NULL, -- the most that its tokens may be given
	version      bigint NOT NULL DEFAULT 1,
	created_by   uuid NOT NULL, -- principal
	created_at   timestamptz NOT NULL DEFAULT now(),
	last_used_at timestamptz,
	disabled_at  timestamptz,
	deleted_at   timestamptz -- kept: allocations and audit rows name it
);
CREATE UNIQUE INDEX service_accounts_one_name ON service_accounts (project_id, name) WHERE deleted_at IS NULL;
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
CREATE INDEX service_account_credentials_by_account ON service_account_credentials (service_account_id);

ALTER TABLE api_keys
	ADD scopes text[] NOT NULL DEFAULT '{}', -- empty: all that its owner may
	ADD last_used_at timestamptz;
CREATE INDEX api_keys_by_user ON api_keys (user_id);

ALTER TABLE sessions
	ADD kind text NOT NULL DEFAULT 'browser' CHECK (kind IN ('browser', 'program')),
	ADD issuer text NOT NULL DEFAULT 'local',
	ADD address text NOT NULL DEFAULT '', -- where it was started from, for its owner to recognise
	ADD user_agent text NOT NULL DEFAULT '',
	ADD last_used_at timestamptz,
	-- The provider's refresh token, sealed: logout revokes it there.
	ADD refresh_enc bytea;
CREATE INDEX sessions_by_user ON sessions (user_id) WHERE ended_at IS NULL;

CREATE TABLE user_passwords (
	user_id    uuid PRIMARY KEY REFERENCES users,
	hash       text NOT NULL, -- argon2id with its parameters, in PHC form
	changed_at timestamptz NOT NULL DEFAULT now()
);
-- A link that signs one person in once: how the first administrator gets in.
CREATE TABLE sign_in_links (
	secret_hash bytea PRIMARY KEY,
	user_id     uuid NOT NULL REFERENCES users,
	created_at  timestamptz NOT NULL DEFAULT now(),
	expires_at  timestamptz NOT NULL,
	used_at     timestamptz
);
-- Tokens of others that were logged out before their end; a row is of no use after it.
CREATE TABLE revoked_tokens (
	token_hash bytea PRIMARY KEY,
	expires_at timestamptz NOT NULL
);

-- A key or an allocation may be a program's: these name a principal, which is a
-- row of users or of service_accounts.
ALTER TABLE ssh_keys DROP CONSTRAINT ssh_keys_user_id_fkey;

ALTER TABLE idempotency_keys
	DROP COLUMN response,
	ADD location text NOT NULL DEFAULT '',
	ADD etag text NOT NULL DEFAULT '',
	ADD body bytea NOT NULL DEFAULT '', -- as it was answered, byte for byte
	ADD sealed boolean NOT NULL DEFAULT false; -- the body shows a secret, so it is kept encrypted

-- Unlogged: a crash forgives everyone.
CREATE UNLOGGED TABLE rate_limits (
	bucket  text PRIMARY KEY, -- class and actor
	full_at timestamptz NOT NULL -- when all of the bucket is there again (GCRA)
);

-- room: allocation
ALTER TABLE allocations DROP CONSTRAINT allocations_user_id_fkey; -- a principal, see ssh_keys

-- +goose Down
ALTER TABLE allocations ADD FOREIGN KEY (user_id) REFERENCES users;
DROP TABLE rate_limits, revoked_tokens, sign_in_links, user_passwords, service_account_credentials, service_accounts, invitations;
ALTER TABLE idempotency_keys DROP COLUMN location, DROP COLUMN etag, DROP COLUMN body, DROP COLUMN sealed, ADD response jsonb NOT NULL DEFAULT '{}';
ALTER TABLE ssh_keys ADD FOREIGN KEY (user_id) REFERENCES users;
DROP INDEX sessions_by_user, api_keys_by_user, users_one_email, projects_one_name;
ALTER TABLE sessions DROP COLUMN kind, DROP COLUMN issuer, DROP COLUMN address, DROP COLUMN user_agent, DROP COLUMN last_used_at, DROP COLUMN refresh_enc;
ALTER TABLE api_keys DROP COLUMN scopes, DROP COLUMN last_used_at;
ALTER TABLE users DROP COLUMN version, DROP COLUMN role_from, DROP COLUMN disabled_at, DROP COLUMN signed_in_at, ADD UNIQUE (email);
ALTER TABLE projects DROP COLUMN description, DROP COLUMN version, DROP COLUMN deleted_at, ADD UNIQUE (org_id, name);
ALTER TABLE tenants DROP COLUMN version;
