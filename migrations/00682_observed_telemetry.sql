-- +goose Up
-- observed: readings of GPUs that allocations use, for a day. The rows of a node are a ring of 1440 minutes, which the
-- next day overwrites. The table is unlogged: a crash of PostgreSQL may empty it, and no decision rests on it.

CREATE UNLOGGED TABLE gpu_readings (
	node_id   uuid NOT NULL,
	slot      int NOT NULL CHECK (slot BETWEEN 0 AND 1439), -- minute of the day in UTC
	starts_at timestamptz NOT NULL,
	readings  jsonb NOT NULL, -- for each report: the second, and for each GPU utilisation, MiB, mW and °C
	PRIMARY KEY (node_id, slot)
) WITH (fillfactor = 50); -- each row is overwritten once a day; the free half of the page keeps these updates HOT
COMMENT ON TABLE gpu_readings IS
	'Utilisation, memory, power and temperature of GPUs in use: a row for each node and minute of the last day.';
