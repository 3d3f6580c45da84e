-- The rights of the database roles. The server applies the file as a whole after every migration, and so revokes every
-- right that is not listed here. A test fails for a table without a line.
--
-- r SELECT, a INSERT, w UPDATE, d DELETE, as in \dp. No role has w or d on an append-only table, or TRUNCATE on any.
DO $$
DECLARE
	server CONSTANT text[] := ARRAY['gpuaas_api', 'gpuaas_node', 'gpuaas_reconcile', 'gpuaas_work', 'gpuaas_relay', 'gpuaas_terminal'];
	line   record;
	verbs  text;
	f      regprocedure;
BEGIN
	EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA public, river FROM PUBLIC, %s', array_to_string(server, ', '));
	EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA public, river FROM PUBLIC, %s', array_to_string(server, ', '));
	EXECUTE format('REVOKE ALL ON SCHEMA public, river FROM %s', array_to_string(server, ', '));
	EXECUTE format('GRANT USAGE ON SCHEMA public, river TO %s', array_to_string(server, ', '));
	-- Only SECURITY DEFINER functions: those of extensions implement operators, which every role may use.
	FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef LOOP
		EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC, %s', f, array_to_string(server, ', '));
	END LOOP;

	FOR line IN SELECT * FROM (VALUES
		--                            api     node   recon-  work    relay   terminal
		--                                           cile
		('desired_objects',          'raw',  '',    'raw',  'rawd', '',     ''),
		('applied_profile',          'r',    'r',   'r',    'r',    'r',    'r'),
		('desired_revisions',        'r',    '',    'raw',  'rd',   '',     ''),
		('desired_pointer',          'r',    '',    'raw',  'r',    '',     ''),
		('git_sources',              'rw',   '',    'raw',  'r',    '',     ''),

		('observed_nodes',           'r',    'raw', 'r',    'r',    '',     'r'),
		('observed_leases',          'r',    'rawd', 'r',   'r',    '',     ''),
		('node_host_keys',           'r',    '',    '',     '',     '',     'r'),
		('node_capabilities',        'r',    '',    '',     'r',    '',     ''),
		('observed_allocations',     'r',    'raw', 'r',    'rd',   '',     ''),
		('gpu_readings',             'r',    'raw', '',     'rd',   '',     ''),
		('observed_objects',         'r',    '',    'r',    'raw',  '',     ''),

		('reconcile_due',            '',     '',    'rawd', '',     '',     ''), -- other roles call mark_due
		('plans',                    'raw',  '',    'raw',  'r',    '',     ''),
		('plan_actions',             'r',    '',    'ra',   'r',    '',     ''),
		('drift',                    'rw',   '',    'raw',  'rawd', '',     ''),
		('plan_approvals',           'ra',   '',    'r',    'r',    '',     ''),
		('forge_reports',            'r',    '',    'raw',  'rwd',  '',     ''),
		('forge_pushes',             'raw',  '',    'r',    'rd',   '',     ''),
		('node_tasks',               '',     'rw',  '',     'rawd', '',     ''),
		('relay_requests',           '',     'rw',  '',     '',     '',     'rad'),

		('policy_values',            'r',    'r',   'r',    'rawd', 'r',    'r'),
		('declared_roles',           'r',    'r',   'r',    'rawd', 'r',    'r'),
		('policy_revision',          'r',    'r',   'r',    'rw',   'r',    'r'),

		('tenants',                  'raw',  '',    '',     '',     '',     ''),
		('projects',                 'raw',  '',    '',     '',     '',     ''),
		('users',                    'raw',  '',    '',     '',     '',     ''),
		('tenant_memberships',       'rawd', '',    '',     'r',    '',     ''), -- notifications go to the users with a role
		('project_memberships',      'rawd', '',    '',     'r',    '',     ''),
		('invitations',              'raw',  '',    '',     '',     '',     ''),
		('service_accounts',         'raw',  '',    '',     '',     '',     ''),
		('service_account_credentials', 'raw', '',  '',     '',     '',     ''),
		('api_keys',                 'raw',  '',    '',     '',     '',     ''),
		('sessions',                 'raw',  '',    '',     'rd',   '',     ''),
		('ssh_keys',                 'rad',  '',    '',     'r',    '',     ''),
		('user_passwords',           'rawd', '',    '',     '',     '',     ''),
		('sign_in_links',            'raw',  '',    '',     'rd',   '',     ''),
		('revoked_tokens',           'ra',   '',    '',     'rd',   '',     ''),
		('rate_limits',              'rawd', '',    '',     'rd',   '',     ''),
		('idempotency_keys',         'raw',  '',    '',     'rd',   '',     ''),

		('certificates',             'rw',   'raw', '',     'rd',   '',     'r'),
		('signing_keys',             'r',    'r',   '',     'r',    '',     'r'), -- and the policies below
		('public_keys',              'r',    'r',   'r',    'r',    'r',    'r'),
		('key_sets',                 'r',    'r',   '',     'r',    '',     ''), -- append-only

		('sku_catalog',              'r',    '',    'r',    'raw',  '',     ''),
		('sku_prices',               'r',    '',    'r',    'raw',  '',     ''),
		('os_images',                'r',    '',    'r',    'raw',  '',     ''),
		('storage_classes',          'r',    '',    'r',    'raw',  '',     ''),

		('evidence_bundles',         'ra',   '',    '',     'rawd', '',     ''),
		('backups',                  '',     '',    '',     'r',    '',     ''), -- the commands write as the owner

		('restores',                 'r',    'r',   'r',    'r',    'r',    'r'), -- each server reads whether one is confirmed
		('restore_reports',          '',     'raw', '',     '',     '',     ''),
		('restore_allocations',      '',     'r',   '',     '',     '',     ''),
		('restore_expected_nodes',   '',     '',    '',     '',     '',     ''),
		('restore_differences',      '',     '',    '',     '',     '',     ''),

		('audit_logs',               'ra',   'a',   'ra',   'ra',   '',     'a'), -- append-only
		('audit_seals',              '',     '',    '',     'ra',   '',     ''), -- append-only
		('audit_exports',            '',     '',    '',     'ra',   '',     ''), -- append-only
		('outbox_events',            'ra',   'a',   'ra',   'ra',   'r',    ''), -- append-only
		('outbox_position',          '',     '',    '',     '',     'raw',  ''),
		('outbox_failures',          '',     '',    '',     '',     'raw',  ''),
		('inbox',                    'a',    '',    '',     'ra',   '',     ''),
		('inbox_heads',              '',     '',    '',     'rawd', '',     ''),
		('dead_letters',             'rw',   '',    '',     'rawd', 'raw',  ''),
		('event_consumers',          'r',    '',    '',     'rawd', '',     ''),
		('event_replays',            'ra',   '',    '',     'rwd',  '',     ''),
		('notifications',            'raw',  '',    '',     'raw',  '',     ''),
		('notification_preferences', 'raw',  '',    '',     'rawd', '',     ''),
		('notification_digests',     '',     '',    '',     'rawd', '',     ''),
		('suppressed_addresses',     'rw',   '',    '',     'rad',  '',     ''),
		('invitation_mails',         '',     '',    '',     'rad',  '',     ''),
		('user_contacts',            'r',    '',    '',     'r',    '',     ''),
		('open_invitations',         '',     '',    '',     'r',    '',     ''),
		('webhook_endpoints',        'rawd', '',    '',     'rw',   '',     ''),
		('webhook_deliveries',       'rw',   '',    '',     'raw',  '',     ''),

		('ledger_accounts',          'ra',   '',    'r',    'ra',   '',     ''), -- append-only
		('ledger_transfers',         'ra',   '',    'r',    'ra',   '',     ''), -- append-only
		('ledger_entries',           'ra',   '',    'r',    'ra',   '',     ''), -- append-only
		('ledger_checkpoints',       'r',    '',    'r',    'ra',   '',     ''), -- append-only
		('ledger_balances',          'r',    '',    'r',    'r',    '',     ''),

		('payment_customers',        'ra',   '',    '',     'r',    '',     ''),
		('payment_sessions',         'raw',  '',    '',     'raw',  '',     ''),
		('payment_mandates',         'raw',  '',    '',     'rw',   '',     ''),
		('stripe_events',            'raw',  '',    '',     'raw',  '',     ''),
		('payment_sweeps',           '',     '',    '',     'raw',  '',     ''),
		('stripe_payments',          'raw',  '',    '',     'raw',  '',     ''),
		('refund_requests',          'raw',  '',    '',     'raw',  '',     ''),
		('payment_disputes',         'r',    '',    '',     'raw',  '',     ''),

		('usage_records',            'r',    '',    'r',    'raw',  '',     ''), -- and columns below
		('usage_ticks',              'r',    '',    'r',    'ra',   '',     ''), -- append-only
		('usage_passes',             'r',    '',    '',     'ra',   '',     ''), -- append-only
		('usage_credits',            'r',    '',    '',     'ra',   '',     ''), -- append-only
		('usage_storage_price',      'r',    '',    'r',    'raw',  '',     ''),
		('usage_storage',            'r',    '',    'r',    'raw',  '',     ''), -- the API writes by metering_store

		('balance_notices',          'r',    '',    '',     'raw',  '',     ''),

		('nodes',                    'rw',   'rw',   'r',    'raw',  '',     ''),
		('gpus',                     'rw',   'raw', 'r',    'rw',   '',     ''),
		('slots',                    'rw',   'raw', 'r',    'rw',   '',     ''),
		('slot_claims',              'ra',   'r',   'r',    'raw',  '',     ''),
		('slot_inspections',         'raw',  '',    '',     '',     '',     ''),
		('enrolment_tokens',         'raw',  'rw',  '',     '',     '',     ''),
		('node_progress',            '',     '',    'r',    '',     '',     ''),
		('eviction_progress',        '',     '',    'r',    '',     '',     ''),
		('holds',                    'raw',  'raw', 'r',    'raw',  '',     ''),
		('health_reports',           'rawd', 'rawd', 'r',   'rawd', '',     ''),
		('breaker_trips',            'rw',   'raw', 'r',    'raw',  '',     ''),
		('agent_releases',           'raw',  'r',   'r',    'r',    '',     ''),
		('agent_updates',            'r',    '',    'r',    'rawd', '',     ''),
		('agent_rollouts',           'r',    '',    'r',    'rawd', '',     ''),

		('allocations',              'raw',  '',    'r',    'rw',   '',     'r'), -- and columns below
		('allocation_transitions',   'ra',   '',    '',     'ra',   '',     ''), -- append-only
		('allocation_progress',      '',     '',    'r',    '',     '',     ''),
		('fault_reports',            'raw',  '',    '',     'r',    '',     ''),
		('release_proofs',           'r',    '',    '',     'ra',   '',     ''), -- append-only
		('ssh_certificates',         'ra',   '',    '',     'rwd',  '',     ''),

		('storage_usage',            'raw',  '',    '',     'rw',   '',     ''),
		('storage_objects',          'raw',  '',    '',     'rwd',  '',     ''),
		('storage_reservations',     'rawd', '',    '',     'rawd', '',     ''),
		('storage_uploads',          'rawd', '',    '',     'rwd',  '',     ''),
		('storage_parts',            'rawd', '',    '',     'rd',   '',     ''),
		('storage_access_keys',      'rawd', '',    '',     'd',    '',     ''), -- and columns below
		('storage_checks',           '',     '',    '',     'rw',   '',     ''),
		('storage_history',          '',     '',    '',     'rw',   '',     ''),
		('storage_faults',           'r',    '',    '',     'rawd', '',     ''),

		('terminal_tokens',          'ra',   '',    '',     'rd',   '',     'rd'), -- the first use deletes a token
		('terminal_sessions',        'rw',   '',    '',     'rd',   '',     'raw'),
		('terminal_instances',       'r',    '',    '',     '',     '',     'rawd'), -- the API calls a server for logs
		('log_streams',              'rawd', '',    '',     'rd',   '',     'rw'), -- the first use of a token removes its hash
		('log_targets',              '',     '',    '',     '',     '',     'r'),
		('terminal_recordings',      'r',    '',    '',     'rd',   '',     'raw'),
		('terminal_recording_chunks', 'r',   '',    '',     'rd',   '',     'ra'), -- no role changes a chunk
		('open_sign_ins',            'r',    '',    '',     '',     '',     ''),
		('terminal_rights',          '',     '',    '',     '',     '',     'r'),
		('terminal_targets',         '',     '',    '',     '',     '',     'r'),

		-- River: the API and the loop insert jobs, the workers execute them, admins cancel and retry them.
		('river.river_job',          'rawd', '',    'raw',  'rawd', '',     ''),
		('river.river_queue',        'rw',   '',    '',     'rawd', '',     ''),
		('river.river_leader',       'r',    '',    '',     'rawd', '',     ''),
		('river.river_notification', 'a',    '',    'a',    'rad',  '',     ''),
		('river.river_migration',    '',     '',    '',     '',     '',     ''),

		('applied_grants',           '',     '',    '',     '',     '',     ''),
		('table_partitions',         '',     '',    '',     'r',    '',     ''),
		('goose_db_version',         'r',    'r',   'r',    'r',    'r',    'r') -- a server without the login of the owner compares it
	) AS matrix (name, api, node, reconcile, work, relay, terminal) LOOP
		FOR i IN 1 .. cardinality(server) LOOP
			SELECT string_agg(verb, ', ') INTO verbs
			FROM (VALUES ('r', 'SELECT'), ('a', 'INSERT'), ('w', 'UPDATE'), ('d', 'DELETE')) AS v (letter, verb)
			WHERE strpos((ARRAY[line.api, line.node, line.reconcile, line.work, line.relay, line.terminal])[i], letter) > 0;
			IF verbs IS NOT NULL THEN
				EXECUTE format('GRANT %s ON %s TO %I', verbs, line.name, server[i]);
			END IF;
		END LOOP;
	END LOOP;
