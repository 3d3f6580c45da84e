-- +goose Up
-- allocation: an allocation whose release failed occupies its slot until a proof arrives, so it counts in the caps. Before, a
-- tenant whose releases fail could create beyond its caps.

DROP INDEX allocations_live;
-- The allocations that count for the caps.
CREATE INDEX allocations_live ON allocations (org_id, user_id) WHERE status NOT IN ('released', 'failed');
