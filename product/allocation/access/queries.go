package access

const (
	setSent = `UPDATE allocations SET access_rules = $2 WHERE id = $1 AND access_rules <> $2`

	// Of one that is being provisioned the first task carries the rules. An older agent gets none, until it reports that it
	// knows them.
	selectSent = `
	SELECT DISTINCT a.org_id, a.project_id, a.access_rules FROM allocations a JOIN node_capabilities o ON o.node_id = a.node_id
	WHERE a.status = 'active' AND o.capability >= $1`

	lockOutdated = `
	SELECT a.id FROM allocations a JOIN node_capabilities o ON o.node_id = a.node_id
	WHERE a.status = 'active' AND o.capability >= $1 AND a.project_id = $2 AND a.access_rules <> $3 ORDER BY a.id LIMIT $4 FOR UPDATE OF a SKIP LOCKED`

	selectUnrestricted = `
	SELECT a.id, a.org_id, a.project_id FROM allocations a JOIN node_capabilities o ON o.node_id = a.node_id WHERE a.id = ANY ($1) AND a.status = 'active' AND o.capability < $2`
)
