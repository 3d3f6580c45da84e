-- +goose Up
-- Row-level security. The roles are made by roles.sql, what each may do at all
-- stands in grants.sql.
--
-- gpuaas_api sees the rows that its transaction's scope allows. The scope is two
-- settings, gpuaas.tenant (a tenant's id, or the word platform for all tenants) and
-- gpuaas.principal; without them there are no rows. The four roles behind the doors
-- work for all tenants, and so does whoever migrates: no server serves as him, but
-- migrations and functions with their owner's rights look across tenants.
--
-- The functions stand in sub-selects, so that they are asked once for a statement
-- and not for each row. They have no part in choosing an index: each query still
-- says itself whose rows it wants.
CREATE FUNCTION scope_platform() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
	SELECT coalesce(current_setting('gpuaas.tenant', true), '') = 'platform'
$$;
-- A setting that has been used once in a session is empty afterwards, not gone.
CREATE FUNCTION scope_tenant() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS $$
	SELECT nullif(nullif(current_setting('gpuaas.tenant', true), ''), 'platform')::uuid
$$;
CREATE FUNCTION scope_principal() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS $$
	SELECT nullif(current_setting('gpuaas.principal', true), '')::uuid
$$;

-- +goose StatementBegin
-- scope_rows confines a table: whoever sees all tenants, or rows of which it is
-- true. What may be written is what may be seen, unless it says otherwise.
CREATE FUNCTION scope_rows(confined regclass, visible text, writable text DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', confined);
	EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', confined);
	EXECUTE format('CREATE POLICY scope ON %s USING ((SELECT scope_platform()) OR %s) WITH CHECK ((SELECT scope_platform()) OR %s)',
		confined, visible, coalesce(writable, visible));
	EXECUTE format('CREATE POLICY all_tenants ON %s TO gpuaas_node, gpuaas_reconcile, gpuaas_work, gpuaas_relay, CURRENT_USER USING (true) WITH CHECK (true)', confined);
END $$;
-- +goose StatementEnd

-- The tenant itself, and what names it.
SELECT scope_rows('tenants', 'id = (SELECT scope_tenant())');
SELECT scope_rows(confined, 'org_id = (SELECT scope_tenant())') FROM unnest(ARRAY['projects', 'tenant_memberships', 'invitations', 'service_accounts',
	'service_account_credentials', 'allocations', 'usage_records', 'ledger_accounts', 'outbox_events']::regclass[]) AS confined;

-- Someone without a tenant, who has just signed in, leaves a trace as well; what
-- belongs to no tenant is read by the platform only.
SELECT scope_rows('audit_logs', 'org_id = (SELECT scope_tenant())',
	'org_id = (SELECT scope_tenant()) OR org_id IS NULL AND (SELECT scope_principal()) IS NOT NULL');

-- People are seen by themselves and by their tenant.
SELECT scope_rows('users', 'id = (SELECT scope_principal()) OR EXISTS (SELECT FROM tenant_memberships m WHERE m.user_id = users.id)');
SELECT scope_rows('project_memberships', 'EXISTS (SELECT FROM projects p WHERE p.id = project_id)');
-- The tenant ends the keys and sessions of who leaves it.
SELECT scope_rows(confined, format('user_id = (SELECT scope_principal()) OR EXISTS (SELECT FROM tenant_memberships m WHERE m.user_id = %s.user_id)', confined))
	FROM unnest(ARRAY['api_keys', 'sessions']::regclass[]) AS confined;

-- What is nobody's but the principal's.
SELECT scope_rows(confined, 'user_id = (SELECT scope_principal())') FROM unnest(ARRAY['ssh_keys', 'user_passwords']::regclass[]) AS confined;
SELECT scope_rows('idempotency_keys', 'principal = (SELECT scope_principal())');
-- A link is looked up before it is known who comes with it.
SELECT scope_rows('sign_in_links', 'false');
-- revoked_tokens has none: its hashes name nobody, and a forgotten scope would
-- make a token that was logged out good again. rate_limits has none: it counts
-- before anyone is known.

-- The first row comes in the statement that makes the allocation, which cannot
-- see it yet; as every allocation has one, that number is no way to a foreign one.
SELECT scope_rows('allocation_transitions', 'EXISTS (SELECT FROM allocations a WHERE a.id = allocation_id)',
	'version = 1 AND (SELECT scope_tenant()) IS NOT NULL OR EXISTS (SELECT FROM allocations a WHERE a.id = allocation_id)');
SELECT scope_rows('observed_allocations', 'EXISTS (SELECT FROM allocations a WHERE a.id = allocation_id)');
-- Slots are claimed before their allocation is there; a slot that is not clean
-- cannot be claimed, so nothing is taken from anyone.
SELECT scope_rows('slot_claims', 'EXISTS (SELECT FROM allocations a WHERE a.id = allocation_id)', '(SELECT scope_tenant()) IS NOT NULL');
-- The fleet's declarations are the platform's. CASE, because only allocations
-- have a project for their scope, and no other word is an id.
SELECT scope_rows('desired_objects', 'CASE WHEN kind = ''Allocation'' THEN EXISTS (SELECT FROM projects p WHERE p.id = desired_objects.scope::uuid) ELSE false END');

SELECT scope_rows('usage_changes', 'EXISTS (SELECT FROM usage_records r WHERE r.id = record_id)');
-- The tenant's accounts, read once for a statement: a balance sums a thousand
-- entries, and a look-up for each would be what it costs.
SELECT scope_rows(confined, 'account_id = ANY (ARRAY(SELECT a.id FROM ledger_accounts a WHERE a.org_id = (SELECT scope_tenant())))')
	FROM unnest(ARRAY['ledger_entries', 'ledger_checkpoints']::regclass[]) AS confined;
-- Money is moved by the platform only, also where a tenant asks for it.
SELECT scope_rows('ledger_transfers', 'EXISTS (SELECT FROM ledger_entries e WHERE e.transfer_id = ledger_transfers.id)', 'false');

-- The loop reads two rooms' progress with rights of its own, and not the owner's.
ALTER VIEW allocation_progress SET (security_invoker = true);
ALTER VIEW node_progress SET (security_invoker = true);

-- What a role may have done but not do. The path is fixed, so that nobody's
-- table or function of the same name is found instead.
ALTER FUNCTION mark_due SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp;
-- +goose StatementBegin
-- ledger_await_postings returns when every open transaction that has posted is over,
-- and lets no new one post until the caller's ends. The lock would else take a
-- right to change entries, which nobody has.
CREATE FUNCTION ledger_await_postings() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
	LOCK TABLE ledger_entries IN SHARE MODE;
END $$;
-- +goose StatementEnd
CREATE TRIGGER allocation_transitions_not_emptied BEFORE TRUNCATE ON allocation_transitions FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- room: migrations
-- Which rights are in force: those of this release, unless it says otherwise.
CREATE TABLE applied_grants (
	sole boolean PRIMARY KEY DEFAULT true CHECK (sole),
	hash text NOT NULL
);

-- +goose Down
DROP TABLE applied_grants;
DROP TRIGGER allocation_transitions_not_emptied ON allocation_transitions;
DROP FUNCTION ledger_await_postings;
ALTER FUNCTION mark_due SECURITY INVOKER RESET search_path;
ALTER VIEW allocation_progress RESET (security_invoker);
ALTER VIEW node_progress RESET (security_invoker);
-- +goose StatementBegin
DO $$
DECLARE
	p record;
BEGIN
	FOR p IN SELECT polname, polrelid::regclass AS confined FROM pg_policy WHERE polname IN ('scope', 'all_tenants') LOOP
		EXECUTE format('DROP POLICY %I ON %s', p.polname, p.confined);
		EXECUTE format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY', p.confined);
	END LOOP;
END $$;
-- +goose StatementEnd
DROP FUNCTION scope_rows, scope_platform, scope_tenant, scope_principal;
