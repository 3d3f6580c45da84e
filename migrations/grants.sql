-- Who may do what, as a whole: it is applied after every migration, and takes
-- away what does not stand here. A table without a line fails a test.
--
-- r SELECT, a INSERT, w UPDATE, d DELETE, as in \dp. Facts only grow: nobody has
-- w or d on them, nor TRUNCATE on anything.
DO $$
DECLARE
	server CONSTANT text[] := ARRAY['gpuaas_api', 'gpuaas_node', 'gpuaas_reconcile', 'gpuaas_work', 'gpuaas_relay'];
	line   record;
	verbs  text;
	f      regprocedure;
BEGIN
	EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA public, river FROM PUBLIC, %s', array_to_string(server, ', '));
	EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA public, river FROM PUBLIC, %s', array_to_string(server, ', '));
	EXECUTE format('REVOKE ALL ON SCHEMA public, river FROM %s', array_to_string(server, ', '));
	EXECUTE format('GRANT USAGE ON SCHEMA public, river TO %s', array_to_string(server, ', '));
	-- Not all functions: those of extensions are operators, which all may use.
	FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef LOOP
		EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC, %s', f, array_to_string(server, ', '));
	END LOOP;

	FOR line IN SELECT * FROM (VALUES
		--                            api     node   recon-  work    relay
		--                                           cile
		('desired_objects',          'raw',  '',    'raw',  'rawd', ''),
		('desired_revisions',        'r',    '',    'raw',  '',     ''),
		('desired_pointer',          'r',    '',    'raw',  '',     ''),
		('git_sources',              'rw',   '',    'raw',  'r',    ''),

		('observed_nodes',           'r',    'raw', 'r',    'r',    ''),
		('observed_leases',          'r',    'rawd', 'r',   'r',    ''),
		('observed_allocations',     'r',    'raw', 'r',    'r',    ''),
		('observed_objects',         'r',    '',    'r',    'raw',  ''),

		('reconcile_due',            '',     '',    'rawd', '',     ''), -- the others: mark_due
		('plans',                    'raw',  '',    'raw',  '',     ''),
		('plan_actions',             'r',    '',    'ra',   '',     ''),
		('drift',                    'rw',   '',    'raw',  'raw',  ''),
		('forge_reports',            'r',    '',    'raw',  'rw',   ''),
		('node_tasks',               '',     'rw',  '',     'raw',  ''),

		('policy_values',            'r',    'r',   'r',    'rawd', 'r'),
		('policy_revision',          'r',    'r',   'r',    'rw',   'r'),

		('tenants',                  'raw',  '',    '',     '',     ''),
		('projects',                 'raw',  '',    '',     '',     ''),
		('users',                    'raw',  '',    '',     '',     ''),
		('tenant_memberships',       'rawd', '',    '',     '',     ''),
		('project_memberships',      'rawd', '',    '',     '',     ''),
		('invitations',              'raw',  '',    '',     '',     ''),
		('service_accounts',         'raw',  '',    '',     '',     ''),
		('service_account_credentials', 'raw', '',  '',     '',     ''),
		('api_keys',                 'raw',  '',    '',     '',     ''),
		('sessions',                 'raw',  '',    '',     '',     ''),
		('ssh_keys',                 'rad',  '',    '',     'r',    ''),
		('user_passwords',           'rawd', '',    '',     '',     ''),
		('sign_in_links',            'raw',  '',    '',     '',     ''),
		('revoked_tokens',           'ra',   '',    '',     'rd',   ''),
		('rate_limits',              'rawd', '',    '',     'rd',   ''),
		('idempotency_keys',         'raw',  '',    '',     'rd',   ''),

		('signing_keys',             '',     '',    '',     '',     ''), -- kept in files
		('certificates',             'rw',   'raw', '',     'r',    ''),

		('sku_catalog',              'r',    '',    'r',    'raw',  ''),
		('sku_prices',               'r',    '',    'r',    'raw',  ''),
		('os_images',                'r',    '',    'r',    'raw',  ''),

		('audit_logs',               'ra',   '',    'ra',   'ra',   ''), -- fact
		('audit_seals',              '',     '',    '',     'ra',   ''), -- fact
		('outbox_events',            'ra',   'a',   'ra',   'ra',   'r'), -- fact
		('outbox_position',          '',     '',    '',     '',     'raw'),
		('outbox_failures',          '',     '',    '',     '',     'raw'),
		('inbox',                    '',     '',    '',     '',     ''), -- for consumers to come

		('ledger_accounts',          'ra',   '',    'r',    'ra',   ''), -- fact
		('ledger_transfers',         'ra',   '',    'r',    'ra',   ''), -- fact
		('ledger_entries',           'ra',   '',    'r',    'ra',   ''), -- fact
		('ledger_checkpoints',       'r',    '',    'r',    'ra',   ''), -- fact

		('payment_customers',        'ra',   '',    '',     'r',    ''),
		('payment_sessions',         'raw',  '',    '',     'rw',   ''),
		('stripe_events',            'raw',  '',    '',     'raw',  ''),
		('payment_sweeps',           '',     '',    '',     'raw',  ''),
		('stripe_payments',          'raw',  '',    '',     'raw',  ''),
		('refund_requests',          'raw',  '',    '',     'rw',   ''),

		('usage_records',            'r',    '',    'r',    'raw',  ''), -- and below
		('usage_ticks',              'r',    '',    'r',    'ra',   ''), -- fact
		('usage_passes',             'r',    '',    '',     'ra',   ''), -- fact
		('usage_credits',            'r',    '',    '',     'ra',   ''), -- fact

		('balance_notices',          'r',    '',    '',     'raw',  ''),

		('nodes',                    'rw',   'rw',   'r',    'raw',  ''),
		('gpus',                     'rw',   'raw', 'r',    'rw',   ''),
		('slots',                    'rw',   'raw', 'r',    'rw',   ''),
		('slot_claims',              'ra',   'r',   'r',    'raw',  ''),
		('enrolment_tokens',         'raw',  'rw',  '',     '',     ''),
		('node_progress',            '',     '',    'r',    '',     ''),
		('leave_progress',           '',     '',    'r',    '',     ''),
		('holds',                    'raw',  'raw', 'r',    'raw',  ''),
		('health_reports',           'rawd', 'rawd', 'r',   'rawd', ''),
		('breaker_trips',            'rw',   'raw', 'r',    'raw',  ''),
		('agent_releases',           'raw',  'r',   'r',    'r',    ''),
		('agent_updates',            'r',    '',    'r',    'rawd', ''),
		('agent_rollouts',           'r',    '',    'r',    'rawd', ''),

		('allocations',              'raw',  '',    'r',    'rw',   ''), -- and below
		('allocation_transitions',   'ra',   '',    '',     'ra',   ''), -- fact
		('allocation_progress',      '',     '',    'r',    '',     ''),

		-- River: the API and the loop put jobs in, the workers run them, administrators mend them.
		('river.river_job',          'rawd', '',    'raw',  'rawd', ''),
		('river.river_queue',        'rw',   '',    '',     'rawd', ''),
		('river.river_leader',       'r',    '',    '',     'rawd', ''),
		('river.river_notification', 'a',    '',    'a',    'rad',  ''),
		('river.river_migration',    '',     '',    '',     '',     ''),

		('applied_grants',           '',     '',    '',     '',     ''),
		('goose_db_version',         '',     '',    '',     '',     '')
	) AS matrix (name, api, node, reconcile, work, relay) LOOP
		FOR i IN 1 .. cardinality(server) LOOP
			SELECT string_agg(verb, ', ') INTO verbs
			FROM (VALUES ('r', 'SELECT'), ('a', 'INSERT'), ('w', 'UPDATE'), ('d', 'DELETE')) AS v (letter, verb)
			WHERE strpos((ARRAY[line.api, line.node, line.reconcile, line.work, line.relay])[i], letter) > 0;
			IF verbs IS NOT NULL THEN
				EXECUTE format('GRANT %s ON %s TO %I', verbs, line.name, server[i]);
			END IF;
		END LOOP;
	END LOOP;
