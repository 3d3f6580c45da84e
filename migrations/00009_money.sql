-- +goose Up
-- room: ledger
-- Accounts by what they are for. A tenant has its balance; the rest is the platform's:
-- revenue (what use has earned), clearing (money at the payment provider),
-- promotions (credit that nobody paid for), adjustments (corrections by a person),
-- refunds (what was given back of revenue).
UPDATE ledger_accounts SET name = 'promotions' WHERE name = 'credit';
ALTER TABLE ledger_accounts
	ADD CONSTRAINT ledger_accounts_have_a_purpose CHECK (name IN ('balance', 'revenue', 'clearing', 'promotions', 'adjustments', 'refunds')),
	ADD CONSTRAINT ledger_accounts_have_their_owner CHECK ((name = 'balance') = (org_id IS NOT NULL));
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION ledger_ensure_accounts(tenant uuid, cur text) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
	balance uuid;
BEGIN
	SELECT id INTO balance FROM ledger_accounts WHERE org_id = tenant AND name = 'balance' AND currency = cur;
	IF balance IS NULL THEN
		-- In one order, so that two tenants' first accounts never deadlock.
		INSERT INTO ledger_accounts (org_id, name, currency)
		SELECT NULL, name, cur FROM unnest(ARRAY['adjustments', 'clearing', 'promotions', 'refunds', 'revenue']) AS name
		ON CONFLICT DO NOTHING;
		INSERT INTO ledger_accounts (org_id, name, currency) VALUES (tenant, 'balance', cur) ON CONFLICT DO NOTHING;
		SELECT id INTO balance FROM ledger_accounts WHERE org_id = tenant AND name = 'balance' AND currency = cur;
		IF balance IS NULL THEN
			RAISE EXCEPTION 'tenant % does not keep its balance in %', tenant, cur USING ERRCODE = 'check_violation';
		END IF;
	END IF;
	RETURN balance;
END $$;
-- +goose StatementEnd
-- The accounts that are new, for the currencies that are there.
INSERT INTO ledger_accounts (org_id, name, currency)
SELECT NULL, name, currency FROM (SELECT DISTINCT currency FROM ledger_accounts) c, unnest(ARRAY['adjustments', 'clearing', 'promotions', 'refunds', 'revenue']) AS name
ON CONFLICT DO NOTHING;
-- What a person is told beside the kind: why a correction was made.
ALTER TABLE ledger_transfers ADD note text NOT NULL DEFAULT '' CHECK (length(note) <= 512);
ALTER TABLE ledger_transfers ADD CONSTRAINT ledger_transfers_have_a_kind CHECK (kind IN ('usage', 'test_credit', 'topup', 'adjustment', 'fault_credit',
	'refund_card_unspent', 'refund_card_charge', 'refund_ledger', 'refund_reversed'));
-- A transfer also says what it adds to the one tenant's balance that it is about: a
-- balance is the newest checkpoint and the transfers since, in one narrow index,
-- however many allocations and months there are. The entries say the same once
-- more, and verification holds them against each other. seq is of the same
-- sequence as the entries' ids, so that one number cuts both.
ALTER TABLE ledger_transfers
	ADD seq bigint NOT NULL DEFAULT nextval('ledger_entries_id_seq'),
	ADD org_id uuid, -- null between accounts of the platform
	ADD amount_minor bigint;
DROP TRIGGER ledger_transfers_append_only ON ledger_transfers;
UPDATE ledger_transfers t SET org_id = e.org_id, amount_minor = e.sum FROM (
	SELECT e.transfer_id, a.org_id, sum(e.amount_minor) AS sum FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id
	WHERE a.org_id IS NOT NULL GROUP BY e.transfer_id, a.org_id) e
