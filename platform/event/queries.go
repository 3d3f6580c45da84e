package event

const insertEvent = `
	INSERT INTO outbox_events (event_id, stream, subject, aggregate, sequence, org_id, project_id, correlation_id, trace, payload)
	VALUES ($1, $2, $3, $4, $5,
		nullif($6::uuid, '00000000-0000-0000-0000-000000000000'),
		nullif($7::uuid, '00000000-0000-0000-0000-000000000000'), $9, $10,
		$11::jsonb || jsonb_build_object('urn', $8::text,
			'tenant_id', nullif($6::uuid, '00000000-0000-0000-0000-000000000000'),
			'project_id', nullif($7::uuid, '00000000-0000-0000-0000-000000000000'))
			|| jsonb_strip_nulls(jsonb_build_object('user_id', nullif($12::uuid, '00000000-0000-0000-0000-000000000000'))))`

// Columns lists the columns that Scan reads.
const Columns = `xid, seq, event_id, stream, subject, aggregate, sequence, org_id, project_id, correlation_id, trace, payload, occurred_at`

// Below the horizon only: an open transaction may still commit a lower position.
const belowHorizon = `xid < xact_horizon()`

const selectTenant = `
	SELECT ` + Columns + ` FROM outbox_events
	WHERE org_id = $1 AND (xid, seq) > ($2::xid8, $3) AND ` + belowHorizon + `
	ORDER BY xid, seq LIMIT $4`

// One probe per stream, because the index leads with it.
const selectAll = `
	SELECT e.* FROM unnest(ARRAY['PROVISIONING', 'BILLING', 'PAYMENTS', 'FLEET']) AS s (name) CROSS JOIN LATERAL (
		SELECT ` + Columns + ` FROM outbox_events
		WHERE stream = s.name AND (xid, seq) > ($1::xid8, $2) AND ` + belowHorizon + `
		ORDER BY xid, seq LIMIT $3) e
	ORDER BY e.xid, e.seq LIMIT $3`

const selectStream = `
	SELECT ` + Columns + ` FROM outbox_events
	WHERE stream = $1 AND (xid, seq) > ($2::xid8, $3) AND ` + belowHorizon + `
	ORDER BY xid, seq LIMIT $4`

const selectPosition = `
	SELECT xid, seq FROM outbox_events
	WHERE event_id = $1 AND (org_id = $2 OR $2 = '00000000-0000-0000-0000-000000000000')`

const selectEvent = `SELECT ` + Columns + ` FROM outbox_events WHERE event_id = $1`

const selectHorizon = `SELECT (xact_horizon()::text::numeric - 1)::text::xid8`

// Statements of the relay. It runs all but the first on the connection that owns the lock, so a relay
// that has lost the lock cannot move a position.
const (
	tryLead = `SELECT pg_try_advisory_lock(hashtextextended('event.relay', 0))`

	// Another epoch: the stream was lost, and is filled from the first fact.
	ensurePosition = `
	INSERT INTO outbox_position (stream, epoch, xid, seq) VALUES ($1, $2, '0', 0)
	ON CONFLICT (stream) DO UPDATE
	SET epoch = excluded.epoch, xid = excluded.xid, seq = excluded.seq, moved_at = now()
	WHERE outbox_position.epoch <> excluded.epoch`

	readPosition = `SELECT xid, seq, acked FROM outbox_position WHERE stream = $1`

	readAcked = `SELECT coalesce((SELECT acked FROM outbox_position WHERE stream = $1), 0)`

	movePosition = `UPDATE outbox_position SET xid = $2::xid8, seq = $3, acked = $4, moved_at = now() WHERE stream = $1`

	countFailure = `
	INSERT INTO outbox_failures (event_id, stream, retry_count, last_error) VALUES ($1, $2, 1, $3)
	ON CONFLICT (event_id) DO UPDATE
	SET retry_count = outbox_failures.retry_count + 1, last_error = excluded.last_error, last_attempted_at = now()
	RETURNING retry_count`

	markDead = `
	WITH dead AS (UPDATE outbox_failures SET dead_at = now() WHERE event_id = $2 RETURNING *)
	INSERT INTO dead_letters (id, consumer, event_id, stream, subject, error, attempts, failed_at, dead_at)
	SELECT $1, $4, event_id, stream, $3, last_error, retry_count, last_attempted_at, dead_at FROM dead
	ON CONFLICT (consumer, event_id) DO UPDATE SET
		attempts = excluded.attempts, error = excluded.error, failed_at = excluded.failed_at, dead_at = excluded.dead_at,
		retry_at = NULL, resolved_at = NULL, resolution = ''`

	selectRetries = `
	SELECT e.xid, e.seq, e.event_id, e.stream, e.subject, e.aggregate, e.sequence, e.org_id, e.project_id, e.correlation_id, e.trace, e.payload, e.occurred_at
	FROM dead_letters d JOIN outbox_events e USING (event_id)
	WHERE d.consumer = $1 AND d.retry_at IS NOT NULL AND d.resolved_at IS NULL ORDER BY d.retry_at LIMIT 100`

	endRetry = `
	UPDATE dead_letters SET retry_at = NULL, attempts = attempts + 1,
		error = CASE WHEN $3 = '' THEN error ELSE $3 END, failed_at = CASE WHEN $3 = '' THEN failed_at ELSE now() END,
		resolved_at = CASE WHEN $3 = '' THEN now() END, resolution = CASE WHEN $3 = '' THEN 'retried' ELSE '' END
	WHERE consumer = $2 AND event_id = $1`
)

// The count stops at a limit. A backlog of ten thousand needs the same reaction as one of a million, and
// a count of a million rows is slow.
const selectBacklog = `
	SELECT s.name, count(e.occurred_at), coalesce(extract(epoch FROM now() - min(e.occurred_at)), 0)::float8,
		(SELECT count(*) FROM dead_letters d WHERE d.stream = s.name AND d.dead_at IS NOT NULL AND d.resolved_at IS NULL)
	FROM unnest(ARRAY['PROVISIONING', 'BILLING', 'PAYMENTS', 'FLEET', 'DLQ']) AS s (name)
	LEFT JOIN outbox_position p ON p.stream = s.name
	LEFT JOIN LATERAL (
		SELECT occurred_at FROM outbox_events
		WHERE stream = s.name AND (xid, seq) > (coalesce(p.xid, '0'), coalesce(p.seq, 0))
		ORDER BY xid, seq LIMIT 10000) e ON true
	GROUP BY s.name ORDER BY s.name`
