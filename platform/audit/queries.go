package audit

const insertEntry = `
	INSERT INTO audit_logs (id, org_id, actor, action, target_urn, correlation_id, before, after)
	VALUES ($1, nullif($2::uuid, '00000000-0000-0000-0000-000000000000'), $3, $4, $5, $6, $7, $8)`

// A search is put together from these: its conditions, numbered as they come.
const (
	selectRecords = `
	SELECT id, at, coalesce(org_id, '00000000-0000-0000-0000-000000000000'), actor, action, target_urn, correlation_id, before, after
	FROM audit_logs`

	ofTenant = `org_id = $%d`
	byActor  = `actor = $%d`
	ofAction = `action = $%d`
	onTarget = `target_urn = $%d`
	from     = `at >= $%d`
	until    = `at < $%d`
	// The time once more by itself: a comparison of rows leaves out no partition.
	olderThan = `at <= $%[1]d AND (at, id) < ($%[1]d, $%[2]d)`

	newestFirst = ` ORDER BY at DESC, id DESC LIMIT $%d`
)
