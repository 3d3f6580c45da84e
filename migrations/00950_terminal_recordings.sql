-- +goose Up
-- terminal: recordings of the output of terminals.

-- A row for each recorded session. It has no foreign key to its session, whose row is deleted at another time.
CREATE TABLE terminal_recordings (
	id             uuid PRIMARY KEY, -- of the session
	org_id         uuid NOT NULL,
	project_id     uuid NOT NULL,
	allocation_id  uuid NOT NULL,
	principal      uuid NOT NULL, -- the user or service account that opened the session
	required       boolean NOT NULL, -- the session could not go on without it
	columns        int NOT NULL CHECK (columns BETWEEN 1 AND 1000),
	rows           int NOT NULL CHECK (rows BETWEEN 1 AND 1000),
	key_enc        bytea NOT NULL, -- the key of the chunks, in an envelope of a data key "recordings"
	chunks         int NOT NULL DEFAULT 0,
	output_bytes   bigint NOT NULL DEFAULT 0,
	duration_ms    bigint NOT NULL DEFAULT 0, -- until the last event
	incomplete     text NOT NULL DEFAULT '' CHECK (incomplete IN ('', 'failed', 'slow', 'full')),
	correlation_id text NOT NULL,
	created_at     timestamptz NOT NULL DEFAULT now(),
	updated_at     timestamptz NOT NULL DEFAULT now(), -- of the last chunk: retention counts from here, also if the server failed
	ended_at       timestamptz
);
COMMENT ON TABLE terminal_recordings IS 'Recordings of the output of terminals. Without the row, no chunk of it can be opened.';
CREATE INDEX terminal_recordings_by_project ON terminal_recordings (project_id, id);
CREATE INDEX terminal_recordings_by_age ON terminal_recordings (updated_at);
SELECT scope_rows('terminal_recordings', 'org_id = (SELECT scope_tenant())');

CREATE TABLE terminal_recording_chunks (
	recording_id uuid NOT NULL, -- without a foreign key: chunks are deleted in batches after their recording
	number       int NOT NULL,
	org_id       uuid NOT NULL,
	body         bytea NOT NULL, -- lines of asciicast v2, compressed and sealed with the key of the recording
	created_at   timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (recording_id, number)
);
-- Sealed bytes do not compress.
ALTER TABLE terminal_recording_chunks ALTER COLUMN body SET STORAGE EXTERNAL;
COMMENT ON TABLE terminal_recording_chunks IS 'The sealed parts of recordings of terminals.';
CREATE INDEX terminal_recording_chunks_by_age ON terminal_recording_chunks (created_at);
SELECT scope_rows('terminal_recording_chunks', 'org_id = (SELECT scope_tenant())');

ALTER TABLE terminal_sessions DROP CONSTRAINT terminal_sessions_end_reason_check;
ALTER TABLE terminal_sessions ADD CONSTRAINT terminal_sessions_end_reason_check CHECK (end_reason IN ('', 'exited', 'closed', 'disconnected', 'slow',
	'idle', 'ended_by_user', 'ended_by_operator', 'signed_out', 'user_disabled', 'right_lost', 'allocation_ended', 'node_unavailable', 'connect_failed',
	'stream_lost', 'restarted', 'lost', 'unavailable', 'recording_failed', 'recording_full', 'recording_required'));
