-- +goose Up
-- fleet: when a node was first declared, and the announced end of a node. The ids of nodes are UUIDs of version 7, which
-- begin with the milliseconds of their creation.

ALTER TABLE nodes
	ADD COLUMN created_at timestamptz NOT NULL DEFAULT now(),
	ADD COLUMN retires_at timestamptz,                    -- announced; nothing happens by itself then
	ADD COLUMN retires_reason text NOT NULL DEFAULT '';
UPDATE nodes SET created_at = to_timestamp(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0)
WHERE substr(id::text, 15, 1) = '7';
