-- +goose Up
-- metering: usage intervals, ticks, and charges for them.

CREATE TABLE usage_ticks (
	to_s    bigint PRIMARY KEY,
	from_s  bigint NOT NULL UNIQUE,
	after_s bigint REFERENCES usage_ticks (to_s), -- the end of the tick before; null only for the first tick
	at      timestamptz NOT NULL DEFAULT now(),
	CHECK (to_s > from_s),
	-- One tick follows each tick, and one tick is the first: no gap, no overlap, no fork.
	CONSTRAINT usage_ticks_follow_one_another UNIQUE NULLS NOT DISTINCT (after_s),
	CONSTRAINT usage_ticks_leave_no_gap CHECK (after_s = from_s)
);
-- A tick ends in a transaction of its own. A transaction that opens or closes an interval later does so at or after
-- that end, so a tick can be charged at any time, and verified again from the first tick on.
COMMENT ON TABLE usage_ticks IS 'Accrual windows [from_s, to_s) of all intervals, in seconds since 1970. Append-only.';
CREATE TRIGGER usage_ticks_append_only BEFORE UPDATE OR DELETE ON usage_ticks FOR EACH ROW EXECUTE FUNCTION reject_change();
CREATE TRIGGER usage_ticks_not_emptied BEFORE TRUNCATE ON usage_ticks FOR EACH STATEMENT EXECUTE FUNCTION reject_change();

