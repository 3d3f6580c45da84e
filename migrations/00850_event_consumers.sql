-- +goose Up
-- event: consumers of the streams, what they have processed, and what they could not process.

-- Partitioned by the id of the event, which contains its time: an event is found in its partition, and old ones are dropped.
CREATE TABLE inbox (
	consumer text NOT NULL,
	event_id uuid NOT NULL,
	PRIMARY KEY (consumer, event_id)
) PARTITION BY RANGE (event_id);
COMMENT ON TABLE inbox IS
	'Events that a consumer has processed, written in the transaction of the effect. NATS may deliver an event twice; the '
	'second insert finds the row. One partition for each month.';
-- Ids of another version than 7: the relay publishes none, but a row that has one must not fail the consumer.
CREATE TABLE inbox_other PARTITION OF inbox DEFAULT;

CREATE TABLE inbox_heads (
	consumer  text NOT NULL,
	aggregate text NOT NULL,
	sequence  bigint NOT NULL,
	moved_at  timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (consumer, aggregate)
);
COMMENT ON TABLE inbox_heads IS
	'The last sequence of each aggregate that a consumer has processed. An event that is not above it is dropped.';
CREATE INDEX inbox_heads_by_age ON inbox_heads (moved_at);

CREATE TABLE dead_letters (
	id          uuid PRIMARY KEY,
	consumer    text NOT NULL, -- or "relay"
	event_id    uuid NOT NULL,
	stream      text NOT NULL,
	subject     text NOT NULL,
	error       text NOT NULL,
	attempts    int NOT NULL DEFAULT 1,
	created_at  timestamptz NOT NULL DEFAULT now(), -- the first failure
	failed_at   timestamptz NOT NULL DEFAULT now(), -- the last one
	dead_at     timestamptz, -- null: NATS still delivers the event again
	retry_at    timestamptz, -- an operator has requested a further attempt
	resolved_at timestamptz,
	resolution  text NOT NULL DEFAULT '' CHECK (resolution IN ('', 'retried', 'discarded')),
	resolved_by text NOT NULL DEFAULT '', -- who discarded it, or requested the attempt that succeeded
	reason      text NOT NULL DEFAULT '',
	UNIQUE (consumer, event_id),
	CONSTRAINT dead_letters_resolved CHECK ((resolved_at IS NOT NULL) = (resolution <> ''))
);
COMMENT ON TABLE dead_letters IS 'Events that a consumer or the relay could not process, with the dead letters among them (dead_at).';
INSERT INTO dead_letters (id, consumer, event_id, stream, subject, error, attempts, created_at, failed_at, dead_at)
SELECT gen_random_uuid(), 'relay', f.event_id, f.stream, coalesce(e.subject, ''), f.last_error, f.retry_count, f.dead_at, f.last_attempted_at, f.dead_at
FROM outbox_failures f LEFT JOIN outbox_events e USING (event_id) WHERE f.dead_at IS NOT NULL;
CREATE INDEX dead_letters_unresolved ON dead_letters (id) WHERE dead_at IS NOT NULL AND resolved_at IS NULL;
CREATE INDEX dead_letters_by_age ON dead_letters (failed_at);
CREATE CONSTRAINT TRIGGER dead_letters_are_audited AFTER UPDATE OF retry_at, resolved_at ON dead_letters
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	WHEN (current_setting('is_superuser') <> 'on' AND current_user NOT IN ('gpuaas_work', 'gpuaas_relay'))
	EXECUTE FUNCTION demand_audit();

-- NATS knows the position of a consumer. The table has it for operators without NATS, and for the end of old events.
CREATE TABLE event_consumers (
	name        text PRIMARY KEY,
	stream      text NOT NULL,
	epoch       text NOT NULL,
	pending     bigint NOT NULL, -- not processed
	redelivered bigint NOT NULL, -- of these, delivered more than once
	oldest_at   timestamptz,     -- time of the oldest of these
	since       timestamptz NOT NULL DEFAULT now(), -- earlier events have no effect: the consumer did not exist
	checked_at  timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE event_consumers IS 'The state of each consumer of the streams, as a worker has read it from NATS.';

CREATE TABLE event_replays (
	id         uuid PRIMARY KEY,
	consumer   text NOT NULL,
	event_ids  uuid[], -- null: by time and position
	from_at    timestamptz NOT NULL DEFAULT '-infinity',
	to_at      timestamptz NOT NULL DEFAULT now(),
	xid        xid8 NOT NULL DEFAULT '0', -- position of the last replayed event
	seq        bigint NOT NULL DEFAULT 0,
	repeat     boolean NOT NULL, -- the effect runs again for processed events
	events     bigint NOT NULL DEFAULT 0,
	effects    bigint NOT NULL DEFAULT 0,
	actor      text NOT NULL,
	reason     text NOT NULL CHECK (reason <> ''),
	created_at timestamptz NOT NULL DEFAULT now(),
	done_at    timestamptz
);
COMMENT ON TABLE event_replays IS 'Requests of operators that a consumer processes stored events again.';
CREATE INDEX event_replays_active ON event_replays (id) WHERE done_at IS NULL;
CREATE INDEX event_replays_by_age ON event_replays (done_at) WHERE done_at IS NOT NULL;
CREATE CONSTRAINT TRIGGER event_replays_are_audited AFTER INSERT ON event_replays
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (current_setting('is_superuser') <> 'on') EXECUTE FUNCTION demand_audit();
