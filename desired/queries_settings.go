package desired

const selectSettings = `SELECT settings FROM git_sources WHERE name = $1 AND removed_at IS NULL`
