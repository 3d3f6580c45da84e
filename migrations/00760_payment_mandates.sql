-- +goose Up
-- payment: automatic top-ups. A mandate is the permission of a tenant to charge a stored payment method.

CREATE TABLE payment_mandates (
	id                uuid PRIMARY KEY,
	org_id            uuid NOT NULL,
	principal         uuid NOT NULL, -- who has begun it; then who has confirmed it
	status            text NOT NULL CHECK (status IN ('pending', 'unconfirmed', 'active', 'paused', 'ended')),
	reason            text NOT NULL DEFAULT '', -- of a pause or an end
	customer          text NOT NULL,
	livemode          boolean NOT NULL,
	currency          text NOT NULL,
	provider_session  text UNIQUE, -- the checkout that stores the payment method
	url               text NOT NULL DEFAULT '',
	payment_method    text,
	threshold_minor   bigint NOT NULL DEFAULT 0 CHECK (threshold_minor >= 0),
	amount_minor      bigint NOT NULL DEFAULT 0 CHECK (amount_minor >= 0),
	monthly_cap_minor bigint NOT NULL DEFAULT 0 CHECK (monthly_cap_minor >= 0),
	failures          integer NOT NULL DEFAULT 0, -- declined charges since the last credit
	next_charge_at    timestamptz NOT NULL DEFAULT now(),
	correlation_id    text NOT NULL DEFAULT '',
	version           bigint NOT NULL DEFAULT 1,
	created_at        timestamptz NOT NULL DEFAULT now(),
	updated_at        timestamptz NOT NULL DEFAULT now(),
	confirmed_at      timestamptz,
	CONSTRAINT payment_mandates_charge_what_was_confirmed CHECK (status NOT IN ('active', 'paused')
		OR confirmed_at IS NOT NULL AND payment_method IS NOT NULL AND amount_minor > 0 AND monthly_cap_minor >= amount_minor)
);
COMMENT ON TABLE payment_mandates IS 'Permissions of tenants to charge a stored payment method when the balance is low.';
COMMENT ON CONSTRAINT payment_mandates_charge_what_was_confirmed ON payment_mandates IS
	'A mandate without a payment method or without confirmed amounts charges nothing.';
-- The next mandate of a tenant replaces the confirmed one when it is confirmed itself.
CREATE UNIQUE INDEX payment_mandates_one_confirmed ON payment_mandates (org_id) WHERE status IN ('active', 'paused');
CREATE UNIQUE INDEX payment_mandates_one_begun ON payment_mandates (org_id) WHERE status IN ('pending', 'unconfirmed');
CREATE INDEX payment_mandates_by_tenant ON payment_mandates (org_id, id);
CREATE INDEX payment_mandates_due ON payment_mandates (next_charge_at) WHERE status = 'active';
SELECT scope_rows('payment_mandates', 'org_id = (SELECT scope_tenant())');
CREATE CONSTRAINT TRIGGER payment_mandates_are_audited
	AFTER INSERT OR UPDATE OF status, payment_method, threshold_minor, amount_minor, monthly_cap_minor ON payment_mandates
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();

ALTER TABLE payment_sessions
	ADD COLUMN mandate_id uuid REFERENCES payment_mandates,
	ADD COLUMN charge_month date,
	ADD COLUMN charge_number integer,
	ADD CONSTRAINT payment_sessions_charges_are_numbered
		CHECK ((mandate_id IS NULL) = (charge_month IS NULL) AND (mandate_id IS NULL) = (charge_number IS NULL));
COMMENT ON CONSTRAINT payment_sessions_charges_are_numbered ON payment_sessions IS
	'Tenant, month and number of a charge are its idempotency key at the payment provider.';
CREATE UNIQUE INDEX payment_sessions_one_charge_for_a_number ON payment_sessions (org_id, charge_month, charge_number) WHERE mandate_id IS NOT NULL;
-- A second charge waits for the result of the first one.
CREATE UNIQUE INDEX payment_sessions_one_open_charge ON payment_sessions (org_id)
	WHERE mandate_id IS NOT NULL AND status IN ('initiated', 'checkout_completed');
