-- +goose Up
-- payment, ledger: disputes of payments. The bank of the card withdraws a disputed amount at once. It was in no account
-- before, so a tenant could use credit whose payment was withdrawn.

CREATE TABLE payment_disputes (
	id           text PRIMARY KEY, -- of the provider
	payment      text NOT NULL REFERENCES stripe_payments,
	org_id       uuid NOT NULL,
	amount_minor bigint NOT NULL CHECK (amount_minor > 0),
	currency     text NOT NULL,
	reason       text NOT NULL DEFAULT '', -- in the provider's terms
	stage        text NOT NULL CHECK (stage IN ('inquiry', 'open', 'lost', 'won')),
	-- The part of the amount that could still be refunded. The bank withdraws the whole amount, also of a payment of
	-- which a part was refunded before.
	taken_minor  bigint NOT NULL DEFAULT 0 CHECK (taken_minor BETWEEN 0 AND amount_minor),
	transfer_id  uuid, -- the withdrawal from the balance; null: nothing was withdrawn
	created_at   timestamptz NOT NULL DEFAULT now(),
	stage_at     timestamptz NOT NULL DEFAULT now(),
	version      bigint NOT NULL DEFAULT 1,
	CONSTRAINT payment_disputes_withdraw_once CHECK (stage NOT IN ('open', 'lost') OR transfer_id IS NOT NULL)
);
COMMENT ON TABLE payment_disputes IS 'Payments that the holder of the card disputes at the bank.';
CREATE INDEX payment_disputes_by_time ON payment_disputes (created_at, id);
CREATE INDEX payment_disputes_by_tenant ON payment_disputes (org_id, created_at);
SELECT scope_rows('payment_disputes', 'org_id = (SELECT scope_tenant())');
CREATE CONSTRAINT TRIGGER payment_disputes_are_audited AFTER INSERT OR UPDATE ON payment_disputes
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();

ALTER TABLE ledger_transfers DROP CONSTRAINT ledger_transfers_have_a_kind;
ALTER TABLE ledger_transfers ADD CONSTRAINT ledger_transfers_have_a_kind CHECK (kind IN ('usage', 'test_credit', 'topup', 'adjustment', 'fault_credit',
	'refund_card_unspent', 'refund_card_charge', 'refund_ledger', 'refund_reversed', 'dispute', 'dispute_reversed'));
