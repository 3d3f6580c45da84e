package allocation

const selectNames = `SELECT id, name FROM allocations WHERE id = ANY ($1::uuid[])`

const selectLabels = `SELECT id, name, project_id, sku FROM allocations WHERE id = ANY ($1::uuid[])`

const sumCommitted = `
	SELECT coalesce(sum(gpus * price_minor), 0)::bigint FROM allocations
	WHERE org_id = $1 AND ` + committed + ` AND ($2::uuid IS NULL OR project_id = $2)`
