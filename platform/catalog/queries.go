package catalog

const skuColumns = `s.id, s.name, s.spec->>'displayName', s.spec->>'gpuModel', (s.spec->>'memoryGiB')::int, s.spec->>'isolation',
	(s.spec->>'maxGPUs')::int, s.active, s.created_at, s.updated_at, p.currency, p.amount_minor`

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
	INSERT INTO sku_catalog (id, name, spec) VALUES ($1, $2, $3::jsonb - 'price')
	ON CONFLICT (name) DO UPDATE SET id = excluded.id, spec = excluded.spec, updated_at = now()`

// Two changes in one transaction have one time: the later one counts.
const insertPrice = `
	INSERT INTO sku_prices (sku, currency, amount_minor)
	SELECT $1::text, p.currency, p."amountMinor"
	FROM jsonb_to_record($2::jsonb->'price') AS p (currency text, "amountMinor" bigint) WHERE NOT EXISTS (
		SELECT FROM (SELECT currency, amount_minor FROM sku_prices WHERE sku = $1 ORDER BY valid_from DESC LIMIT 1) last
		WHERE last.currency = p.currency AND last.amount_minor = p."amountMinor")
	ON CONFLICT (sku, currency, valid_from) DO UPDATE SET amount_minor = excluded.amount_minor`

const retireSKU = `UPDATE sku_catalog SET spec = spec || '{"active": false}', updated_at = now() WHERE id = $1 AND active`

const clearDefault = `UPDATE os_images SET spec = spec || '{"default": false}' WHERE is_default AND name <> $1 AND ($2::jsonb->>'default')::boolean`

const upsertImage = `
	INSERT INTO os_images (id, name, spec) VALUES ($1, $2, $3)
	ON CONFLICT (name) DO UPDATE SET id = excluded.id, spec = excluded.spec, retired_at = NULL`

const retireImage = `UPDATE os_images SET retired_at = now(), spec = spec || '{"default": false}' WHERE id = $1 AND retired_at IS NULL`

const selectImages = `
	SELECT id, name, spec->>'displayName', spec->>'digest', is_default FROM os_images
	WHERE retired_at IS NULL AND name > $1 ORDER BY name LIMIT $2`

const selectStoredSKUs = `
	SELECT s.name, s.spec || jsonb_build_object('price', jsonb_build_object('currency', coalesce(p.currency, ''), 'amountMinor', coalesce(p.amount_minor, 0)))
	FROM sku_catalog s LEFT JOIN LATERAL (
		SELECT currency, amount_minor FROM sku_prices
		WHERE sku = s.name AND valid_from <= now() ORDER BY valid_from DESC LIMIT 1) p ON true
	WHERE s.name = ANY ($1)`

const selectStoredImages = `
	SELECT name, spec FROM os_images WHERE retired_at IS NULL AND name = ANY ($1)`