CREATE TABLE usage_passes (
	to_s bigint PRIMARY KEY REFERENCES usage_ticks,
	at   timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE usage_passes IS
	'Ticks that are charged. The row is written in the transaction of the charges, so no tick is charged twice. Append-only.';
CREATE TRIGGER usage_passes_append_only BEFORE UPDATE OR DELETE ON usage_passes FOR EACH ROW EXECUTE FUNCTION reject_change();
CREATE TRIGGER usage_passes_not_emptied BEFORE TRUNCATE ON usage_passes FOR EACH STATEMENT EXECUTE FUNCTION reject_change();

-- A test replaces the function to set the time. Only the owner can do that: no setting and no argument changes the
-- clock of billing.
CREATE FUNCTION metering_clock() RETURNS bigint LANGUAGE sql VOLATILE
	RETURN floor(extract(epoch FROM clock_timestamp()))::bigint;
COMMENT ON FUNCTION metering_clock IS 'Returns the time in seconds since 1970.';

CREATE FUNCTION metering_now() RETURNS bigint LANGUAGE sql STABLE
	RETURN greatest(metering_clock(), (SELECT to_s FROM usage_ticks ORDER BY to_s DESC LIMIT 1));
COMMENT ON FUNCTION metering_now IS
	'Returns the time, but never one before the end of the last tick, also after the clock was set back.';

-- The function takes the lock before it reads the last tick. The end of a tick waits for the lock, and therefore finds
-- all changes before it committed.
-- +goose StatementBegin
CREATE FUNCTION metering_moment() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	PERFORM pg_advisory_xact_lock_shared(hashtextextended('metering.cut', 0));
	RETURN greatest(metering_clock(), (SELECT to_s FROM usage_ticks ORDER BY to_s DESC LIMIT 1));
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION metering_moment IS
	'Returns the time at which the caller opens or closes an interval. No tick ends before the transaction of the '
	'caller does.';

CREATE TABLE usage_records (
	id                 uuid PRIMARY KEY,
	allocation_id      uuid NOT NULL,
	org_id             uuid NOT NULL,
	project_id         uuid NOT NULL,
	user_id            uuid, -- owner of the allocation: a user or a service account
	sku                text NOT NULL,
	-- With these bounds a century of use fits into 63 bits.
	gpus               bigint NOT NULL CHECK (gpus BETWEEN 1 AND 100000),
	price_minor        bigint NOT NULL CHECK (price_minor BETWEEN 0 AND 1000000000), -- per GPU and hour, as of the start
	currency           text NOT NULL,
	account_id         uuid NOT NULL, -- balance account of the tenant, so that accrual needs no join
	start_s            bigint NOT NULL, -- seconds since 1970, by metering_moment
	end_s              bigint CHECK (end_s >= start_s),
	-- The reasons of both ends, and the observation behind each: node, fence, sequence of the report.
	opened_by          text NOT NULL DEFAULT 'observed_ready' CHECK (opened_by IN ('observed_ready', 'price_changed', 'observed_again')),
	opened_observation jsonb,
	closed_by          text CHECK (closed_by IN ('release_requested', 'price_changed', 'observation_stale', 'node_unhealthy')),
	closed_observation jsonb,
	-- No second of an allocation is metered twice.
	CONSTRAINT usage_records_do_not_overlap EXCLUDE USING gist (allocation_id WITH =, int8range(start_s, end_s) WITH &&),
	CONSTRAINT usage_records_closed_have_a_reason CHECK ((end_s IS NULL) = (closed_by IS NULL))
);
COMMENT ON TABLE usage_records IS 'Usage intervals. An interval is closed once and never changes otherwise.';
CREATE INDEX usage_records_by_tenant ON usage_records (org_id, start_s);
CREATE INDEX usage_records_by_tenant_and_end ON usage_records (org_id, end_s);
CREATE INDEX usage_records_by_allocation ON usage_records (allocation_id);
CREATE INDEX usage_records_by_start ON usage_records (start_s);
CREATE INDEX usage_records_by_end ON usage_records (end_s) WHERE end_s IS NOT NULL;
CREATE UNIQUE INDEX usage_records_one_open ON usage_records (allocation_id) WHERE end_s IS NULL;
SELECT scope_rows('usage_records', 'org_id = (SELECT scope_tenant())');

-- +goose StatementBegin
CREATE FUNCTION usage_only_ends() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'UPDATE' AND OLD.end_s IS NULL AND NEW.end_s IS NOT NULL
		AND to_jsonb(NEW) - ARRAY['end_s', 'closed_by', 'closed_observation'] = to_jsonb(OLD) - ARRAY['end_s', 'closed_by', 'closed_observation'] THEN
		RETURN NEW;
	END IF;
	RAISE EXCEPTION 'a usage interval can only be closed, and only once' USING ERRCODE = 'restrict_violation';
END $$;
-- +goose StatementEnd
COMMENT ON FUNCTION usage_only_ends IS 'Rejects every change of an interval except its end, once.';
CREATE TRIGGER usage_records_only_end BEFORE UPDATE OR DELETE ON usage_records FOR EACH ROW EXECUTE FUNCTION usage_only_ends();
CREATE TRIGGER usage_records_not_emptied BEFORE TRUNCATE ON usage_records FOR EACH STATEMENT EXECUTE FUNCTION usage_only_ends();

CREATE TABLE usage_credits (
	id           uuid PRIMARY KEY,
	record_id    uuid NOT NULL REFERENCES usage_records,
	org_id       uuid NOT NULL,
	from_s       bigint NOT NULL,
	to_s         bigint NOT NULL CHECK (to_s > from_s),
	reason       text NOT NULL CHECK (reason IN ('observation_stale', 'node_unhealthy')),
	amount_minor bigint NOT NULL CHECK (amount_minor >= 0),
	transfer_id  uuid, -- null if the amount is zero
	at           timestamptz NOT NULL DEFAULT now(),
	-- No second of an interval is credited twice.
	CONSTRAINT usage_credits_do_not_overlap EXCLUDE USING gist (record_id WITH =, int8range(from_s, to_s) WITH &&),
	CONSTRAINT usage_credits_are_paid CHECK ((amount_minor > 0) = (transfer_id IS NOT NULL))
);
COMMENT ON TABLE usage_credits IS 'Fault credits: metered time that the platform returns to the tenant. Append-only.';
CREATE INDEX usage_credits_by_tenant ON usage_credits (org_id, at);
SELECT scope_rows('usage_credits', 'org_id = (SELECT scope_tenant())');
CREATE TRIGGER usage_credits_append_only BEFORE UPDATE OR DELETE ON usage_credits FOR EACH ROW EXECUTE FUNCTION reject_change();
CREATE TRIGGER usage_credits_not_emptied BEFORE TRUNCATE ON usage_credits FOR EACH STATEMENT EXECUTE FUNCTION reject_change();
