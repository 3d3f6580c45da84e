-- +goose Up
-- revision: when a Git source was configured, and its last change, as the API shows them. An existing source counts as
-- configured at its first revision.
ALTER TABLE git_sources ADD COLUMN created_at timestamptz NOT NULL DEFAULT now(), ADD COLUMN updated_at timestamptz NOT NULL DEFAULT now();
UPDATE git_sources g SET created_at = r.first FROM (SELECT source, min(created_at) AS first FROM desired_revisions GROUP BY source) r WHERE r.source = g.name;
