-- +goose Up
-- policies: the roles that Role objects declare. They change under the revision of the policies, so that a decision names one
-- revision for both.

CREATE TABLE declared_roles (
	name       text PRIMARY KEY,
	operations text[] NOT NULL,
	object_id  uuid NOT NULL, -- the Role object
	set_at     timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE declared_roles IS 'Roles of the platform that Role objects declare, with their operations.';

-- A user has a role of the release or a declared one. A role that is not declared any more grants nothing.
ALTER TABLE users DROP CONSTRAINT users_role_check;
ALTER TABLE users ADD CONSTRAINT users_role_check CHECK (role ~ '^[a-z0-9][a-z0-9_-]{0,62}$');
