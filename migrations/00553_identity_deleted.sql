-- +goose Up
-- identity: a deleted tenant or user leaves a row without personal data, because allocations, the ledger and audit rows name it.

ALTER TABLE tenants ADD COLUMN deleted_at timestamptz;
ALTER TABLE users ADD COLUMN deleted_at timestamptz;
