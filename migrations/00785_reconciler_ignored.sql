-- +goose Up
-- reconciler: when an operator ignored drift. The API shows the last change of drift.
ALTER TABLE drift ADD COLUMN ignored_at timestamptz;
