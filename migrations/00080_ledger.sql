-- +goose Up
-- ledger: accounts, transfers and entries in double-entry form, and seals over them.

CREATE TABLE ledger_accounts (
	id       uuid PRIMARY KEY DEFAULT gen_random_uuid(),
	org_id   uuid, -- null: an account of the platform
	-- balance: of a tenant. Of the platform: revenue (earned by use), clearing (money at the payment provider),
	-- promotions (credit without a payment), adjustments (corrections by an operator), refunds (returned revenue).
	name     text NOT NULL,
	currency text NOT NULL,
	UNIQUE NULLS NOT DISTINCT (org_id, name, currency),
	CONSTRAINT ledger_accounts_have_a_purpose CHECK (name IN ('balance', 'revenue', 'clearing', 'promotions', 'adjustments', 'refunds')),
	CONSTRAINT ledger_accounts_have_their_owner CHECK ((name = 'balance') = (org_id IS NOT NULL))
);
COMMENT ON TABLE ledger_accounts IS
	'Accounts: the balance of each tenant, and those of the platform for each currency. Append-only.';
-- Two balances of a tenant in different currencies could not be summed.
CREATE UNIQUE INDEX ledger_accounts_one_balance ON ledger_accounts (org_id) WHERE name = 'balance';
SELECT scope_rows('ledger_accounts', 'org_id = (SELECT scope_tenant())');
CREATE TRIGGER ledger_accounts_append_only BEFORE UPDATE OR DELETE ON ledger_accounts FOR EACH ROW EXECUTE FUNCTION reject_change();
CREATE TRIGGER ledger_accounts_not_emptied BEFORE TRUNCATE ON ledger_accounts FOR EACH STATEMENT EXECUTE FUNCTION reject_change();

-- +goose StatementBegin
CREATE FUNCTION ledger_ensure_accounts(tenant uuid, cur text) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
	balance uuid;
BEGIN
	SELECT id INTO balance FROM ledger_accounts WHERE org_id = tenant AND name = 'balance' AND currency = cur;
	IF balance IS NULL THEN
		-- In one order: the first transfers of two tenants would otherwise deadlock.
		INSERT INTO ledger_accounts (org_id, name, currency)
		SELECT NULL, name, cur FROM unnest(ARRAY['adjustments', 'clearing', 'promotions', 'refunds', 'revenue']) AS name
		ON CONFLICT DO NOTHING;
		INSERT INTO ledger_accounts (org_id, name, currency) VALUES (tenant, 'balance', cur) ON CONFLICT DO NOTHING;
		SELECT id INTO balance FROM ledger_accounts WHERE org_id = tenant AND name = 'balance' AND currency = cur;
		IF balance IS NULL THEN
			RAISE EXCEPTION 'the balance of tenant % is not in %', tenant, cur USING ERRCODE = 'check_violation';
		END IF;
	END IF;
	RETURN balance;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION ledger_ensure_accounts IS
	'Returns the balance account of a tenant for other packages. It creates that account and those of the platform '
	'in the same currency if they are missing. It rejects a tenant whose balance is in another currency.';

CREATE TABLE ledger_entries (
	id            bigint GENERATED ALWAYS AS IDENTITY,
	transfer_id   uuid NOT NULL,
	account_id    uuid NOT NULL,
	allocation_id uuid,
	amount_minor  bigint NOT NULL, -- the entries of a transfer sum to zero
	currency      text NOT NULL,
	at            timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (id, at)
) PARTITION BY RANGE (at);
COMMENT ON TABLE ledger_entries IS 'The two or more sides of each transfer. Append-only, one partition for each month.';
CREATE INDEX ledger_entries_by_account ON ledger_entries (account_id, id);
CREATE INDEX ledger_entries_by_transfer ON ledger_entries (transfer_id);
-- PostgreSQL reads the accounts of the tenant once for a statement. A balance sums a thousand entries; a look-up for
-- each would cost more than the sum. Only the platform writes entries, also when a tenant requests the change.
ALTER TABLE ledger_entries ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger_entries FORCE ROW LEVEL SECURITY;
CREATE POLICY scope ON ledger_entries
	USING ((SELECT scope_platform()) OR account_id = ANY (ARRAY(SELECT a.id FROM ledger_accounts a WHERE a.org_id = (SELECT scope_tenant()))))
	WITH CHECK ((SELECT scope_platform()));
