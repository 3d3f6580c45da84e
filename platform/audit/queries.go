package audit

const insertEntry = `
	INSERT INTO audit_logs (id, org_id, actor, action, target_urn, correlation_id, before, after)
	VALUES ($1, nullif($2::uuid, '00000000-0000-0000-0000-000000000000'), $3, $4, $5, $6, $7, $8)`
