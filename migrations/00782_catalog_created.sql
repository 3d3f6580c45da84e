-- +goose Up
-- catalog: the time at which a SKU was created, as the API shows it. For an existing SKU it is the last change.
ALTER TABLE sku_catalog ADD COLUMN created_at timestamptz;
UPDATE sku_catalog SET created_at = updated_at;
ALTER TABLE sku_catalog ALTER COLUMN created_at SET DEFAULT now(), ALTER COLUMN created_at SET NOT NULL;
