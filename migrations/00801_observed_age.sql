-- +goose Up
-- observed: the age of allocations that their node proved gone, whose rows are deleted.

CREATE INDEX observed_allocations_gone ON observed_allocations (observed_at) WHERE phase = 'gone';
