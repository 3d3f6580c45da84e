-- +goose Up
-- observed: consecutive failures to apply one generation and epoch of an object. Generation 0 means that nothing was applied
-- yet.

ALTER TABLE observed_objects ADD COLUMN failures int NOT NULL DEFAULT 0;
ALTER TABLE observed_objects ADD COLUMN failed_generation bigint NOT NULL DEFAULT 0;
ALTER TABLE observed_objects ADD COLUMN failed_epoch bigint NOT NULL DEFAULT 0;
ALTER TABLE observed_objects ADD COLUMN failure text NOT NULL DEFAULT '';
