-- +goose Up
-- forge: the order in which old reports are deleted.
CREATE INDEX forge_reports_by_age ON forge_reports (updated_at);