WHERE e.transfer_id = t.id;
UPDATE ledger_transfers SET amount_minor = 0 WHERE amount_minor IS NULL;
CREATE TRIGGER ledger_transfers_append_only BEFORE UPDATE OR DELETE ON ledger_transfers FOR EACH ROW EXECUTE FUNCTION refuse_change();
ALTER TABLE ledger_transfers ALTER amount_minor SET NOT NULL;
CREATE INDEX ledger_transfers_by_tenant ON ledger_transfers (org_id, seq) INCLUDE (amount_minor) WHERE org_id IS NOT NULL;
ALTER TABLE ledger_checkpoints ADD org_id uuid; -- whose the account is, so that its policy asks no other table
DROP POLICY scope ON ledger_transfers;
DROP POLICY scope ON ledger_checkpoints;
CREATE POLICY scope ON ledger_transfers USING ((SELECT scope_platform()) OR org_id = (SELECT scope_tenant())) WITH CHECK ((SELECT scope_platform()));
CREATE POLICY scope ON ledger_checkpoints USING ((SELECT scope_platform()) OR org_id = (SELECT scope_tenant())) WITH CHECK (false);
-- +goose StatementBegin
-- What is not usage is booked when it is written down, so one partition holds it.
CREATE OR REPLACE FUNCTION ledger_demand_zero() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF (SELECT count(*) = 0 OR sum(amount_minor) <> 0 OR min(ledger_entries.currency) <> max(ledger_entries.currency)
			OR NEW.org_id IS NOT NULL AND coalesce(sum(amount_minor) FILTER (WHERE account_id = a.id), 0) <> NEW.amount_minor
		FROM ledger_entries LEFT JOIN ledger_accounts a ON a.org_id = NEW.org_id AND a.name = 'balance' WHERE transfer_id = NEW.id AND at = NEW.at) THEN
		RAISE EXCEPTION 'the entries of transfer % must sum to zero in one currency, and to what it says', NEW.id USING ERRCODE = 'check_violation';
	END IF;
	RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION ledger_await_postings() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
	LOCK TABLE ledger_transfers, ledger_entries IN SHARE MODE;
END $$;
-- +goose StatementEnd
-- Seals now hold what a transfer says and whose the account is. Those of before
-- would not follow; the next round derives them again from the first entry.
DELETE FROM ledger_checkpoints;
-- Administrators post through the API under the platform's scope; a tenant's own
-- scope reads.
DROP POLICY scope ON ledger_entries;
CREATE POLICY scope ON ledger_entries
	USING ((SELECT scope_platform()) OR account_id = ANY (ARRAY(SELECT a.id FROM ledger_accounts a WHERE a.org_id = (SELECT scope_tenant()))))
	WITH CHECK ((SELECT scope_platform()));
