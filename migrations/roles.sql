-- One database role for each role of the server. Roles belong to the cluster and not to a database, so the server runs
-- this file before the migrations at every start. A database that was restored into another cluster finds its roles.
--
-- The roles have no password here. An operator who sets one, or a certificate or a line in pg_hba.conf, lets servers log
-- in as the roles. Otherwise servers log in as the owner, who runs the migrations, and become the role.
DO $$
DECLARE
	name text;
BEGIN
	FOREACH name IN ARRAY ARRAY['gpuaas_api', 'gpuaas_node', 'gpuaas_reconcile', 'gpuaas_work', 'gpuaas_relay', 'gpuaas_terminal'] LOOP
		BEGIN
			IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
				EXECUTE format('CREATE ROLE %I LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION NOINHERIT', name);
			END IF;
		EXCEPTION WHEN duplicate_object OR unique_violation THEN
			NULL; -- another database of the cluster has created it meanwhile
		END;
		BEGIN
			-- A superuser may become every role.
			IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AND NOT pg_has_role(current_user, name, 'MEMBER') THEN
				EXECUTE format('GRANT %I TO CURRENT_USER', name);
			END IF;
		EXCEPTION WHEN insufficient_privilege OR unique_violation THEN
			NULL; -- created by an administrator: servers log in as the role, or the administrator grants it
		END;
	END LOOP;
END $$;
