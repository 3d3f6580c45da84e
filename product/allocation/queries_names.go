package allocation

const selectNames = `SELECT id, name FROM allocations WHERE id = ANY ($1::uuid[])`
