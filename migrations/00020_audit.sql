-- +goose Up
-- audit: records of privileged changes, and the seals that show a later change of the records.

CREATE TABLE audit_logs (
	id             uuid NOT NULL,
	at             timestamptz NOT NULL DEFAULT now(),
	xid            xid8 NOT NULL DEFAULT pg_current_xact_id(), -- the audited transaction; seals cover ranges of it
	org_id         uuid,          -- null: a change that concerns no tenant
	actor          text NOT NULL, -- user:<id>, system:<role>, node:<id>
	action         text NOT NULL,
	target_urn     text NOT NULL,
	correlation_id text NOT NULL DEFAULT '',
	before         jsonb,
	after          jsonb,
	-- The time comes first: the key then serves the list of the newest rows, and demand_audit, which searches for
	-- the start time of its transaction.
	PRIMARY KEY (at, id)
) PARTITION BY RANGE (at);
COMMENT ON TABLE audit_logs IS
	'Audit rows: who changed what, in the transaction of the change. Append-only, one partition for each month.';
CREATE INDEX audit_logs_by_tenant ON audit_logs (org_id, at, id);
CREATE INDEX audit_logs_by_actor ON audit_logs (actor, at, id);
CREATE INDEX audit_logs_by_action ON audit_logs (action, at, id);
CREATE INDEX audit_logs_by_target ON audit_logs (target_urn, at, id);
-- The order in which seals read the rows.
CREATE INDEX audit_logs_by_position ON audit_logs (xid, id);
-- A user without a tenant also writes audit rows, for example at the first sign-in. Only the platform reads them.
SELECT scope_rows('audit_logs', 'org_id = (SELECT scope_tenant())',
	'org_id = (SELECT scope_tenant()) OR org_id IS NULL AND (SELECT scope_principal()) IS NOT NULL');
CREATE TRIGGER audit_logs_append_only BEFORE UPDATE OR DELETE ON audit_logs FOR EACH ROW EXECUTE FUNCTION reject_change();
CREATE TRIGGER audit_logs_not_emptied BEFORE TRUNCATE ON audit_logs FOR EACH STATEMENT EXECUTE FUNCTION reject_change();

CREATE TABLE audit_seals (
	up_to     xid8 NOT NULL,   -- the last transaction of the range, the same for all tenants in it
	org_id    uuid NOT NULL,   -- zeros for the rows without a tenant
	total     bigint NOT NULL, -- rows of the tenant from the first one up to here
	rows      bytea NOT NULL,  -- for each row of the range its id and its hash, so that verification can name a changed row
	chain     bytea NOT NULL CHECK (length(chain) = 32),
	sealed_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (up_to, org_id),
	-- An id has 16 bytes, a hash 32.
	CONSTRAINT audit_seals_contain_whole_rows CHECK (length(rows) > 0 AND length(rows) % 48 = 0),
	CONSTRAINT audit_seals_count_their_rows CHECK (total >= length(rows) / 48)
);
COMMENT ON TABLE audit_seals IS
	'A seal covers the audit rows of one tenant in a range of transactions. Each seal includes the hash of the one '
	'before, so a change of one row requires a change of every later seal. Append-only.';
CREATE INDEX audit_seals_by_tenant ON audit_seals (org_id, up_to);
SELECT scope_rows('audit_seals', 'org_id = (SELECT scope_tenant())');
CREATE TRIGGER audit_seals_append_only BEFORE UPDATE OR DELETE ON audit_seals FOR EACH ROW EXECUTE FUNCTION reject_change();
CREATE TRIGGER audit_seals_not_emptied BEFORE TRUNCATE ON audit_seals FOR EACH STATEMENT EXECUTE FUNCTION reject_change();

-- The function runs as its owner: the changing role may be unable to read the audit row. It finds no row whose
-- savepoint was rolled back. Bitmap scans are off: a transaction of a thousand changes would build a bitmap of all
-- its rows for each change.
-- +goose StatementBegin
CREATE FUNCTION demand_audit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp SET enable_bitmapscan = off AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM public.audit_logs WHERE at = now() AND xid = pg_current_xact_id()) THEN
		RAISE EXCEPTION '% of % needs an audit row in its transaction', TG_OP, TG_TABLE_NAME
			USING ERRCODE = 'restrict_violation', TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME,
				HINT = 'Write an audit row in the transaction of the change.';
	END IF;
	RETURN NULL;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION demand_audit IS
	'Trigger of the tables with privileged changes (..._are_audited). It rejects the commit of a transaction that '
	'wrote no audit row. The triggers name the columns that grant rights; times of use and of sign-in need no audit '
	'row. Superusers are exempt: they could drop the trigger, and the seals show their changes.';