CREATE POLICY all_tenants ON ledger_entries TO gpuaas_node, gpuaas_reconcile, gpuaas_work, gpuaas_relay, CURRENT_USER
	USING (true) WITH CHECK (true);
CREATE TRIGGER ledger_entries_append_only BEFORE UPDATE OR DELETE ON ledger_entries FOR EACH ROW EXECUTE FUNCTION reject_change();
CREATE TRIGGER ledger_entries_not_emptied BEFORE TRUNCATE ON ledger_entries FOR EACH STATEMENT EXECUTE FUNCTION reject_change();

CREATE TABLE ledger_transfers (
	id           uuid PRIMARY KEY,
	kind         text NOT NULL,
	reference    text NOT NULL,
	org_id       uuid,            -- null: a transfer between accounts of the platform
	-- The amount that the transfer adds to the balance of the tenant. A balance is the newest checkpoint plus the
	-- transfers since then, read from one narrow index, whatever the number of allocations and months. The entries
	-- contain the same amount, and verification compares both.
	amount_minor bigint NOT NULL,
	seq          bigint NOT NULL DEFAULT nextval('ledger_entries_id_seq'), -- one sequence with the ids of the entries: one number seals both
	note         text NOT NULL DEFAULT '' CHECK (length(note) <= 512), -- the reason of a correction, displayed next to the kind
	at           timestamptz NOT NULL DEFAULT now(),
	UNIQUE (kind, reference),
	CONSTRAINT ledger_transfers_have_a_kind CHECK (kind IN ('usage', 'test_credit', 'topup', 'adjustment', 'fault_credit',
		'refund_card_unspent', 'refund_card_charge', 'refund_ledger', 'refund_reversed'))
);
COMMENT ON TABLE ledger_transfers IS 'Movements of money. Kind and reference exist once, so a repeated transfer is ignored. Append-only.';
CREATE INDEX ledger_transfers_by_tenant ON ledger_transfers (org_id, seq) INCLUDE (amount_minor) WHERE org_id IS NOT NULL;
-- Admins post through the API in the scope of the platform. The scope of a tenant only reads.
ALTER TABLE ledger_transfers ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger_transfers FORCE ROW LEVEL SECURITY;
CREATE POLICY scope ON ledger_transfers
	USING ((SELECT scope_platform()) OR org_id = (SELECT scope_tenant())) WITH CHECK ((SELECT scope_platform()));
CREATE POLICY all_tenants ON ledger_transfers TO gpuaas_node, gpuaas_reconcile, gpuaas_work, gpuaas_relay, CURRENT_USER
	USING (true) WITH CHECK (true);
CREATE TRIGGER ledger_transfers_append_only BEFORE UPDATE OR DELETE ON ledger_transfers FOR EACH ROW EXECUTE FUNCTION reject_change();
CREATE TRIGGER ledger_transfers_not_emptied BEFORE TRUNCATE ON ledger_transfers FOR EACH STATEMENT EXECUTE FUNCTION reject_change();
-- An operator makes an adjustment. Transfers of the other kinds follow from rules and need no audit row.
CREATE CONSTRAINT TRIGGER ledger_corrections_are_audited AFTER INSERT ON ledger_transfers
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.kind = 'adjustment' AND current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();

