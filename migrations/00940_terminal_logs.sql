-- +goose Up
-- terminal: open streams of logs. A row is the right to one stream, and counts for the limits.

-- Unlogged: the client repeats a stream that a crash of the database has ended.
CREATE UNLOGGED TABLE log_streams (
	id             uuid PRIMARY KEY,
	hash           bytea UNIQUE CHECK (length(hash) = 32), -- SHA-256 of a token, until its first use
	org_id         uuid, -- null: an operator reads a log of the node
	project_id     uuid,
	allocation_id  uuid, -- without a foreign key: the row lives as long as the stream
	node_id        uuid, -- null: the node of the allocation
	principal      uuid NOT NULL,
	query          jsonb NOT NULL, -- protocol.LogQuery
	trace          text NOT NULL,
	created_at     timestamptz NOT NULL DEFAULT now(),
	seen_at        timestamptz NOT NULL DEFAULT now(), -- the API serves it
	CONSTRAINT log_streams_of_one CHECK ((allocation_id IS NULL) <> (node_id IS NULL)),
	CONSTRAINT log_streams_tenant CHECK ((allocation_id IS NULL) = (org_id IS NULL) AND (org_id IS NULL) = (project_id IS NULL))
);
COMMENT ON TABLE log_streams IS 'Open streams of logs, with the hashes of their unused tokens.';
CREATE INDEX log_streams_of_allocation ON log_streams (allocation_id);
CREATE INDEX log_streams_by_principal ON log_streams (principal);
CREATE INDEX log_streams_by_age ON log_streams (seen_at);
SELECT scope_rows('log_streams', 'org_id = (SELECT scope_tenant())');

-- Like terminal_targets, also before and after the logins of an allocation: its tasks have a log.
CREATE VIEW log_targets AS
	SELECT a.id AS allocation_id, a.org_id, a.project_id, a.node_id, d.fence
	FROM allocations a JOIN desired_objects d ON d.uid = a.id AND d.kind = 'Allocation'
	WHERE a.node_id IS NOT NULL;
COMMENT ON VIEW log_targets IS 'The node and fence of each allocation, for the role terminal.';