CREATE TRIGGER ledger_checkpoints_append_only BEFORE UPDATE OR DELETE ON ledger_checkpoints FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_checkpoints_not_emptied BEFORE TRUNCATE ON ledger_checkpoints FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_accounts_append_only BEFORE UPDATE OR DELETE ON ledger_accounts FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_accounts_not_emptied BEFORE TRUNCATE ON ledger_accounts FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
-- +goose StatementBegin
-- A correction is somebody's; what follows from a rule is not.
CREATE CONSTRAINT TRIGGER ledger_corrections_are_audited AFTER INSERT ON ledger_transfers DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	WHEN (NEW.kind = 'adjustment' AND current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();
-- +goose StatementEnd

-- room: payment
-- Who a tenant is to the payment provider: somebody else where real money moves.
CREATE TABLE payment_customers (
	org_id     uuid NOT NULL,
	livemode   boolean NOT NULL,
	customer   text NOT NULL UNIQUE,
	created_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (org_id, livemode)
);
-- One checkout each. The id is also the provider's idempotency key and its
-- client_reference_id, so that asking twice opens one.
CREATE TABLE payment_sessions (
	id               uuid PRIMARY KEY,
	org_id           uuid NOT NULL,
	principal        uuid NOT NULL, -- who wants to pay
	amount_minor     bigint NOT NULL CHECK (amount_minor > 0),
	currency         text NOT NULL,
	status           text NOT NULL CHECK (status IN ('initiated', 'checkout_completed', 'credited', 'failed_reconcile', 'expired')),
	reason           text NOT NULL DEFAULT '', -- why it failed or ended
	customer         text NOT NULL DEFAULT '',
	provider_session text UNIQUE,
	payment          text UNIQUE, -- the provider's payment intent
	url              text NOT NULL DEFAULT '',
	livemode         boolean NOT NULL,
	request          bytea, -- hash of the idempotency key, until the session ends
	correlation_id   text NOT NULL DEFAULT '',
	expires_at       timestamptz NOT NULL,
	created_at       timestamptz NOT NULL DEFAULT now(),
	status_at        timestamptz NOT NULL DEFAULT now(),
	checked_at       timestamptz, -- when the provider was last asked about it
	version          bigint NOT NULL DEFAULT 1
);
CREATE INDEX payment_sessions_by_tenant ON payment_sessions (org_id, id);
CREATE INDEX payment_sessions_by_status ON payment_sessions (status, id);
-- A request that is repeated before it was answered goes on with what it began.
CREATE UNIQUE INDEX payment_sessions_one_for_a_request ON payment_sessions (request) WHERE request IS NOT NULL;
-- What the provider has told, as it was told. It is stored before it is believed.
CREATE TABLE stripe_events (
	event_id     text PRIMARY KEY,
	type         text NOT NULL,
	api_version  text NOT NULL DEFAULT '',
	account      text NOT NULL DEFAULT '',
	livemode     boolean NOT NULL,
	object_id    text NOT NULL DEFAULT '', -- of the checkout session, refund or charge that it is about
	body         bytea NOT NULL, -- the signed bytes; of one that the sweep found, as it was listed
	says         jsonb NOT NULL, -- what they say, in our words; empty where it has to be asked
	source       text NOT NULL CHECK (source IN ('webhook', 'sweep')),
	status       text NOT NULL DEFAULT 'stored' CHECK (status IN ('stored', 'processed', 'ignored', 'failed')),
	result       text NOT NULL DEFAULT '',
	created_at   timestamptz NOT NULL, -- the provider's time
	received_at  timestamptz NOT NULL DEFAULT now(),
	processed_at timestamptz
);
CREATE INDEX stripe_events_unprocessed ON stripe_events (received_at) WHERE status = 'stored';
-- How far the provider's own list of events was read.
CREATE TABLE payment_sweeps (
	livemode boolean PRIMARY KEY,
	up_to    timestamptz NOT NULL
);
-- One credit for each payment, and what is left of it to give back.
CREATE TABLE stripe_payments (
	payment        text PRIMARY KEY,
	session_id     uuid NOT NULL UNIQUE REFERENCES payment_sessions,
	org_id         uuid NOT NULL,
	amount_minor   bigint NOT NULL CHECK (amount_minor > 0),
	currency       text NOT NULL,
	transfer_id    uuid NOT NULL,
	credited_at    timestamptz NOT NULL DEFAULT now(),
	refunded_minor bigint NOT NULL DEFAULT 0,
	CONSTRAINT stripe_payments_give_back_no_more_than_paid CHECK (refunded_minor BETWEEN 0 AND amount_minor)
);
CREATE INDEX stripe_payments_by_tenant ON stripe_payments (org_id, credited_at);
CREATE TABLE refund_requests (
	id              uuid PRIMARY KEY,
	org_id          uuid NOT NULL,
	user_id         uuid NOT NULL, -- about whom it was asked
	requested_by    text NOT NULL, -- actor
	kind            text NOT NULL CHECK (kind IN ('unspent', 'charge')), -- what is given back: credit that was not used, or a charge
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
	created_at      timestamptz NOT NULL DEFAULT now(),
	settled_at      timestamptz,
	version         bigint NOT NULL DEFAULT 1,
	CONSTRAINT refund_requests_to_a_card_name_its_payment CHECK ((route = 'card') = (payment IS NOT NULL))
);
CREATE INDEX refund_requests_by_tenant ON refund_requests (org_id, id);
CREATE INDEX refund_requests_open ON refund_requests (created_at) WHERE status = 'requested';
SELECT scope_rows(confined, 'org_id = (SELECT scope_tenant())')
	FROM unnest(ARRAY['payment_customers', 'payment_sessions', 'stripe_payments', 'refund_requests']::regclass[]) AS confined;
-- Nobody has signed in where the provider speaks.
SELECT scope_rows('stripe_events', 'false');

-- room: metering
ALTER TABLE usage_records
	ADD user_id uuid, -- whose allocation it is; null before this migration
	-- Why it begins and ends, and the observation behind that: node, fence, sequence …
	ADD opened_by text NOT NULL DEFAULT 'observed_ready' CHECK (opened_by IN ('observed_ready', 'price_changed', 'observed_again')),
	ADD opened_seen jsonb,
	ADD closed_by text CHECK (closed_by IN ('release_requested', 'price_changed', 'observation_stale', 'node_unhealthy')),
	ADD closed_seen jsonb,
	-- Of one allocation no second is metered twice.
	ADD CONSTRAINT usage_records_do_not_overlap EXCLUDE USING gist (allocation_id WITH =, int8range(start_s, end_s) WITH &&);
UPDATE usage_records r SET user_id = a.user_id FROM allocations a WHERE a.id = r.allocation_id;
UPDATE usage_records SET closed_by = 'release_requested' WHERE end_s IS NOT NULL;
ALTER TABLE usage_records ADD CONSTRAINT usage_records_say_why_they_end CHECK ((end_s IS NULL) = (closed_by IS NULL));
CREATE INDEX usage_records_by_end ON usage_records (end_s) WHERE end_s IS NOT NULL;
CREATE INDEX usage_records_by_tenant_and_end ON usage_records (org_id, end_s);
-- +goose StatementBegin
-- An interval ends once, and is otherwise a fact.
CREATE FUNCTION usage_only_ends() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'UPDATE' AND OLD.end_s IS NULL AND NEW.end_s IS NOT NULL
		AND to_jsonb(NEW) - ARRAY['end_s', 'closed_by', 'closed_seen'] = to_jsonb(OLD) - ARRAY['end_s', 'closed_by', 'closed_seen'] THEN
		RETURN NEW;
	END IF;
	RAISE EXCEPTION 'a usage record can only be ended, once' USING ERRCODE = 'restrict_violation';
END $$;
-- +goose StatementEnd
CREATE TRIGGER usage_records_only_end BEFORE UPDATE OR DELETE ON usage_records FOR EACH ROW EXECUTE FUNCTION usage_only_ends();
CREATE TRIGGER usage_records_not_emptied BEFORE TRUNCATE ON usage_records FOR EACH STATEMENT EXECUTE FUNCTION usage_only_ends();

-- Ticks cut time for everyone, in a transaction of their own; whoever opens or
-- closes an interval afterwards does it at or after the cut. So a tick can be
-- charged at leisure, and again from the first one whenever somebody doubts.
ALTER TABLE usage_ticks ADD after_s bigint REFERENCES usage_ticks (to_s);
UPDATE usage_ticks SET after_s = from_s WHERE from_s <> (SELECT min(from_s) FROM usage_ticks);
ALTER TABLE usage_ticks
	-- Without gap, overlap or fork: each follows the one that it names, and only the first names none.
	ADD CONSTRAINT usage_ticks_follow_one_another UNIQUE NULLS NOT DISTINCT (after_s),
	ADD CONSTRAINT usage_ticks_leave_no_gap CHECK (after_s = from_s);
CREATE TRIGGER usage_ticks_append_only BEFORE UPDATE OR DELETE ON usage_ticks FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER usage_ticks_not_emptied BEFORE TRUNCATE ON usage_ticks FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
-- A tick is charged once, in the transaction of this row.
CREATE TABLE usage_passes (
	to_s bigint PRIMARY KEY REFERENCES usage_ticks,
	at   timestamptz NOT NULL DEFAULT now()
);
INSERT INTO usage_passes (to_s) SELECT to_s FROM usage_ticks;
CREATE TRIGGER usage_passes_append_only BEFORE UPDATE OR DELETE ON usage_passes FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER usage_passes_not_emptied BEFORE TRUNCATE ON usage_passes FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
DROP TABLE usage_changes;
-- Seconds since 1970. A test puts its own time in place of this function, which
-- only its owner can: no setting and no argument moves the clock that money runs by.
CREATE FUNCTION metering_clock() RETURNS bigint LANGUAGE sql VOLATILE
	RETURN floor(extract(epoch FROM clock_timestamp()))::bigint;
-- metering_now never lies before the last cut, also when the clock went back.
CREATE FUNCTION metering_now() RETURNS bigint LANGUAGE sql STABLE
	RETURN greatest(metering_clock(), (SELECT to_s FROM usage_ticks ORDER BY to_s DESC LIMIT 1));
-- +goose StatementBegin
-- metering_moment is when an interval that changes now changes. The lock is held to
-- the end of the caller's transaction: a cut waits for it, and so finds committed
-- what lies before it. The cut is read under the lock, whatever the caller's
-- statement could see when it began.
CREATE FUNCTION metering_moment() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	PERFORM pg_advisory_xact_lock_shared(hashtextextended('metering.cut', 0));
	RETURN greatest(metering_clock(), (SELECT to_s FROM usage_ticks ORDER BY to_s DESC LIMIT 1));
END $$;
-- +goose StatementEnd
-- Metered time that the tenant does not pay, because the platform was at fault.
CREATE TABLE usage_credits (
	id           uuid PRIMARY KEY,
	record_id    uuid NOT NULL REFERENCES usage_records,
	org_id       uuid NOT NULL,
	from_s       bigint NOT NULL,
	to_s         bigint NOT NULL CHECK (to_s > from_s),
	reason       text NOT NULL CHECK (reason IN ('observation_stale', 'node_unhealthy')),
	amount_minor bigint NOT NULL CHECK (amount_minor >= 0),
	transfer_id  uuid, -- null where it came to nothing
	at           timestamptz NOT NULL DEFAULT now(),
	CONSTRAINT usage_credits_do_not_overlap EXCLUDE USING gist (record_id WITH =, int8range(from_s, to_s) WITH &&),
	CONSTRAINT usage_credits_are_paid CHECK ((amount_minor > 0) = (transfer_id IS NOT NULL))
);
CREATE INDEX usage_credits_by_tenant ON usage_credits (org_id, at);
SELECT scope_rows('usage_credits', 'org_id = (SELECT scope_tenant())');
CREATE TRIGGER usage_credits_append_only BEFORE UPDATE OR DELETE ON usage_credits FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER usage_credits_not_emptied BEFORE TRUNCATE ON usage_credits FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- room: allocation
-- Why nothing is charged for it though it is active: nobody can vouch for its node.
ALTER TABLE allocations ADD paused text NOT NULL DEFAULT '' CHECK (paused IN ('', 'observation_stale', 'node_unhealthy')),
	ADD CONSTRAINT allocations_paused_are_active CHECK (paused = '' OR status = 'active');
CREATE INDEX allocations_paused ON allocations (id) WHERE paused <> '';

-- room: billing
-- What a tenant has been told about its money, so that it is told once.
CREATE TABLE balance_notices (
	org_id      uuid PRIMARY KEY,
	low_since   timestamptz, -- the crossing; null while the balance is above the threshold
	low_told_at timestamptz,
	pending_since timestamptz, -- release for lack of money is announced
	releases_at timestamptz,
	depleted_at timestamptz, -- everything active was released
	sequence    bigint NOT NULL DEFAULT 0, -- of the facts about this tenant's money
	CONSTRAINT balance_notices_announce_with_a_deadline CHECK ((pending_since IS NULL) = (releases_at IS NULL))
);
SELECT scope_rows('balance_notices', 'org_id = (SELECT scope_tenant())');

-- +goose StatementBegin
DO $$
DECLARE
	tab text;
BEGIN
	FOREACH tab IN ARRAY ARRAY['payment_sessions', 'refund_requests'] LOOP
		EXECUTE format('CREATE CONSTRAINT TRIGGER %I AFTER INSERT ON %I DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
			WHEN (current_setting(''is_superuser'') <> ''on'') EXECUTE FUNCTION demand_audit()', tab || '_are_audited', tab);
	END LOOP;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- make_partitions also makes the months between the newest one and this one: what
-- was used while no server ran is booked in the months in which it was used.
CREATE OR REPLACE FUNCTION make_partitions(n int) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
	parent text;
	month  date;
	last   date := date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => n);
BEGIN
	PERFORM pg_advisory_xact_lock(hashtext('make_partitions'));
	FOREACH parent IN ARRAY ARRAY['audit_logs', 'outbox_events', 'ledger_entries'] LOOP
		SELECT coalesce(max(to_date(right(inhrelid::regclass::text, 6), 'YYYYMM')), last) INTO month
		FROM pg_inherits WHERE inhparent = parent::regclass AND inhrelid::regclass::text ~ '_[0-9]{6}$';
		month := least(month, date_trunc('month', now() AT TIME ZONE 'UTC')::date);
		WHILE month <= last LOOP
			IF to_regclass(format('%s_%s', parent, to_char(month, 'YYYYMM'))) IS NULL THEN
				EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)',
					format('%s_%s', parent, to_char(month, 'YYYYMM')), parent,
					month::timestamp AT TIME ZONE 'UTC', (month + interval '1 month')::timestamp AT TIME ZONE 'UTC');
				-- Those for rows come with the parent, this one does not.
				EXECUTE format('CREATE TRIGGER not_emptied BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()',
					format('%s_%s', parent, to_char(month, 'YYYYMM')));
			END IF;
			month := month + interval '1 month';
		END LOOP;
	END LOOP;
