-- +goose Up
-- ledger: a transfer is one statement. Its plans are small and stored in the session; one statement with all parts took a
-- fifth longer.
-- +goose StatementBegin
CREATE FUNCTION ledger_post(transfer uuid, transfer_kind text, transfer_reference text, transfer_note text, giver_tenant uuid, giver_name text,
	taker_tenant uuid, taker_name text, amount bigint, cur text, allocation uuid, OUT giver uuid, OUT taker uuid, OUT posted boolean) LANGUAGE plpgsql AS $$
DECLARE
	tenant uuid := coalesce(taker_tenant, giver_tenant);
	balance uuid;
BEGIN
	IF tenant IS NOT NULL THEN
		balance := ledger_ensure_accounts(tenant, cur); -- first, because it creates the accounts of the platform, too
	END IF;
	giver := CASE WHEN giver_tenant IS NULL THEN (SELECT id FROM ledger_accounts WHERE org_id IS NULL AND name = giver_name AND currency = cur)
		WHEN giver_name = 'balance' THEN balance END;
	taker := CASE WHEN taker_tenant IS NULL THEN (SELECT id FROM ledger_accounts WHERE org_id IS NULL AND name = taker_name AND currency = cur)
		WHEN taker_name = 'balance' THEN balance END;
	IF giver IS NULL OR taker IS NULL THEN
		RETURN;
	END IF;
	INSERT INTO ledger_transfers (id, kind, reference, note, org_id, amount_minor)
	VALUES (transfer, transfer_kind, transfer_reference, transfer_note, tenant, CASE WHEN giver_tenant IS NULL THEN amount ELSE -amount END)
	ON CONFLICT (kind, reference) DO NOTHING;
	posted := FOUND;
	IF posted THEN
		INSERT INTO ledger_entries (transfer_id, account_id, allocation_id, amount_minor, currency)
		VALUES (transfer, giver, allocation, -amount, cur), (transfer, taker, allocation, amount, cur);
	END IF;
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION ledger_post IS
	'Posts a transfer of a positive amount with its two entries, and creates missing accounts of its tenant. It reports '
	'whether kind and reference were new, and writes nothing if they were not or an account does not exist.';
