-- +goose Up
-- terminal: requests for streams, from a terminal server to the poll of a node.

-- Unlogged: a request is worth nothing after 15 seconds, and the terminal server repeats it after a crash of the database.
CREATE UNLOGGED TABLE relay_requests (
	stream_id  uuid PRIMARY KEY,
	node_id    uuid NOT NULL,
	kid        text NOT NULL,
	body       bytea NOT NULL,
	signature  bytea NOT NULL,
	created_at timestamptz NOT NULL DEFAULT now(),
	expires_at timestamptz NOT NULL,
	sent_at    timestamptz -- of the last response that contained it
);
COMMENT ON TABLE relay_requests IS 'Signed requests for streams that agents have not opened yet.';
CREATE INDEX relay_requests_of_node ON relay_requests (node_id, created_at);
-- Each insert deletes what has expired.
CREATE INDEX relay_requests_expired ON relay_requests (expires_at);