END $$;
DO $$
DECLARE
	month regclass;
BEGIN
	FOR month IN SELECT inhrelid FROM pg_inherits WHERE inhparent = ANY (ARRAY['audit_logs', 'outbox_events', 'ledger_entries']::regclass[]) LOOP
		EXECUTE format('CREATE TRIGGER not_emptied BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', month);
	END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $$
DECLARE
	month regclass;
BEGIN
	FOR month IN SELECT inhrelid FROM pg_inherits WHERE inhparent = ANY (ARRAY['audit_logs', 'outbox_events', 'ledger_entries']::regclass[]) LOOP
		EXECUTE format('DROP TRIGGER not_emptied ON %s', month);
	END LOOP;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION make_partitions(n int) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
	parent text;
	first  date;
BEGIN
	PERFORM pg_advisory_xact_lock(hashtext('make_partitions'));
	FOREACH parent IN ARRAY ARRAY['audit_logs', 'outbox_events', 'ledger_entries'] LOOP
		FOR i IN 0..n LOOP
			first := date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => i);
			IF to_regclass(format('%s_%s', parent, to_char(first, 'YYYYMM'))) IS NULL THEN
				EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)',
					format('%s_%s', parent, to_char(first, 'YYYYMM')), parent,
					first::timestamp AT TIME ZONE 'UTC', (first + interval '1 month')::timestamp AT TIME ZONE 'UTC');
			END IF;
		END LOOP;
	END LOOP;