-- A transfer and its entries are written in one transaction and have the same time, so the function reads one
-- partition.
-- +goose StatementBegin
CREATE FUNCTION ledger_require_zero_sum() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF (SELECT count(*) = 0 OR sum(amount_minor) <> 0 OR min(ledger_entries.currency) <> max(ledger_entries.currency)
			OR NEW.org_id IS NOT NULL AND coalesce(sum(amount_minor) FILTER (WHERE account_id = a.id), 0) <> NEW.amount_minor
		FROM ledger_entries LEFT JOIN ledger_accounts a ON a.org_id = NEW.org_id AND a.name = 'balance' WHERE transfer_id = NEW.id AND at = NEW.at) THEN
		RAISE EXCEPTION 'the entries of transfer % must sum to zero in one currency, and to its amount', NEW.id USING ERRCODE = 'check_violation';
	END IF;
	RETURN NULL;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION ledger_require_zero_sum IS
	'Rejects a transfer whose entries are missing, do not sum to zero in one currency, or do not add its amount to '
	'the balance of its tenant.';
-- The trigger runs at commit, so the entries may come in any order. It leaves out usage: reading a million fresh
-- entries again made a tick a quarter longer. One statement writes both sides of a usage transfer from one sum, and
-- verification computes it again.
CREATE CONSTRAINT TRIGGER ledger_transfers_sum_to_zero AFTER INSERT ON ledger_transfers
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.kind <> 'usage') EXECUTE FUNCTION ledger_require_zero_sum();

CREATE TABLE ledger_checkpoints (
	account_id    uuid NOT NULL REFERENCES ledger_accounts,
	org_id        uuid, -- of the account, so that the policy reads no other table
	up_to         bigint NOT NULL, -- the highest entry id in the sum
	balance_minor bigint NOT NULL,
	-- Hash over the entries since the checkpoint before, and over its chain. A later change of an entry is found,
	-- even if the sums stay the same.
	chain         bytea NOT NULL,
	sealed_at     timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (account_id, up_to)
);
COMMENT ON TABLE ledger_checkpoints IS 'Sealed balances of accounts. Append-only.';
-- Only the workers write checkpoints; the API does not, in any scope.
ALTER TABLE ledger_checkpoints ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger_checkpoints FORCE ROW LEVEL SECURITY;
CREATE POLICY scope ON ledger_checkpoints
	USING ((SELECT scope_platform()) OR org_id = (SELECT scope_tenant())) WITH CHECK (false);
CREATE POLICY all_tenants ON ledger_checkpoints TO gpuaas_node, gpuaas_reconcile, gpuaas_work, gpuaas_relay, CURRENT_USER
	USING (true) WITH CHECK (true);
CREATE TRIGGER ledger_checkpoints_append_only BEFORE UPDATE OR DELETE ON ledger_checkpoints FOR EACH ROW EXECUTE FUNCTION reject_change();
CREATE TRIGGER ledger_checkpoints_not_emptied BEFORE TRUNCATE ON ledger_checkpoints FOR EACH STATEMENT EXECUTE FUNCTION reject_change();

-- An aggregate over rows and not over one text: the text of many entries would exceed the size limit of a value.
CREATE FUNCTION ledger_link(chain bytea, entry text) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT sha256(chain || convert_to(entry, 'UTF8'))
$$;
COMMENT ON FUNCTION ledger_link IS 'Adds one entry to the hash of a checkpoint.';
CREATE AGGREGATE ledger_chain(text) (sfunc = ledger_link, stype = bytea, initcond = '');
COMMENT ON AGGREGATE ledger_chain(text) IS 'Returns the hash of a checkpoint over its entries.';

-- The lock needs the right to change entries, which no role has. The function runs as its owner.
-- +goose StatementBegin
CREATE FUNCTION ledger_await_transfers() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
	LOCK TABLE ledger_transfers, ledger_entries IN SHARE MODE;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION ledger_await_transfers IS
	'Waits until all open transactions with transfers have ended, and blocks new ones until the transaction of the '
	'caller ends.';
