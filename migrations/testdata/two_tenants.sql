-- One row of everything for each of two tenants. Every id of the first begins
-- with a, every id of the second with b, and no row of one names the other.
DO $$
DECLARE
	tenant text;
	id     uuid; -- one for all: what it names differs by table
BEGIN
	INSERT INTO nodes (id, name, spec, lifecycle) VALUES ('c0000000-0000-0000-0000-000000000000', 'n', '{"sku": "s", "region": "r", "onboarding": "simulated", "gpus": 2}', 'active');
	FOREACH tenant IN ARRAY ARRAY['a', 'b'] LOOP
		id := (repeat(tenant, 8) || '-0000-0000-0000-000000000000')::uuid;
		INSERT INTO tenants (id, name) VALUES (id, id);
		INSERT INTO projects (id, org_id, name) VALUES (id, id, id);
		INSERT INTO users (id, oidc_subject, email, name, role) VALUES (id, id, id, id, 'user');
		INSERT INTO tenant_memberships (org_id, user_id, role) VALUES (id, id, 'member');
		INSERT INTO project_memberships (project_id, user_id, role) VALUES (id, id, 'member');
		INSERT INTO invitations (id, org_id, email, role, invited_by, expires_at) VALUES (id, id, id, 'member', id, now());
		INSERT INTO service_accounts (id, org_id, project_id, name, scopes, created_by) VALUES (id, id, id, id, '{}', id);
		INSERT INTO service_account_credentials (id, service_account_id, org_id, secret_hash) VALUES (id, id, id, tenant::bytea);
		INSERT INTO api_keys (id, user_id, name, secret_hash) VALUES (id, id, id, tenant::bytea);
		INSERT INTO sessions (id, user_id, secret_hash, expires_at) VALUES (id, id, tenant::bytea, now());
		INSERT INTO ssh_keys (id, user_id, name, public_key, fingerprint) VALUES (id, id, id, id, id);
		INSERT INTO user_passwords (user_id, hash) VALUES (id, id);
		INSERT INTO sign_in_links (secret_hash, user_id, expires_at) VALUES (tenant::bytea, id, now());
		INSERT INTO idempotency_keys (principal, method, route, key, body_hash, status) VALUES (id, 'POST', '/', id, '', 201);
		INSERT INTO audit_logs (id, org_id, actor, action, target_urn) VALUES (id, id, id, 'a', id);
		INSERT INTO audit_seals (up_to, org_id, total, rows, chain) VALUES (1::text::xid8, id, 1, repeat('x', 48)::bytea, repeat('x', 32)::bytea);
		INSERT INTO outbox_events (event_id, stream, subject, aggregate, sequence, org_id, payload) VALUES (id, 'BILLING', 'billing.x', id, 1, id, '{}');
		INSERT INTO notifications (id, user_id, org_id, kind, severity, urn, title, message) VALUES (id, id, id, 'k', 'info', id, 't', 'm');
		INSERT INTO notification_preferences (id, scope) VALUES (id, 'user');
		INSERT INTO notification_digests (user_id, period, due_at, id, notification_ids) VALUES (id, 'daily', now(), id, ARRAY[id]);
		INSERT INTO invitation_mails (invitation_id, org_id, address) VALUES (id, id, id);
		INSERT INTO suppressed_addresses (id, address, reason) VALUES (id, id, 'r');
		INSERT INTO webhook_endpoints (id, org_id, name, url, patterns, format, signature, secret_enc, created_by) VALUES (id, id, id, 'https://a.example', '{p}', 'standard', 'v1', '', 'u');
		INSERT INTO webhook_deliveries (id, endpoint_id, org_id, event_id, event_type, body, status) VALUES (id, id, id, id, 't', '', 'skipped');
		INSERT INTO ledger_accounts (id, org_id, name, currency) VALUES (id, id, 'balance', 'EUR');
		INSERT INTO ledger_transfers (id, kind, reference, org_id, amount_minor) VALUES (id, 'usage', id, id, 1);
		INSERT INTO ledger_entries (transfer_id, account_id, amount_minor, currency) VALUES (id, id, 1, 'EUR');
		INSERT INTO ledger_checkpoints (account_id, org_id, up_to, balance_minor, chain) VALUES (id, id, 1, 1, '');
		INSERT INTO usage_records (id, allocation_id, org_id, project_id, sku, gpus, price_minor, currency, account_id, start_s) VALUES (id, id, id, id, 's', 1, 1, 'EUR', id, 1);
		INSERT INTO usage_credits (id, record_id, org_id, from_s, to_s, reason, amount_minor) VALUES (id, id, id, 1, 2, 'observation_stale', 0);
		INSERT INTO storage_faults (object_key, org_id, project_id, fault) VALUES (id, id, id, 'missing');
		INSERT INTO usage_storage (project_id, org_id, class, price_minor, free_bytes, currency, start_s, changed_s, bytes, owed_before) VALUES (id, id, '', 0, 0, '', 1, 1, 0, 0);
		INSERT INTO balance_notices (org_id) VALUES (id);
		INSERT INTO payment_customers (org_id, customer, livemode) VALUES (id, id, false);
		INSERT INTO payment_sessions (id, org_id, principal, amount_minor, currency, status, livemode, expires_at) VALUES (id, id, id, 1, 'EUR', 'initiated', false, now());
		INSERT INTO payment_mandates (id, org_id, principal, status, customer, livemode, currency) VALUES (id, id, id, 'unconfirmed', id, false, 'EUR');
		INSERT INTO stripe_events (event_id, type, livemode, body, payload, source, created_at) VALUES (id, 'x', false, '', '{}', 'webhook', now());
		INSERT INTO stripe_payments (payment, session_id, org_id, amount_minor, currency, transfer_id) VALUES (id, id, id, 1, 'EUR', id);
		INSERT INTO refund_requests (id, org_id, user_id, requested_by, kind, route, amount_minor, currency, reason, status, transfer_id) VALUES (id, id, id, id, 'charge', 'ledger', 1, 'EUR', 'x', 'requested', id);
		INSERT INTO payment_disputes (id, payment, org_id, amount_minor, currency, stage) VALUES (id, id, id, 1, 'EUR', 'inquiry');
		INSERT INTO gpus (uuid, node_id, index, model, memory_mib, health) VALUES (tenant, 'c0000000-0000-0000-0000-000000000000', 0, 'm', 1, 'healthy');
		INSERT INTO slots (id, node_id, gpu_uuid, sku, region, status) VALUES (id, 'c0000000-0000-0000-0000-000000000000', tenant, 's', 'r', 'claimed');
		INSERT INTO slot_claims (slot_id, allocation_id, period) VALUES (id, id, tstzrange(now(), NULL));
		INSERT INTO allocations (id, org_id, project_id, user_id, name, sku, region, gpus, node_id, price_minor, currency, login, host_uid, status)
			VALUES (id, id, id, id, id, 's', 'r', 1, 'c0000000-0000-0000-0000-000000000000', 1, 'EUR', 'u', 1, 'requested');
		INSERT INTO allocation_transitions (allocation_id, version, trigger, from_status, to_status) VALUES (id, 2, 'e', 'f', 't');
		INSERT INTO fault_reports (id, allocation_id, org_id, node_id, message, reported_by) VALUES (id, id, id, id, 'm', 'a');
		INSERT INTO release_proofs (allocation_id, proof) VALUES (id, '{}');
		INSERT INTO ssh_certificates (serial, allocation_id, principal, expires_at) VALUES (hashtext(id::text), id, id, now());
		INSERT INTO terminal_tokens (hash, org_id, project_id, allocation_id, principal, by_program, sign_in_id, scopes, limited, purpose, origin, correlation_id, expires_at)
			VALUES (sha256(tenant::bytea), id, id, id, id, false, id, '{}', false, 'shell', '', '', now());
		INSERT INTO terminal_sessions (id, org_id, project_id, allocation_id, node_id, fence, instance_id, principal, by_program, sign_in_id, scopes, limited, purpose, address, user_agent, correlation_id)
			VALUES (id, id, id, id, id, 1, id, id, false, id, '{}', false, 'shell', '', '', '');
		INSERT INTO log_streams (id, org_id, project_id, allocation_id, principal, query, trace) VALUES (id, id, id, id, id, '{}', '');
		INSERT INTO storage_usage (scope_id, org_id) VALUES (id, id);
		INSERT INTO storage_objects (id, org_id, project_id, name, folded, type) VALUES (id, id, id, '', '', 'folder');
		INSERT INTO storage_reservations (object_key, org_id, project_id, bytes, expires_at) VALUES (id, id, id, 0, now());
		INSERT INTO storage_uploads (id, org_id, project_id, path, media_type, if_absent, if_match, handle, created_by, expires_at) VALUES (id, id, id, 'p', '', false, '', '', '', now());
		INSERT INTO storage_parts (upload_id, number, org_id) VALUES (id, 1, id);
		INSERT INTO storage_access_keys (id, org_id, project_id, access_key_id, secret_enc, name, read_only, creator, created_by) VALUES (id, id, id, id, '', 'n', true, '{}', 'u');
		INSERT INTO terminal_recordings (id, org_id, project_id, allocation_id, principal, required, columns, rows, key_enc, correlation_id) VALUES (id, id, id, id, id, true, 80, 24, '', '');
		INSERT INTO terminal_recording_chunks (recording_id, number, org_id, body) VALUES (id, 0, id, '');
		INSERT INTO evidence_bundles (id, org_id, kind, about, subject, cause, requested_by) VALUES (id, id, 'allocation', id, id, id, id);
		INSERT INTO observed_allocations (allocation_id, node_id, phase, fence, observed_generation, spec_hash, observed_at) VALUES (id, 'c0000000-0000-0000-0000-000000000000', 'ready', 1, 1, '', now());
		INSERT INTO desired_objects (uid, kind, scope, name, spec, spec_hash, owner) VALUES (id, 'Allocation', id, id, '{}', '', 'api');
	END LOOP;
	INSERT INTO desired_objects (uid, kind, name, spec, spec_hash, owner) VALUES ('c0000000-0000-0000-0000-000000000000', 'Node', 'n', '{}', '', 'api');
	INSERT INTO audit_logs (id, actor, action, target_urn) VALUES ('c0000000-0000-0000-0000-000000000000', 'system', 'a', 'n');
	INSERT INTO ledger_accounts (name, currency) VALUES ('revenue', 'EUR');
END $$;
