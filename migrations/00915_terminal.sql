-- +goose Up
-- terminal: tokens that open terminals and SSH connections to allocations, the sessions, and the servers that own them.

-- What a caller is signed in with: a session, an API key or a credential of a service account.
CREATE VIEW open_sign_ins WITH (security_invoker = true) AS
	SELECT id, user_id AS principal, expires_at FROM sessions WHERE ended_at IS NULL AND expires_at > now()
	UNION ALL SELECT id, user_id, expires_at FROM api_keys WHERE revoked_at IS NULL AND coalesce(expires_at > now(), true)
	UNION ALL SELECT id, service_account_id, expires_at FROM service_account_credentials WHERE revoked_at IS NULL AND coalesce(expires_at > now(), true);
COMMENT ON VIEW open_sign_ins IS 'Sessions, API keys and credentials that are valid now, and their ends.';

CREATE TABLE terminal_tokens (
	hash           bytea PRIMARY KEY CHECK (length(hash) = 32), -- SHA-256; the first use deletes the row
	org_id         uuid NOT NULL,
	project_id     uuid NOT NULL,
	allocation_id  uuid NOT NULL REFERENCES allocations,
	principal      uuid NOT NULL, -- a user or a service account, therefore without a foreign key
	by_program     boolean NOT NULL, -- the principal is a service account
	sign_in_id     uuid NOT NULL, -- a row of open_sign_ins
	sign_in_end    timestamptz, -- the token of a CI job ends before its credential
	scopes         text[] NOT NULL,
	limited        boolean NOT NULL, -- the scopes limit the roles
	purpose        text NOT NULL CHECK (purpose IN ('shell', 'ssh')),
	origin         text NOT NULL, -- of the browser page that created the token; empty: no browser
	resumes        uuid, -- the session that the token resumes
	correlation_id text NOT NULL,
	created_at     timestamptz NOT NULL DEFAULT now(),
	expires_at     timestamptz NOT NULL
);
COMMENT ON TABLE terminal_tokens IS 'Unused terminal tokens, as hashes.';
CREATE INDEX terminal_tokens_by_principal ON terminal_tokens (principal);
CREATE INDEX terminal_tokens_by_age ON terminal_tokens (expires_at);
SELECT scope_rows('terminal_tokens', 'org_id = (SELECT scope_tenant())');
CREATE CONSTRAINT TRIGGER terminal_tokens_are_audited AFTER INSERT OR UPDATE ON terminal_tokens
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();

