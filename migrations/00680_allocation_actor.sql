-- +goose Up
-- allocation: the actor of each transition, so that a timeline names who released or changed an allocation, and not only
-- why. Older rows have none. Operators list the allocations of all tenants by age.

ALTER TABLE allocation_transitions ADD COLUMN actor text NOT NULL DEFAULT '';
CREATE INDEX allocations_by_age ON allocations (created_at DESC, id DESC);
