-- +goose Up
-- room: audit
CREATE TABLE audit_logs (
	id             uuid NOT NULL,
	at             timestamptz NOT NULL DEFAULT now(),
	org_id         uuid,
	actor          text NOT NULL, -- user:<id>, system:<role>, node:<id>
	action         text NOT NULL,
	target_urn     text NOT NULL,
	correlation_id text NOT NULL DEFAULT '',
	before         jsonb,
	after          jsonb,
	PRIMARY KEY (id, at)
) PARTITION BY RANGE (at);
CREATE INDEX audit_logs_by_target ON audit_logs (target_urn, at);

-- room: event
CREATE TABLE outbox_events (
	seq            bigint GENERATED ALWAYS AS IDENTITY,
	-- Readers stay below the oldest running transaction, so that none that
	-- commits late with a lower position is ever skipped.
	xid            xid8 NOT NULL DEFAULT pg_current_xact_id(),
	event_id       uuid NOT NULL,
	stream         text NOT NULL CHECK (stream IN ('PROVISIONING', 'BILLING', 'PAYMENTS')),
	subject        text NOT NULL,
	aggregate      text NOT NULL, -- allocation:<id>
	sequence       bigint NOT NULL, -- rises within the aggregate
	org_id         uuid,
	project_id     uuid,
	correlation_id text NOT NULL DEFAULT '',
	trace          text NOT NULL DEFAULT '', -- traceparent
	payload        jsonb NOT NULL,
	occurred_at    timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (seq, occurred_at),
	CONSTRAINT outbox_events_stream_takes_subject CHECK (subject LIKE lower(stream) || '.%')
) PARTITION BY RANGE (occurred_at);
CREATE INDEX outbox_events_by_position ON outbox_events (stream, xid, seq);
CREATE INDEX outbox_events_by_tenant ON outbox_events (org_id, xid, seq);
CREATE INDEX outbox_events_by_id ON outbox_events (event_id);
CREATE TABLE outbox_position (
	stream text PRIMARY KEY,
	epoch  text NOT NULL, -- of the JetStream stream; another one means it was lost and is filled anew
	xid    xid8 NOT NULL,
	seq    bigint NOT NULL,
	acked  bigint NOT NULL DEFAULT 0, -- the stream's own last sequence; a stream that ends lower has lost its tail
	moved_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE outbox_failures (
	event_id          uuid PRIMARY KEY,
	stream            text NOT NULL,
	retry_count       int NOT NULL,
	last_error        text NOT NULL,
	last_attempted_at timestamptz NOT NULL DEFAULT now(),
	dead_at           timestamptz
);
CREATE TABLE inbox (
	consumer text NOT NULL,
	event_id uuid NOT NULL,
	at       timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (consumer, event_id)
);

-- room: ledger
CREATE TABLE ledger_accounts (
	id       uuid PRIMARY KEY DEFAULT gen_random_uuid(),
	org_id   uuid, -- null for the platform's own
	name     text NOT NULL, -- balance | revenue | credit
	currency text NOT NULL,
	UNIQUE NULLS NOT DISTINCT (org_id, name, currency)
);
-- A balance in two currencies would be two balances.
CREATE UNIQUE INDEX ledger_accounts_one_balance ON ledger_accounts (org_id) WHERE name = 'balance';
-- +goose StatementBegin
-- ledger_ensure_accounts is how rooms learn a tenant's balance account. It makes
-- it, and the platform's own of that currency, where they are missing. A tenant
-- that has its balance in another currency is refused.
CREATE FUNCTION ledger_ensure_accounts(tenant uuid, cur text) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
	balance uuid;
BEGIN
	SELECT id INTO balance FROM ledger_accounts WHERE org_id = tenant AND name = 'balance' AND currency = cur;
	IF balance IS NULL THEN
		-- In one order, so that two tenants' first accounts never deadlock.
		INSERT INTO ledger_accounts (org_id, name, currency)
		VALUES (NULL, 'credit', cur), (NULL, 'revenue', cur), (tenant, 'balance', cur)
		ON CONFLICT DO NOTHING;
		SELECT id INTO balance FROM ledger_accounts WHERE org_id = tenant AND name = 'balance' AND currency = cur;
		IF balance IS NULL THEN
			RAISE EXCEPTION 'tenant % does not keep its balance in %', tenant, cur USING ERRCODE = 'check_violation';
		END IF;
	END IF;
	RETURN balance;
END $$;
-- +goose StatementEnd
CREATE TABLE ledger_transfers (
	id        uuid PRIMARY KEY,
	kind      text NOT NULL, -- usage | test_credit | correction ...
	reference text NOT NULL,
	at        timestamptz NOT NULL DEFAULT now(),
	UNIQUE (kind, reference)
);
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
CREATE INDEX ledger_entries_by_account ON ledger_entries (account_id, id);
CREATE INDEX ledger_entries_by_transfer ON ledger_entries (transfer_id);
-- +goose StatementBegin
CREATE FUNCTION ledger_demand_zero() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF (SELECT coalesce(bool_or(sum <> 0), true) FROM (
		SELECT sum(amount_minor) FROM ledger_entries WHERE transfer_id = NEW.id GROUP BY currency) x) THEN
		RAISE EXCEPTION 'the entries of transfer % must sum to zero', NEW.id USING ERRCODE = 'check_violation';
	END IF;
	RETURN NULL;
END $$;
-- +goose StatementEnd
-- At commit, so that the entries may come in any order. Not for usage: reading a
-- million fresh entries again made a pass a quarter longer. There one statement
-- writes both sides from one sum, and Verify derives it again.
CREATE CONSTRAINT TRIGGER ledger_transfers_sum_to_zero AFTER INSERT ON ledger_transfers
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.kind <> 'usage') EXECUTE FUNCTION ledger_demand_zero();
-- Row by row, because the text of a long tail would not fit into one value.
CREATE FUNCTION ledger_link(chain bytea, entry text) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT sha256(chain || convert_to(entry, 'UTF8'))
$$;
CREATE AGGREGATE ledger_chain(text) (sfunc = ledger_link, stype = bytea, initcond = '');
CREATE TABLE ledger_checkpoints (
	account_id    uuid NOT NULL REFERENCES ledger_accounts,
	up_to         bigint NOT NULL, -- the highest entry id that is summed up
	balance_minor bigint NOT NULL,
	-- Over the entries since the checkpoint before, and over its chain: what is
	-- changed behind a seal shows, even where sums stay the same.
	chain         bytea NOT NULL,
	sealed_at     timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (account_id, up_to)
);