END $$;

-- Single columns: a release ends the interval; the loop's views run with its own rights.
GRANT UPDATE (end_s, closed_by, closed_seen) ON usage_records TO gpuaas_api;
-- Who holds a node locks its row, so that no slot comes to it meanwhile.
GRANT UPDATE (version) ON nodes TO gpuaas_api;
-- How an order fared is shown to operators; what it says, with keys in it, is not.
GRANT SELECT (id, node_id, allocation_id, type, fence, generation, attempt, status, step, code, message, created_at, delivered_at, finished_at) ON node_tasks TO gpuaas_api;
-- Who names a tenant in a policy names it by its name.
GRANT SELECT (id, name) ON tenants TO gpuaas_work, gpuaas_reconcile;
-- The planner of changes says whom a change touches, and what it costs them.
GRANT SELECT (id, org_id, name) ON projects TO gpuaas_reconcile;

GRANT USAGE ON SEQUENCE allocation_host_uid TO gpuaas_api;
GRANT USAGE ON SEQUENCE ledger_entries_id_seq TO gpuaas_api, gpuaas_work; -- numbers transfers as well
GRANT SELECT ON SEQUENCE ledger_entries_id_seq TO gpuaas_work; -- a seal ends with the last
GRANT USAGE ON SEQUENCE river.river_job_id_seq TO gpuaas_api, gpuaas_reconcile, gpuaas_work;

-- These run with their owner's rights.
GRANT EXECUTE ON FUNCTION mark_due TO gpuaas_api, gpuaas_node, gpuaas_reconcile, gpuaas_work;
GRANT EXECUTE ON FUNCTION make_partitions, ledger_await_postings TO gpuaas_work;
