-- +goose Up
-- policies: values of policy keys that differ from the default.

CREATE TABLE policy_values (
	key      text NOT NULL,
	scope    text NOT NULL, -- platform | region:<name> | sku:<name> | node:<name> | tenant:<id> | project:<id> | user:<id>
	value    jsonb NOT NULL,
	revision bigint NOT NULL,
	source   text NOT NULL DEFAULT '',
	set_at   timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (key, scope)
);
COMMENT ON TABLE policy_values IS 'Values of policies by key and scope.';

-- A row and not a sequence: a transaction that sets a value locks the row until it commits. Revisions therefore
-- become visible in order, and a reader that has seen one has seen all before it.
CREATE TABLE policy_revision (
	sole     boolean PRIMARY KEY DEFAULT true CHECK (sole), -- the table has one row
	revision bigint NOT NULL
);
COMMENT ON TABLE policy_revision IS 'The revision of the policy values. It rises with each change.';
INSERT INTO policy_revision (revision) VALUES (0);
