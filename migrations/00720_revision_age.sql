-- +goose Up
-- revision: the order in which old revisions are deleted.
CREATE INDEX desired_revisions_by_age ON desired_revisions (updated_at);