END $$;

-- Single columns. A release through the API closes the usage interval.
GRANT UPDATE (end_s, closed_by, closed_observation) ON usage_records TO gpuaas_api;
-- An inspection ends the claim on a slot.
GRANT UPDATE (period) ON slot_claims TO gpuaas_api;
-- What the payment provider and the streams of events contain is stored until an operator confirms a restore.
GRANT UPDATE (report) ON restores TO gpuaas_work, gpuaas_relay;
-- A hold locks the row of its node, so that no slot is added to the node meanwhile.
GRANT UPDATE (version) ON nodes TO gpuaas_api;
-- Operators see the progress of a task, but not its body, which contains keys.
GRANT SELECT (id, node_id, allocation_id, type, fence, generation, attempt, status, step, code, message, created_at, delivered_at, finished_at) ON node_tasks TO gpuaas_api;
-- A retired node opens no streams.
GRANT SELECT (id, lifecycle) ON nodes TO gpuaas_terminal;
-- A Policy object names a tenant by its name.
GRANT SELECT (id, name) ON tenants TO gpuaas_work, gpuaas_reconcile;
-- The preview of a change lists the affected projects and their cost.
GRANT SELECT (id, org_id, name) ON projects TO gpuaas_reconcile, gpuaas_work;
-- The scopes of policies.
GRANT SELECT (id) ON users TO gpuaas_reconcile, gpuaas_work;
-- A job removes the access of a user or a service account that has none any more from the nodes.
GRANT SELECT (id, role, disabled_at) ON users TO gpuaas_work;
-- E-mails go to verified addresses, and to those of invitations.
GRANT SELECT (email, oidc_issuer, deleted_at) ON users TO gpuaas_work;
GRANT SELECT (id, org_id, email, role, created_at, expires_at, accepted_at, revoked_at) ON invitations TO gpuaas_work;
GRANT SELECT (id, disabled_at, deleted_at) ON service_accounts TO gpuaas_work;
-- The node API extends the access keys of mounts. A release by a job ends them.
GRANT SELECT (id, allocation_id, mount_at, node_id, access_key_id, secret_enc, expires_at) ON storage_access_keys TO gpuaas_node;
GRANT UPDATE (expires_at) ON storage_access_keys TO gpuaas_node;
GRANT SELECT (allocation_id), UPDATE (node_id) ON storage_access_keys TO gpuaas_work;