END $$;
-- +goose StatementEnd
DROP TABLE balance_notices, usage_credits, usage_passes, refund_requests, stripe_payments, payment_sweeps, stripe_events, payment_sessions, payment_customers;
DROP FUNCTION metering_moment, metering_now, metering_clock;
CREATE TABLE usage_changes (
	record_id uuid NOT NULL REFERENCES usage_records,
	change    text NOT NULL CHECK (change IN ('opened', 'closed')),
	PRIMARY KEY (record_id, change)
);
SELECT scope_rows('usage_changes', 'EXISTS (SELECT FROM usage_records r WHERE r.id = record_id)');
DROP TRIGGER usage_ticks_append_only ON usage_ticks;
DROP TRIGGER usage_ticks_not_emptied ON usage_ticks;
ALTER TABLE usage_ticks DROP COLUMN after_s CASCADE;
DROP TRIGGER usage_records_only_end ON usage_records;
DROP TRIGGER usage_records_not_emptied ON usage_records;
DROP FUNCTION usage_only_ends;
DROP INDEX usage_records_by_end, usage_records_by_tenant_and_end;
ALTER TABLE allocations DROP COLUMN paused;
ALTER TABLE usage_records DROP CONSTRAINT usage_records_do_not_overlap, DROP COLUMN user_id, DROP COLUMN opened_by, DROP COLUMN opened_seen,
	DROP COLUMN closed_by, DROP COLUMN closed_seen;
