-- +goose Up
-- billing: the deletion of the files of a tenant whose balance is used up.

ALTER TABLE balance_notices
	ADD COLUMN storage_deletes_at  timestamptz, -- null while no deletion is scheduled
	ADD COLUMN storage_notified_at timestamptz, -- the last notice of it
	ADD CONSTRAINT balance_notices_schedule_with_a_notice CHECK ((storage_deletes_at IS NULL) = (storage_notified_at IS NULL));
