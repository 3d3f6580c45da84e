-- +goose Up
-- allocation: the time of the last change of name, labels or TTL. Transitions have status_at.
ALTER TABLE allocations ADD COLUMN updated_at timestamptz;
