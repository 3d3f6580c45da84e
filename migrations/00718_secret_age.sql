-- +goose Up
-- secret: the order in which expired certificates are deleted, and the newest of a node.
CREATE INDEX certificates_by_end ON certificates (not_after);
CREATE INDEX certificates_by_age ON certificates (node_id, created_at, serial);
