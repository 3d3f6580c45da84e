-- +goose Up
-- allocation: the announced release of an allocation whose GPUs are idle.

ALTER TABLE allocations ADD COLUMN idle_release_at timestamptz;
COMMENT ON COLUMN allocations.idle_release_at IS 'When the allocation is released if its GPUs stay idle. Null: they are in use, or the policy releases none.';
CREATE INDEX allocations_idle ON allocations (id) WHERE status = 'active' AND idle_release_at IS NOT NULL;
-- The releases of the last minutes, which a policy limits.
CREATE INDEX allocations_idle_releases ON allocations (status_at) WHERE reason = 'idle';

COMMENT ON TABLE gpu_readings IS
	'Utilisation, memory, power and temperature of GPUs in use: a row for each node and minute of the last day. The table is unlogged: a crash of PostgreSQL may empty it. A missing reading never counts as idle.';
