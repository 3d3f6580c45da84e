-- +goose Up
-- catalog: the applied spec of a SKU and of an image is one document, as that of a node is. Before, a new field of a
-- spec needed a column, a statement and a comparison. No release has used the columns, so they go in one step.

ALTER TABLE sku_catalog ADD COLUMN spec jsonb;
UPDATE sku_catalog SET spec = jsonb_build_object('displayName', display_name, 'gpuModel', gpu_model,
	'memoryGiB', memory_gib, 'isolation', isolation, 'maxGPUs', max_gpus, 'active', active);
ALTER TABLE sku_catalog
	ALTER COLUMN spec SET NOT NULL,
	DROP COLUMN display_name, DROP COLUMN gpu_model, DROP COLUMN memory_gib, DROP COLUMN isolation, DROP COLUMN max_gpus,
	DROP COLUMN active,
	ADD CONSTRAINT sku_catalog_spec_types_check CHECK (coalesce(jsonb_typeof(spec->'maxGPUs'), 'absent') = 'number'
		AND coalesce(jsonb_typeof(spec->'memoryGiB'), 'absent') = 'number' AND (spec->'maxGPUs')::int > 0 AND NOT spec ? 'price'),
	-- Only the field by which statements filter.
	ADD COLUMN active boolean NOT NULL GENERATED ALWAYS AS ((spec->>'active')::boolean) STORED;
COMMENT ON CONSTRAINT sku_catalog_spec_types_check ON sku_catalog IS
	'Statements read these fields by their types. A wrong type would fail every list of SKUs. The price is in sku_prices.';

ALTER TABLE os_images ADD COLUMN spec jsonb;
UPDATE os_images SET spec = jsonb_build_object('displayName', display_name, 'digest', digest, 'default', is_default);
ALTER TABLE os_images
	ALTER COLUMN spec SET NOT NULL,
	DROP COLUMN display_name, DROP COLUMN digest, DROP COLUMN is_default,
	ADD CONSTRAINT os_images_spec_digest_check CHECK (coalesce(jsonb_typeof(spec->'digest'), 'absent') = 'string'),
	ADD COLUMN is_default boolean NOT NULL GENERATED ALWAYS AS ((spec->>'default')::boolean) STORED;
