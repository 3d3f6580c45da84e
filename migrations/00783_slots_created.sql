-- +goose Up
-- slots: the time at which a slot was created, as the API shows it. For an existing slot it is the last change.
ALTER TABLE slots ADD COLUMN created_at timestamptz;
UPDATE slots SET created_at = updated_at;
ALTER TABLE slots ALTER COLUMN created_at SET DEFAULT now(), ALTER COLUMN created_at SET NOT NULL;
