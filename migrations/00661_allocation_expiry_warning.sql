-- +goose Up
-- allocation: the end of the TTL that its tenant was warned of. A TTL that changes is announced again.

ALTER TABLE allocations ADD COLUMN expiry_warned_for timestamptz;
CREATE INDEX allocations_expiring ON allocations (expires_at) WHERE status = 'active' AND expires_at IS NOT NULL;