GRANT USAGE ON SEQUENCE allocation_host_uid TO gpuaas_api;
GRANT USAGE ON SEQUENCE ledger_entries_id_seq TO gpuaas_api, gpuaas_work; -- also numbers transfers
GRANT SELECT ON SEQUENCE ledger_entries_id_seq TO gpuaas_work; -- a seal ends with the last number
GRANT USAGE ON SEQUENCE river.river_job_id_seq TO gpuaas_api, gpuaas_reconcile, gpuaas_work;

-- SECURITY DEFINER functions.
GRANT EXECUTE ON FUNCTION mark_due TO gpuaas_api, gpuaas_node, gpuaas_reconcile, gpuaas_work;
GRANT EXECUTE ON FUNCTION metering_store TO gpuaas_api, gpuaas_work;
GRANT EXECUTE ON FUNCTION make_partitions, drop_partitions, ledger_await_transfers TO gpuaas_work;

-- A role reads the sealed keys of its own purposes; platform/secret/keystore has the same list. The owner of the schema
-- creates and rotates keys.
DROP POLICY IF EXISTS keys_of_api ON signing_keys;
DROP POLICY IF EXISTS keys_of_node ON signing_keys;
DROP POLICY IF EXISTS keys_of_work ON signing_keys;
DROP POLICY IF EXISTS keys_of_terminal ON signing_keys;
CREATE POLICY keys_of_api ON signing_keys FOR SELECT TO gpuaas_api USING (purpose IN ('logins', 'tokens', 'cursors', 'fields', 'webhooks', 'recordings', 'mounts'));
CREATE POLICY keys_of_node ON signing_keys FOR SELECT TO gpuaas_node USING (purpose IN ('authority', 'statements', 'mounts'));
CREATE POLICY keys_of_work ON signing_keys FOR SELECT TO gpuaas_work USING (purpose IN ('tasks', 'webhooks', 'evidence'));
CREATE POLICY keys_of_terminal ON signing_keys FOR SELECT TO gpuaas_terminal USING (purpose IN ('relay', 'logins', 'recordings'));