CREATE TABLE terminal_instances (
	id         uuid PRIMARY KEY, -- of one start of a server
	address    text NOT NULL, -- at which agents and other servers reach it
	key        text NOT NULL, -- hex SHA-256 of the public key that it shows there, and to other servers
	started_at timestamptz NOT NULL DEFAULT now(),
	seen_at    timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE terminal_instances IS 'Running servers of the role terminal. The sessions of a server that is silent are lost.';

CREATE TABLE terminal_sessions (
	id             uuid PRIMARY KEY,
	org_id         uuid NOT NULL,
	project_id     uuid NOT NULL,
	allocation_id  uuid NOT NULL REFERENCES allocations,
	node_id        uuid NOT NULL,
	fence          bigint NOT NULL,
	instance_id    uuid NOT NULL, -- without a foreign key: the row of a silent instance is deleted
	principal      uuid NOT NULL,
	by_program     boolean NOT NULL,
	sign_in_id     uuid NOT NULL,
	sign_in_end    timestamptz,
	scopes         text[] NOT NULL,
	limited        boolean NOT NULL,
	purpose        text NOT NULL CHECK (purpose IN ('shell', 'ssh')),
	address        text NOT NULL, -- of the client
	user_agent     text NOT NULL,
	correlation_id text NOT NULL,
	connected      boolean NOT NULL DEFAULT true, -- a client is connected
	received_bytes bigint NOT NULL DEFAULT 0,
	sent_bytes     bigint NOT NULL DEFAULT 0,
	certificate    bigint, -- the serial, as in ssh_certificates; null: the client's own
	host_key       text NOT NULL DEFAULT '', -- fingerprint of what the node presented
	end_wanted     text NOT NULL DEFAULT '' CHECK (end_wanted IN ('', 'ended_by_user', 'ended_by_operator')),
	end_by         text NOT NULL DEFAULT '', -- the actor of end_wanted
	end_reason     text NOT NULL DEFAULT '' CHECK (end_reason IN ('', 'exited', 'closed', 'disconnected', 'slow', 'idle', 'ended_by_user',
		'ended_by_operator', 'signed_out', 'user_disabled', 'right_lost', 'allocation_ended', 'node_unavailable', 'connect_failed',
		'stream_lost', 'restarted', 'lost', 'unavailable')),
	exit_status    int,
	created_at     timestamptz NOT NULL DEFAULT now(),
	updated_at     timestamptz NOT NULL DEFAULT now(),
	ended_at       timestamptz,
	CONSTRAINT terminal_sessions_ended CHECK ((ended_at IS NULL) = (end_reason = '')),
	CONSTRAINT terminal_sessions_end_has_an_actor CHECK ((end_wanted = '') = (end_by = ''))
);
COMMENT ON TABLE terminal_sessions IS 'Terminals and SSH connections to allocations: who opened them, and how they ended.';
CREATE INDEX terminal_sessions_by_instance ON terminal_sessions (instance_id) WHERE ended_at IS NULL;
CREATE INDEX terminal_sessions_open ON terminal_sessions (allocation_id) WHERE ended_at IS NULL;
CREATE INDEX terminal_sessions_by_project ON terminal_sessions (project_id, id);
CREATE INDEX terminal_sessions_by_principal ON terminal_sessions (principal, created_at);
CREATE INDEX terminal_sessions_by_age ON terminal_sessions (ended_at);
SELECT scope_rows('terminal_sessions', 'org_id = (SELECT scope_tenant())');
CREATE CONSTRAINT TRIGGER terminal_sessions_are_audited AFTER INSERT OR UPDATE OF end_wanted, ended_at ON terminal_sessions
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();

-- The view has the rights of its owner: the role terminal reads nothing else of users, nodes and desired objects.
CREATE VIEW terminal_rights AS
	SELECT s.id, s.instance_id, s.end_wanted, s.end_by, s.org_id, s.project_id, s.principal, s.by_program, s.scopes, s.limited,
		a.status = 'active' AND a.node_id = s.node_id AND p.deleted_at IS NULL AS allocated,
		coalesce(n.reachability = 'reachable' AND n.lifecycle <> 'retired'
			AND EXISTS (SELECT FROM certificates c WHERE c.node_id = n.id AND c.status = 'active'), false) AS node_usable,
		coalesce(s.sign_in_end > now(), true) AND (
			EXISTS (SELECT FROM sessions i WHERE i.id = s.sign_in_id AND i.user_id = s.principal AND i.ended_at IS NULL AND i.expires_at > now())
			OR EXISTS (SELECT FROM api_keys i WHERE i.id = s.sign_in_id AND i.user_id = s.principal AND i.revoked_at IS NULL AND coalesce(i.expires_at > now(), true))
			OR EXISTS (SELECT FROM service_account_credentials i WHERE i.id = s.sign_in_id AND i.service_account_id = s.principal
				AND i.revoked_at IS NULL AND coalesce(i.expires_at > now(), true))) AS signed_in,
		coalesce(CASE WHEN s.by_program THEN k.disabled_at IS NULL AND k.deleted_at IS NULL ELSE u.disabled_at IS NULL AND u.deleted_at IS NULL END, false) AS enabled,
		coalesce(u.role, '') AS platform_role, coalesce(t.role, '') AS tenant_role, coalesce(m.role, '') AS project_role,
		coalesce(k.scopes, '{}') AS account_scopes
	FROM terminal_sessions s
		JOIN allocations a ON a.id = s.allocation_id
		JOIN projects p ON p.id = s.project_id
		LEFT JOIN nodes n ON n.id = s.node_id
		LEFT JOIN users u ON u.id = s.principal AND NOT s.by_program
		LEFT JOIN tenant_memberships t ON t.user_id = u.id AND t.org_id = s.org_id
		LEFT JOIN project_memberships m ON m.user_id = u.id AND m.project_id = s.project_id
		LEFT JOIN service_accounts k ON k.id = s.principal AND s.by_program AND k.project_id = s.project_id
	WHERE s.ended_at IS NULL;
COMMENT ON VIEW terminal_rights IS 'What decides whether an open terminal session may go on: its allocation, node, sign-in and roles.';

-- Like terminal_rights: where the connection of a new session leads.
CREATE VIEW terminal_targets AS
	SELECT a.id AS allocation_id, a.org_id, a.project_id, a.node_id, a.login, d.fence
	FROM allocations a JOIN desired_objects d ON d.uid = a.id AND d.kind = 'Allocation' AND d.deleted_at IS NULL
	WHERE a.status = 'active' AND a.node_id IS NOT NULL;
COMMENT ON VIEW terminal_targets IS 'The node, fence and account of each active allocation, for the role terminal.';
