-- +goose Up
-- event: the outbox, and the position of the outbox relay in it.

CREATE TABLE outbox_events (
	seq            bigint GENERATED ALWAYS AS IDENTITY,
	-- Readers read only below the oldest running transaction. A transaction that commits late with a lower
	-- position would otherwise be skipped.
	xid            xid8 NOT NULL DEFAULT pg_current_xact_id(),
	event_id       uuid NOT NULL,
	stream         text NOT NULL CHECK (stream IN ('PROVISIONING', 'BILLING', 'PAYMENTS', 'FLEET')),
	subject        text NOT NULL,
	aggregate      text NOT NULL,   -- allocation:<id>
	sequence       bigint NOT NULL, -- rises within the aggregate
	org_id         uuid,
	project_id     uuid,
	correlation_id text NOT NULL DEFAULT '',
	trace          text NOT NULL DEFAULT '', -- traceparent
	payload        jsonb NOT NULL,
	occurred_at    timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (seq, occurred_at),
	CONSTRAINT outbox_events_subject_in_stream CHECK (subject LIKE lower(stream) || '.%')
) PARTITION BY RANGE (occurred_at);
COMMENT ON TABLE outbox_events IS
	'The event log: each event is written in the transaction that makes it true, and published to NATS by the '
	'outbox relay. Append-only, one partition for each month.';
CREATE INDEX outbox_events_by_position ON outbox_events (stream, xid, seq);
CREATE INDEX outbox_events_by_tenant ON outbox_events (org_id, xid, seq);
CREATE INDEX outbox_events_by_id ON outbox_events (event_id);
SELECT scope_rows('outbox_events', 'org_id = (SELECT scope_tenant())');
CREATE TRIGGER outbox_events_append_only BEFORE UPDATE OR DELETE ON outbox_events FOR EACH ROW EXECUTE FUNCTION reject_change();
CREATE TRIGGER outbox_events_not_emptied BEFORE TRUNCATE ON outbox_events FOR EACH STATEMENT EXECUTE FUNCTION reject_change();

CREATE TABLE outbox_position (
	stream   text PRIMARY KEY,
	epoch    text NOT NULL, -- of the JetStream stream; another epoch means that NATS lost the stream, and the relay fills it again
	xid      xid8 NOT NULL,
	seq      bigint NOT NULL,
	acked    bigint NOT NULL DEFAULT 0, -- last sequence in JetStream; a stream that ends lower has lost its newest events
	moved_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE outbox_position IS 'The last event of each stream that the outbox relay has published.';

CREATE TABLE outbox_failures (
	event_id          uuid PRIMARY KEY,
	stream            text NOT NULL,
	retry_count       int NOT NULL,
	last_error        text NOT NULL,
	last_attempted_at timestamptz NOT NULL DEFAULT now(),
	dead_at           timestamptz -- not null: a dead letter
);
COMMENT ON TABLE outbox_failures IS 'Events that could not be published, with the dead letters among them.';

CREATE TABLE inbox (
	consumer text NOT NULL,
	event_id uuid NOT NULL,
	at       timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (consumer, event_id)
);
COMMENT ON TABLE inbox IS
	'Events that a consumer has processed. NATS may deliver an event twice; the second insert finds the row.';
