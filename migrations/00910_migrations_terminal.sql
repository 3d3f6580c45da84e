-- +goose Up
-- migrations: the database role of the server role "terminal" sees the rows of all tenants, as every role but gpuaas_api.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION scope_rows(confined regclass, visible text, writable text DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', confined);
	EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', confined);
	EXECUTE format('CREATE POLICY scope ON %s USING ((SELECT scope_platform()) OR %s) WITH CHECK ((SELECT scope_platform()) OR %s)',
		confined, visible, coalesce(writable, visible));
	EXECUTE format('CREATE POLICY all_tenants ON %s TO gpuaas_node, gpuaas_reconcile, gpuaas_work, gpuaas_relay, gpuaas_terminal, CURRENT_USER USING (true) WITH CHECK (true)', confined);
END $$;

DO $$
DECLARE
	t regclass;
BEGIN
	FOR t IN SELECT polrelid FROM pg_policy WHERE polname = 'all_tenants' LOOP
		EXECUTE format('ALTER POLICY all_tenants ON %s TO gpuaas_node, gpuaas_reconcile, gpuaas_work, gpuaas_relay, gpuaas_terminal, CURRENT_USER', t);
	END LOOP;
END $$;
-- +goose StatementEnd
