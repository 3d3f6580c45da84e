-- +goose Up
-- ledger: the balance of a tenant as a view with one check of the scope. The policies of three tables cost as much as the
-- reading itself.

-- The view reads with the rights of its owner, so it has the condition of the policies in itself. current_user is the
-- role that runs the statement: the API reads in its scope, the other roles read the balances of all tenants. CASE lets
-- PostgreSQL use the index. The sum is numeric until the end, so an overflow is an error.
CREATE VIEW ledger_balances AS
	SELECT a.org_id, (coalesce(c.balance_minor, 0) + coalesce((
			SELECT sum(t.amount_minor) FROM ledger_transfers t
			WHERE t.org_id = a.org_id AND t.seq > CASE WHEN c.up_to IS NULL THEN 0 ELSE c.up_to END), 0))::bigint AS balance_minor, a.currency
	FROM ledger_accounts a LEFT JOIN LATERAL (
		SELECT up_to, balance_minor FROM ledger_checkpoints WHERE account_id = a.id ORDER BY up_to DESC LIMIT 1) c ON true
	WHERE a.name = 'balance' AND (current_user <> 'gpuaas_api' OR (SELECT scope_platform()) OR a.org_id = (SELECT scope_tenant()));
COMMENT ON VIEW ledger_balances IS 'The balances of the tenants that the scope of the transaction covers.';

-- A plan for each call would leave out the partitions of other months, and planning would take longer than the query. The
-- generic plan leaves them out when it starts.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION ledger_require_zero_sum() RETURNS trigger LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN
	IF (SELECT count(*) = 0 OR sum(amount_minor) <> 0 OR min(ledger_entries.currency) <> max(ledger_entries.currency)
			OR NEW.org_id IS NOT NULL AND coalesce(sum(amount_minor) FILTER (WHERE account_id = a.id), 0) <> NEW.amount_minor
		FROM ledger_entries LEFT JOIN ledger_accounts a ON a.org_id = NEW.org_id AND a.name = 'balance' WHERE transfer_id = NEW.id AND at = NEW.at) THEN
		RAISE EXCEPTION 'the entries of transfer % must sum to zero in one currency, and to its amount', NEW.id USING ERRCODE = 'check_violation';
	END IF;
	RETURN NULL;
END $$;
-- +goose StatementEnd
