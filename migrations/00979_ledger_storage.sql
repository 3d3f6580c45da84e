-- +goose Up
-- ledger: transfers of the kind storage, one for each project and tick with a charge.

ALTER TABLE ledger_transfers DROP CONSTRAINT ledger_transfers_have_a_kind;
ALTER TABLE ledger_transfers ADD CONSTRAINT ledger_transfers_have_a_kind CHECK (kind IN ('usage', 'storage', 'test_credit', 'topup', 'adjustment', 'fault_credit',
	'refund_card_unspent', 'refund_card_charge', 'refund_ledger', 'refund_reversed', 'dispute', 'dispute_reversed'));

-- The trigger leaves out storage as it does usage: one statement writes both sides of each transfer from one amount.
DROP TRIGGER ledger_transfers_sum_to_zero ON ledger_transfers;
CREATE CONSTRAINT TRIGGER ledger_transfers_sum_to_zero AFTER INSERT ON ledger_transfers
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.kind NOT IN ('usage', 'storage')) EXECUTE FUNCTION ledger_require_zero_sum();
