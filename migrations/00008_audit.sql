-- +goose Up
-- room: audit
ALTER TABLE audit_logs
	-- Of the transaction that was audited: seals go by it, below the horizon.
	ADD xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
	DROP CONSTRAINT audit_logs_pkey,
	-- By time first: it is then the index of the newest rows, and the probe of
	-- demand_audit, whose rows have the time of their transaction.
	ADD PRIMARY KEY (at, id);
DROP INDEX audit_logs_by_target;
CREATE INDEX audit_logs_by_tenant ON audit_logs (org_id, at, id);
CREATE INDEX audit_logs_by_actor ON audit_logs (actor, at, id);
CREATE INDEX audit_logs_by_action ON audit_logs (action, at, id);
CREATE INDEX audit_logs_by_target ON audit_logs (target_urn, at, id);
CREATE INDEX audit_logs_by_position ON audit_logs (xid, id);

-- A seal closes one tenant's rows of a stretch of transactions. Each follows from
-- the one before, so that whoever changes a row must rewrite every later seal.
CREATE TABLE audit_seals (
	up_to     xid8 NOT NULL, -- the last transaction of the stretch; the same for all tenants in it
	org_id    uuid NOT NULL, -- zeros for the platform's own rows
	total     bigint NOT NULL, -- rows from the first one to here
	rows      bytea NOT NULL, -- 48 bytes for each in it: its id and its hash, so that a fault has a place
	chain     bytea NOT NULL CHECK (length(chain) = 32),
	sealed_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (up_to, org_id),
	CONSTRAINT audit_seals_hold_whole_rows CHECK (length(rows) > 0 AND length(rows) % 48 = 0),
	CONSTRAINT audit_seals_count_what_they_hold CHECK (total >= length(rows) / 48)
);
CREATE INDEX audit_seals_by_tenant ON audit_seals (org_id, up_to);
SELECT scope_rows('audit_seals', 'org_id = (SELECT scope_tenant())');
CREATE TRIGGER audit_seals_append_only BEFORE UPDATE OR DELETE ON audit_seals FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_seals_not_emptied BEFORE TRUNCATE ON audit_seals FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- +goose StatementBegin
-- demand_audit refuses the commit of a privileged change without a row that says
-- who did it. It runs as its owner: the row may be one that the changer cannot
-- read. A row that was taken back with its savepoint is not there. No bitmaps: a
-- transaction of a thousand changes would make one of all its rows for each.
CREATE FUNCTION demand_audit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET enable_bitmapscan = off AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM public.audit_logs WHERE at = now() AND xid = pg_current_xact_id()) THEN
		RAISE EXCEPTION '% of % needs an audit row in its transaction', TG_OP, TG_TABLE_NAME
			USING ERRCODE = 'restrict_violation', TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME,
				HINT = 'Queue an audit entry beside the change.';
	END IF;
	RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Only columns that say who may do what: times of use and of sign-in are not
-- that. Superusers are exempt: whoever may drop the trigger is not held by it,
-- and is found by the seals.
DO $$
DECLARE
	tab    text;
	events text;
BEGIN
	FOR tab, events IN VALUES
		('tenants', 'INSERT OR UPDATE OR DELETE'),
		('projects', 'INSERT OR UPDATE OR DELETE'),
		('tenant_memberships', 'INSERT OR UPDATE OR DELETE'),
		('project_memberships', 'INSERT OR UPDATE OR DELETE'),
		('users', 'INSERT OR DELETE OR UPDATE OF oidc_issuer, oidc_subject, email, name, role, role_from, disabled_at'),
		('user_passwords', 'INSERT OR UPDATE OR DELETE'),
		('invitations', 'INSERT OR UPDATE OR DELETE'),
		('service_accounts', 'INSERT OR DELETE OR UPDATE OF org_id, project_id, name, description, scopes, disabled_at, deleted_at'),
		('service_account_credentials', 'INSERT OR DELETE OR UPDATE OF service_account_id, org_id, secret_hash, expires_at, revoked_at'),
		('api_keys', 'INSERT OR DELETE OR UPDATE OF user_id, name, secret_hash, scopes, expires_at, revoked_at'),
		('ssh_keys', 'INSERT OR UPDATE OR DELETE'),
		('sessions', 'INSERT OR UPDATE OF user_id, secret_hash, expires_at, ended_at'),
		('sign_in_links', 'INSERT OR UPDATE OF user_id, secret_hash, expires_at'),
		('allocations', 'INSERT'),
		('enrolment_tokens', 'INSERT')
	LOOP
		EXECUTE format('CREATE CONSTRAINT TRIGGER %I AFTER %s ON %I DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
			WHEN (current_setting(''is_superuser'') <> ''on'') EXECUTE FUNCTION demand_audit()', tab || '_are_audited', events, tab);
	END LOOP;
END $$;
-- +goose StatementEnd

-- The role that works makes partitions, and owns no table.
ALTER FUNCTION make_partitions(int) SECURITY DEFINER SET search_path = public, pg_temp;

-- +goose Down
ALTER FUNCTION make_partitions(int) SECURITY INVOKER RESET search_path;
DROP FUNCTION demand_audit CASCADE;
DROP TABLE audit_seals;
DROP INDEX audit_logs_by_tenant, audit_logs_by_actor, audit_logs_by_action, audit_logs_by_target, audit_logs_by_position;
CREATE INDEX audit_logs_by_target ON audit_logs (target_urn, at);
ALTER TABLE audit_logs DROP CONSTRAINT audit_logs_pkey, ADD PRIMARY KEY (id, at), DROP COLUMN xid;
