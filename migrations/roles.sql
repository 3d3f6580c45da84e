-- One role of the database for each role of the server. Roles belong to the
-- cluster and not to a database, so this runs before the migrations at every
-- start: a database that was restored elsewhere finds them as well.
--
-- They have no password here. Whoever gives one, or a certificate or a line in
-- pg_hba.conf, lets servers log in as them; without, servers log in as the user
-- who migrates and become the role.
DO $$
DECLARE
	name text;
BEGIN
	FOREACH name IN ARRAY ARRAY['gpuaas_api', 'gpuaas_node', 'gpuaas_reconcile', 'gpuaas_work', 'gpuaas_relay'] LOOP
		BEGIN
			IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
				EXECUTE format('CREATE ROLE %I LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION NOINHERIT', name);
			END IF;
		EXCEPTION WHEN duplicate_object OR unique_violation THEN
			NULL; -- another database of this cluster was faster
		END;
		BEGIN
			-- A superuser may become anyone.
			IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AND NOT pg_has_role(current_user, name, 'MEMBER') THEN
				EXECUTE format('GRANT %I TO CURRENT_USER', name);
			END IF;
		EXCEPTION WHEN insufficient_privilege OR unique_violation THEN
			NULL; -- made by an administrator: servers log in as the role, or he grants it
		END;
	END LOOP;
END $$;
