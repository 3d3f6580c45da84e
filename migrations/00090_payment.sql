-- +goose Up
-- payment: top-ups through the payment provider (Stripe), and refunds.

CREATE TABLE payment_customers (
	org_id     uuid NOT NULL,
	livemode   boolean NOT NULL, -- a tenant has one customer for test payments and another one for real payments
	customer   text NOT NULL UNIQUE,
	created_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (org_id, livemode)
);
COMMENT ON TABLE payment_customers IS 'The customer id of a tenant at the payment provider.';
SELECT scope_rows('payment_customers', 'org_id = (SELECT scope_tenant())');

CREATE TABLE payment_sessions (
	id               uuid PRIMARY KEY, -- also the idempotency key and client_reference_id at the provider: a repeated call opens no second session
	org_id           uuid NOT NULL,
	principal        uuid NOT NULL,
	amount_minor     bigint NOT NULL CHECK (amount_minor > 0),
	currency         text NOT NULL,
	status           text NOT NULL CHECK (status IN ('initiated', 'checkout_completed', 'credited', 'failed_reconcile', 'expired')),
	reason           text NOT NULL DEFAULT '', -- of a failure or an expiry
	customer         text NOT NULL DEFAULT '',
	provider_session text UNIQUE,
	payment          text UNIQUE, -- payment intent of the provider
	url              text NOT NULL DEFAULT '',
	livemode         boolean NOT NULL,
	request_hash     bytea, -- hash of the idempotency key, until the session ends
	correlation_id   text NOT NULL DEFAULT '',
	version          bigint NOT NULL DEFAULT 1,
	created_at       timestamptz NOT NULL DEFAULT now(),
	status_at        timestamptz NOT NULL DEFAULT now(),
	expires_at       timestamptz NOT NULL,
	checked_at       timestamptz -- when the session was last compared with the provider
);
COMMENT ON TABLE payment_sessions IS 'Top-ups, one checkout session each.';
CREATE INDEX payment_sessions_by_tenant ON payment_sessions (org_id, id);
CREATE INDEX payment_sessions_by_status ON payment_sessions (status, id);
-- A request that is repeated before its response continues the session that it began.
CREATE UNIQUE INDEX payment_sessions_one_for_a_request ON payment_sessions (request_hash) WHERE request_hash IS NOT NULL;
SELECT scope_rows('payment_sessions', 'org_id = (SELECT scope_tenant())');
CREATE CONSTRAINT TRIGGER payment_sessions_are_audited AFTER INSERT ON payment_sessions
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();

CREATE TABLE stripe_events (
	event_id     text PRIMARY KEY,
	type         text NOT NULL,
	api_version  text NOT NULL DEFAULT '',
	account      text NOT NULL DEFAULT '',
	livemode     boolean NOT NULL,
	object_id    text NOT NULL DEFAULT '', -- the checkout session, refund or charge
	body         bytea NOT NULL, -- the signed bytes of a webhook; of an event that the sweep found, the listed bytes
	payload      jsonb NOT NULL, -- the event in our terms; empty if the worker must query the provider
	source       text NOT NULL CHECK (source IN ('webhook', 'sweep')),
	status       text NOT NULL DEFAULT 'stored' CHECK (status IN ('stored', 'processed', 'ignored', 'failed')),
	result       text NOT NULL DEFAULT '',
	created_at   timestamptz NOT NULL, -- by the clock of the provider
	received_at  timestamptz NOT NULL DEFAULT now(),
	processed_at timestamptz
);
COMMENT ON TABLE stripe_events IS 'Webhooks of the payment provider. The API stores them, and a worker interprets them.';
CREATE INDEX stripe_events_unprocessed ON stripe_events (received_at) WHERE status = 'stored';
-- A webhook has no caller. Only the scope of the platform sees events.
SELECT scope_rows('stripe_events', 'false');

CREATE TABLE payment_sweeps (
	livemode boolean PRIMARY KEY,
	up_to    timestamptz NOT NULL
);
COMMENT ON TABLE payment_sweeps IS 'The time up to which the event list of the provider was read.';

CREATE TABLE stripe_payments (
	payment        text PRIMARY KEY,
	session_id     uuid NOT NULL UNIQUE REFERENCES payment_sessions,
	org_id         uuid NOT NULL,
	amount_minor   bigint NOT NULL CHECK (amount_minor > 0),
	currency       text NOT NULL,
	transfer_id    uuid NOT NULL,
	credited_at    timestamptz NOT NULL DEFAULT now(),
	refunded_minor bigint NOT NULL DEFAULT 0,
	CONSTRAINT stripe_payments_refunded_at_most_paid CHECK (refunded_minor BETWEEN 0 AND amount_minor)
);
COMMENT ON TABLE stripe_payments IS 'Credited payments, once each, and the refunded part of each.';
CREATE INDEX stripe_payments_by_tenant ON stripe_payments (org_id, credited_at);
SELECT scope_rows('stripe_payments', 'org_id = (SELECT scope_tenant())');

CREATE TABLE refund_requests (
	id              uuid PRIMARY KEY,
	org_id          uuid NOT NULL,
	user_id         uuid NOT NULL, -- the user whom the refund concerns
	requested_by    text NOT NULL, -- actor
	kind            text NOT NULL CHECK (kind IN ('unspent', 'charge')), -- unspent: unused credit; charge: a charge for use
	route           text NOT NULL CHECK (route IN ('card', 'ledger')),
	payment         text REFERENCES stripe_payments,
	amount_minor    bigint NOT NULL CHECK (amount_minor > 0),
	currency        text NOT NULL,
	reason          text NOT NULL,
	correlation_id  text NOT NULL DEFAULT '',
	status          text NOT NULL CHECK (status IN ('requested', 'succeeded', 'failed')),
	failure         text NOT NULL DEFAULT '',
	provider_refund text UNIQUE,
	transfer_id     uuid NOT NULL,
	version         bigint NOT NULL DEFAULT 1,
	created_at      timestamptz NOT NULL DEFAULT now(),
	settled_at      timestamptz,
	CONSTRAINT refund_requests_to_a_card_name_its_payment CHECK ((route = 'card') = (payment IS NOT NULL))
);
COMMENT ON TABLE refund_requests IS 'Refunds: to a card through the provider, or to the balance in the ledger.';
CREATE INDEX refund_requests_by_tenant ON refund_requests (org_id, id);
CREATE INDEX refund_requests_open ON refund_requests (created_at) WHERE status = 'requested';
SELECT scope_rows('refund_requests', 'org_id = (SELECT scope_tenant())');
CREATE CONSTRAINT TRIGGER refund_requests_are_audited AFTER INSERT ON refund_requests
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();