DROP TRIGGER ledger_corrections_are_audited ON ledger_transfers;
DROP TRIGGER ledger_checkpoints_append_only ON ledger_checkpoints;
DROP TRIGGER ledger_checkpoints_not_emptied ON ledger_checkpoints;
DROP TRIGGER ledger_accounts_append_only ON ledger_accounts;
DROP TRIGGER ledger_accounts_not_emptied ON ledger_accounts;
DROP POLICY scope ON ledger_entries;
CREATE POLICY scope ON ledger_entries USING ((SELECT scope_platform()) OR account_id = ANY (ARRAY(SELECT a.id FROM ledger_accounts a WHERE a.org_id = (SELECT scope_tenant()))));
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION ledger_demand_zero() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF (SELECT coalesce(bool_or(sum <> 0), true) FROM (
		SELECT sum(amount_minor) FROM ledger_entries WHERE transfer_id = NEW.id GROUP BY currency) x) THEN
		RAISE EXCEPTION 'the entries of transfer % must sum to zero', NEW.id USING ERRCODE = 'check_violation';
	END IF;
	RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION ledger_await_postings() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
	LOCK TABLE ledger_entries IN SHARE MODE;
END $$;
-- +goose StatementEnd
DROP POLICY scope ON ledger_transfers;
CREATE POLICY scope ON ledger_transfers
	USING ((SELECT scope_platform()) OR EXISTS (SELECT FROM ledger_entries e WHERE e.transfer_id = ledger_transfers.id)) WITH CHECK ((SELECT scope_platform()) OR false);
ALTER TABLE ledger_transfers DROP CONSTRAINT ledger_transfers_have_a_kind, DROP COLUMN note, DROP COLUMN seq, DROP COLUMN org_id, DROP COLUMN amount_minor;
DROP POLICY scope ON ledger_checkpoints;
CREATE POLICY scope ON ledger_checkpoints USING ((SELECT scope_platform()) OR account_id = ANY (ARRAY(SELECT a.id FROM ledger_accounts a WHERE a.org_id = (SELECT scope_tenant()))));
ALTER TABLE ledger_checkpoints DROP COLUMN org_id;
ALTER TABLE ledger_accounts DROP CONSTRAINT ledger_accounts_have_a_purpose, DROP CONSTRAINT ledger_accounts_have_their_owner;
UPDATE ledger_accounts SET name = 'credit' WHERE name = 'promotions';
