package event

const insertFact = `
	INSERT INTO outbox_events (event_id, stream, subject, aggregate, sequence, org_id, project_id, correlation_id, trace, payload)
	VALUES ($1, $2, $3, $4, $5,
		nullif($6::uuid, '00000000-0000-0000-0000-000000000000'),
		nullif($7::uuid, '00000000-0000-0000-0000-000000000000'), $9, $10,
		$11::jsonb || jsonb_build_object('urn', $8::text,
			'tenant_id', nullif($6::uuid, '00000000-0000-0000-0000-000000000000'),
			'project_id', nullif($7::uuid, '00000000-0000-0000-0000-000000000000')))`

const columns = `xid, seq, event_id, stream, subject, aggregate, sequence, org_id, project_id, correlation_id, trace, payload, occurred_at`

// Below the horizon only: an open transaction may still commit a lower position.
const belowHorizon = `xid < pg_snapshot_xmin(pg_current_snapshot())`

const selectTenant = `
	SELECT ` + columns + ` FROM outbox_events
	WHERE org_id = $1 AND (xid, seq) > ($2::xid8, $3) AND ` + belowHorizon + `
	ORDER BY xid, seq LIMIT $4`

// One probe per stream, because the index leads with it.
const selectAll = `
	SELECT e.* FROM unnest(ARRAY['PROVISIONING', 'BILLING', 'PAYMENTS']) AS s (name) CROSS JOIN LATERAL (
		SELECT ` + columns + ` FROM outbox_events
		WHERE stream = s.name AND (xid, seq) > ($1::xid8, $2) AND ` + belowHorizon + `
		ORDER BY xid, seq LIMIT $3) e
	ORDER BY e.xid, e.seq LIMIT $3`

const selectStream = `
	SELECT ` + columns + ` FROM outbox_events
	WHERE stream = $1 AND (xid, seq) > ($2::xid8, $3) AND ` + belowHorizon + `
	ORDER BY xid, seq LIMIT $4`

const selectPosition = `
	SELECT xid, seq FROM outbox_events
	WHERE event_id = $1 AND (org_id = $2 OR $2 = '00000000-0000-0000-0000-000000000000')`

const selectHorizon = `SELECT (pg_snapshot_xmin(pg_current_snapshot())::text::numeric - 1)::text::xid8`
