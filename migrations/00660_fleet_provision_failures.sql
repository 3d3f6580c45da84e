-- +goose Up
-- fleet: provisionings that failed on a node since the last one that succeeded. Placement prefers other nodes.

ALTER TABLE nodes ADD COLUMN provision_failures int NOT NULL DEFAULT 0;
