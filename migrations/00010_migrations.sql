-- +goose Up
-- migrations: what the files after this one use.

-- btree_gist lets an exclusion constraint combine a uuid with a time range.
CREATE EXTENSION IF NOT EXISTS btree_gist;

CREATE TABLE applied_grants (
	sole boolean PRIMARY KEY DEFAULT true CHECK (sole), -- the table has one row
	hash text NOT NULL -- of all migrations and of grants.sql
);
COMMENT ON TABLE applied_grants IS
	'The grants that are in force. A start of the server applies grants.sql when the hash differs.';

-- +goose StatementBegin
CREATE FUNCTION reject_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION reject_change IS
	'Trigger of append-only tables. The grants already forbid changes to the roles of the server. The trigger also '
	'stops the owner of the table, who would have to drop it first.';

-- Row-level security. grants.sql says which statements a role may run; the policies say on which rows.
--
-- gpuaas_api sees the rows in the scope of its transaction. The scope is two settings: gpuaas.tenant is the id of
-- a tenant, or "platform" for all tenants; gpuaas.principal is the id of the user or service account. Without
-- them gpuaas_api sees no row. The other four roles and the owner see the rows of all tenants: no server serves
-- requests as the owner, but migrations and SECURITY DEFINER functions need all rows.
--
-- Policies call these functions in a sub-select. PostgreSQL then calls them once for a statement and not for each
-- row. It cannot use such a condition for an index, so every query also names the tenant itself.
CREATE FUNCTION scope_platform() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
	SELECT coalesce(current_setting('gpuaas.tenant', true), '') = 'platform'
$$;
COMMENT ON FUNCTION scope_platform IS 'Reports whether the transaction may see the rows of all tenants.';

-- PostgreSQL returns an empty text, and not null, for a setting that an earlier transaction of the session used.
CREATE FUNCTION scope_tenant() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS $$
	SELECT nullif(nullif(current_setting('gpuaas.tenant', true), ''), 'platform')::uuid
$$;
COMMENT ON FUNCTION scope_tenant IS 'Returns the tenant in whose scope the transaction runs, or null.';

CREATE FUNCTION scope_principal() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS $$
	SELECT nullif(current_setting('gpuaas.principal', true), '')::uuid
$$;
COMMENT ON FUNCTION scope_principal IS 'Returns the user or service account for whom the transaction runs, or null.';

-- +goose StatementBegin
CREATE FUNCTION scope_rows(confined regclass, visible text, writable text DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', confined);
	EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', confined);
	EXECUTE format('CREATE POLICY scope ON %s USING ((SELECT scope_platform()) OR %s) WITH CHECK ((SELECT scope_platform()) OR %s)',
		confined, visible, coalesce(writable, visible));
	EXECUTE format('CREATE POLICY all_tenants ON %s TO gpuaas_node, gpuaas_reconcile, gpuaas_work, gpuaas_relay, CURRENT_USER USING (true) WITH CHECK (true)', confined);
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION scope_rows IS
	'Enables row-level security on a table. The scope of a tenant covers the rows for which the condition "visible" '
	'is true. It may write the rows for which "writable" is true; without that argument, the visible ones.';