-- room: metering
CREATE TABLE usage_records (
	id            uuid PRIMARY KEY,
	allocation_id uuid NOT NULL,
	org_id        uuid NOT NULL,
	project_id    uuid NOT NULL,
	sku           text NOT NULL,
	-- The bounds keep what is due within 63 bits for a century.
	gpus          bigint NOT NULL CHECK (gpus BETWEEN 1 AND 100000),
	price_minor   bigint NOT NULL CHECK (price_minor BETWEEN 0 AND 1000000000), -- per GPU and hour, kept from the start
	currency      text NOT NULL,
	account_id    uuid NOT NULL, -- the tenant's balance account, so that accrual joins nothing
	start_s       bigint NOT NULL, -- seconds since 1970 by the database's clock
	end_s         bigint CHECK (end_s >= start_s)
);
CREATE INDEX usage_records_by_tenant ON usage_records (org_id, start_s);
CREATE INDEX usage_records_by_allocation ON usage_records (allocation_id);
CREATE INDEX usage_records_by_start ON usage_records (start_s);
CREATE UNIQUE INDEX usage_records_one_open ON usage_records (allocation_id) WHERE end_s IS NULL;
-- What the next pass of accrual must look at besides the open intervals; it
-- takes the rows away in the transaction of its charges.
CREATE TABLE usage_changes (
	record_id uuid NOT NULL REFERENCES usage_records,
	change    text NOT NULL CHECK (change IN ('opened', 'closed')),
	PRIMARY KEY (record_id, change)
);
-- Each pass of accrual, once: [from_s, to_s), without gap or overlap.
CREATE TABLE usage_ticks (
	to_s   bigint PRIMARY KEY,
	from_s bigint NOT NULL UNIQUE,
	at     timestamptz NOT NULL DEFAULT now(),
	CHECK (to_s > from_s)
);

-- +goose StatementBegin
-- make_partitions keeps a month-partitioned table ahead of time: this month and
-- the next n of each table. It may run at any time, by any number of processes.
CREATE FUNCTION make_partitions(n int) RETURNS void LANGUAGE plpgsql AS $$
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
SELECT make_partitions(3);

CREATE TRIGGER audit_logs_append_only BEFORE UPDATE OR DELETE ON audit_logs FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_logs_not_emptied BEFORE TRUNCATE ON audit_logs FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER outbox_events_append_only BEFORE UPDATE OR DELETE ON outbox_events FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER outbox_events_not_emptied BEFORE TRUNCATE ON outbox_events FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_transfers_append_only BEFORE UPDATE OR DELETE ON ledger_transfers FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_transfers_not_emptied BEFORE TRUNCATE ON ledger_transfers FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_entries_append_only BEFORE UPDATE OR DELETE ON ledger_entries FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_entries_not_emptied BEFORE TRUNCATE ON ledger_entries FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- +goose Down
DROP FUNCTION make_partitions;
DROP TABLE usage_ticks, usage_changes, usage_records, ledger_checkpoints, ledger_entries, ledger_transfers, ledger_accounts,
	inbox, outbox_failures, outbox_position, outbox_events, audit_logs;
DROP AGGREGATE ledger_chain(text);
DROP FUNCTION ledger_link, ledger_demand_zero, ledger_ensure_accounts;
