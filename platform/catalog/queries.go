package catalog

const skuColumns = `s.id, s.name, s.display_name, s.gpu_model, s.memory_gib, s.isolation, s.max_gpus, s.active, s.created_at, s.updated_at, p.currency, p.amount_minor`

// The newest price that has begun. A SKU without one cannot be sold.
const withPrice = ` FROM sku_catalog s CROSS JOIN LATERAL (
		SELECT currency, amount_minor FROM sku_prices
		WHERE sku = s.name AND valid_from <= now() ORDER BY valid_from DESC LIMIT 1) p`

const (
	selectOffers = `SELECT ` + skuColumns + withPrice + ` WHERE s.active`
	selectSKU    = `SELECT ` + skuColumns + withPrice + ` WHERE s.name = $1`
	selectAll    = `SELECT ` + skuColumns + withPrice + ` ORDER BY s.name`
	selectSKUs   = `SELECT ` + skuColumns + withPrice + ` WHERE s.name > $1 ORDER BY s.name LIMIT $2`
)

// By name: a SKU that was undeclared and declared again has another uid.
const upsertSKU = `
	INSERT INTO sku_catalog (id, name, display_name, gpu_model, memory_gib, isolation, max_gpus, active)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
	ON CONFLICT (name) DO UPDATE SET id = excluded.id, display_name = excluded.display_name,
		gpu_model = excluded.gpu_model, memory_gib = excluded.memory_gib, isolation = excluded.isolation,
		max_gpus = excluded.max_gpus, active = excluded.active, updated_at = now()`

// Two changes in one transaction have one time: the later one counts.
const insertPrice = `
	INSERT INTO sku_prices (sku, currency, amount_minor)
	SELECT $1::text, $2::text, $3::bigint WHERE NOT EXISTS (
		SELECT FROM (SELECT currency, amount_minor FROM sku_prices WHERE sku = $1 ORDER BY valid_from DESC LIMIT 1) last
		WHERE last.currency = $2 AND last.amount_minor = $3)
	ON CONFLICT (sku, currency, valid_from) DO UPDATE SET amount_minor = excluded.amount_minor`

const retireSKU = `UPDATE sku_catalog SET active = false, updated_at = now() WHERE id = $1 AND active`

const clearDefault = `UPDATE os_images SET is_default = false WHERE is_default AND name <> $1`

const upsertImage = `
	INSERT INTO os_images (id, name, display_name, digest, is_default) VALUES ($1, $2, $3, $4, $5)
	ON CONFLICT (name) DO UPDATE SET id = excluded.id, display_name = excluded.display_name,
		digest = excluded.digest, is_default = excluded.is_default, retired_at = NULL`

const retireImage = `UPDATE os_images SET retired_at = now(), is_default = false WHERE id = $1 AND retired_at IS NULL`

const selectImages = `
	SELECT id, name, display_name, digest, is_default FROM os_images
	WHERE retired_at IS NULL AND name > $1 ORDER BY name LIMIT $2`

const selectStoredSKUs = `
	SELECT s.id, s.name, s.display_name, s.gpu_model, s.memory_gib, s.isolation, s.max_gpus, s.active, s.created_at, s.updated_at, coalesce(p.currency, ''), coalesce(p.amount_minor, 0)
	FROM sku_catalog s LEFT JOIN LATERAL (
		SELECT currency, amount_minor FROM sku_prices
		WHERE sku = s.name AND valid_from <= now() ORDER BY valid_from DESC LIMIT 1) p ON true
	WHERE s.name = ANY ($1)`

const selectStoredImages = `
	SELECT id, name, display_name, digest, is_default FROM os_images WHERE retired_at IS NULL AND name = ANY ($1)`
