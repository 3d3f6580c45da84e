-- +goose Up
-- identity: the time of the last change, as the API shows it. It is null for a row that has not changed since it exists.
ALTER TABLE tenants ADD COLUMN updated_at timestamptz;
ALTER TABLE projects ADD COLUMN updated_at timestamptz;
ALTER TABLE users ADD COLUMN updated_at timestamptz;
ALTER TABLE service_accounts ADD COLUMN updated_at timestamptz;
