-- +goose Up
-- room: policies
CREATE TABLE policy_values (
	key      text NOT NULL,
	scope    text NOT NULL, -- platform | region:<name> | sku:<name> | node:<name> | tenant:<id> | project:<id> | user:<id>
	value    jsonb NOT NULL,
	revision bigint NOT NULL,
	source   text NOT NULL DEFAULT '',
	set_at   timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (key, scope)
);
-- A row and not a sequence: who sets a value holds it to the commit, so revisions
-- become visible in their order, and a reader that has seen one has all before it.
CREATE TABLE policy_revision (
	sole     boolean PRIMARY KEY DEFAULT true CHECK (sole),
	revision bigint NOT NULL
);
INSERT INTO policy_revision (revision) VALUES (0);

-- room: identity
CREATE TABLE tenants (
	id         uuid PRIMARY KEY,
	name       text NOT NULL UNIQUE,
	currency   text NOT NULL DEFAULT 'EUR',
	created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE projects (
	id         uuid PRIMARY KEY,
	org_id     uuid NOT NULL REFERENCES tenants,
	name       text NOT NULL,
	created_at timestamptz NOT NULL DEFAULT now(),
	UNIQUE (org_id, name)
);
CREATE TABLE users (
	id           uuid PRIMARY KEY,
	oidc_issuer  text NOT NULL DEFAULT 'local',
	oidc_subject text NOT NULL,
	email        text NOT NULL UNIQUE,
	name         text NOT NULL,
	role         text NOT NULL CHECK (role IN ('user', 'admin', 'operator', 'billing_operator')),
	created_at   timestamptz NOT NULL DEFAULT now(),
	UNIQUE (oidc_issuer, oidc_subject)
);
CREATE TABLE tenant_memberships (
	org_id  uuid NOT NULL REFERENCES tenants,
	user_id uuid NOT NULL UNIQUE REFERENCES users,
	role    text NOT NULL CHECK (role IN ('owner', 'member', 'viewer', 'billing')),
	PRIMARY KEY (org_id, user_id)
);
CREATE TABLE project_memberships (
	project_id uuid NOT NULL REFERENCES projects,
	user_id    uuid NOT NULL REFERENCES users,
	role       text NOT NULL CHECK (role IN ('admin', 'member', 'viewer')),
	UNIQUE (project_id, user_id)
);
CREATE TABLE api_keys (
	id          uuid PRIMARY KEY,
	user_id     uuid NOT NULL REFERENCES users,
	name        text NOT NULL,
	secret_hash bytea NOT NULL UNIQUE, -- SHA-256 of 256 random bits: nothing to guess, so no slow hash
	expires_at  timestamptz,
	created_at  timestamptz NOT NULL DEFAULT now(),
	revoked_at  timestamptz
);
CREATE TABLE sessions (
	id          uuid PRIMARY KEY,
	user_id     uuid NOT NULL REFERENCES users,
	secret_hash bytea NOT NULL UNIQUE,
	created_at  timestamptz NOT NULL DEFAULT now(),
	expires_at  timestamptz NOT NULL,
	ended_at    timestamptz
);
CREATE TABLE ssh_keys (
	id          uuid PRIMARY KEY,
	user_id     uuid NOT NULL REFERENCES users,
	name        text NOT NULL,
	public_key  text NOT NULL,
	fingerprint text NOT NULL,
	created_at  timestamptz NOT NULL DEFAULT now(),
	UNIQUE (user_id, fingerprint),
	UNIQUE (user_id, name)
);
CREATE TABLE idempotency_keys (
	principal  uuid NOT NULL,
	method     text NOT NULL,
	route      text NOT NULL,
	key        text NOT NULL,
	body_hash  bytea NOT NULL,
	status     int NOT NULL,
	response   jsonb NOT NULL, -- what the first call answered; a replay answers the same
	created_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (principal, method, route, key)
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

-- room: secret
CREATE TABLE signing_keys (
	kid        text PRIMARY KEY,
	purpose    text NOT NULL,
	public_key bytea NOT NULL,
	status     text NOT NULL CHECK (status IN ('active', 'superseded', 'revoked')),
	created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE certificates (
	serial     text PRIMARY KEY, -- lower-case hex
	node_id    uuid NOT NULL,
	status     text NOT NULL CHECK (status IN ('active', 'superseded', 'revoked', 'expired')),
	not_after  timestamptz NOT NULL,
	created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX certificates_by_node ON certificates (node_id) WHERE status = 'active';

-- room: catalog
CREATE TABLE sku_catalog (
	id           uuid PRIMARY KEY, -- uid of the declaration
	name         text NOT NULL UNIQUE,
	display_name text NOT NULL,
	gpu_model    text NOT NULL,
	memory_gib   int NOT NULL,
	isolation    text NOT NULL,
	max_gpus     int NOT NULL CHECK (max_gpus > 0),
	active       boolean NOT NULL,
	updated_at   timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE sku_prices (
	sku          text NOT NULL,
	currency     text NOT NULL,
	amount_minor bigint NOT NULL CHECK (amount_minor >= 0), -- per GPU and hour
	valid_from   timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (sku, currency, valid_from)
);
CREATE TABLE os_images (
	id           uuid PRIMARY KEY,
	name         text NOT NULL UNIQUE,
	display_name text NOT NULL,
	digest       text NOT NULL,
	is_default   boolean NOT NULL,
	retired_at   timestamptz
);

-- +goose Down
DROP TABLE os_images, sku_prices, sku_catalog, certificates, signing_keys, idempotency_keys, ssh_keys, sessions, api_keys,
	project_memberships, tenant_memberships, users, projects, tenants, policy_values, policy_revision;
