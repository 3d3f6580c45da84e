-- +goose Up
-- catalog: SKUs, prices and OS images, as the desired objects of these kinds specify them.

CREATE TABLE sku_catalog (
	id           uuid PRIMARY KEY, -- uid of the desired object
	name         text NOT NULL UNIQUE,
	display_name text NOT NULL,
	gpu_model    text NOT NULL,
	memory_gib   int NOT NULL,
	isolation    text NOT NULL,
	max_gpus     int NOT NULL CHECK (max_gpus > 0), -- of one allocation
	active       boolean NOT NULL,
	updated_at   timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE sku_catalog IS 'Products that allocations name.';

CREATE TABLE sku_prices (
	sku          text NOT NULL,
	currency     text NOT NULL,
	amount_minor bigint NOT NULL CHECK (amount_minor >= 0), -- per GPU and hour
	valid_from   timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (sku, currency, valid_from)
);
COMMENT ON TABLE sku_prices IS 'Prices of SKUs. The newest price that is already valid applies.';

CREATE TABLE os_images (
	id           uuid PRIMARY KEY, -- uid of the desired object
	name         text NOT NULL UNIQUE,
	display_name text NOT NULL,
	digest       text NOT NULL,
	is_default   boolean NOT NULL,
	retired_at   timestamptz
);
COMMENT ON TABLE os_images IS 'OS images by digest.';
