package webhook

const (
	endpointColumns = `id, org_id, project_id, name, url, patterns, format, signature, public_key, previous_until, failing_since,
		blocked_until, disabled_at, disabled_why, version, created_at, updated_at, secret_enc, previous_enc`

	// The zero project of a scope matches all.
	inScope = `org_id = $1 AND ($2 = '00000000-0000-0000-0000-000000000000'::uuid OR project_id = $2)`

	selectEndpoints = `SELECT ` + endpointColumns + ` FROM webhook_endpoints WHERE ` + inScope + ` AND name > $3 ORDER BY name LIMIT $4`

	selectEndpoint = `SELECT ` + endpointColumns + ` FROM webhook_endpoints WHERE ` + inScope + ` AND id = $3`

	selectActive = `
	SELECT ` + endpointColumns + ` FROM webhook_endpoints
	WHERE id = $1 AND disabled_at IS NULL AND (blocked_until IS NULL OR blocked_until <= now())`

	countEndpoints = `SELECT count(*), coalesce(bool_or(name = $2), false) FROM webhook_endpoints WHERE org_id = $1`

	// Two requests must not both be the last one below the limit.
	lockTenant = `SELECT pg_advisory_xact_lock(hashtext('webhooks'), hashtext($1::uuid::text))`

	insertEndpoint = `
	INSERT INTO webhook_endpoints (id, org_id, project_id, name, url, patterns, format, signature, public_key, secret_enc, created_by, created_at, updated_at)
	SELECT $1, $2, nullif($3, '00000000-0000-0000-0000-000000000000'::uuid), $4, $5, $6, $7, $8, $9, $10, $11, $12, $12
	WHERE (SELECT count(*) FROM webhook_endpoints WHERE org_id = $2) < $13 ON CONFLICT DO NOTHING`

	// An endpoint that is enabled, or has another URL, begins without failures and without a pause. What was due before
	// stays due.
	updateEndpoint = `
	UPDATE webhook_endpoints SET name = $3, url = $4, patterns = $5, format = $6, version = version + 1, updated_at = $9, disabled_at = $7, disabled_why = $8,
		failing_since = CASE WHEN url = $4 AND (disabled_at IS NULL OR $7::timestamptz IS NOT NULL) THEN failing_since END,
		blocked_until = CASE WHEN url = $4 AND (disabled_at IS NULL OR $7::timestamptz IS NOT NULL) THEN blocked_until END,
		retry_at = CASE WHEN url = $4 OR retry_at IS NULL THEN retry_at ELSE now() END
	WHERE id = $1 AND version = $2 AND (name = $3 OR NOT EXISTS (SELECT FROM webhook_endpoints o WHERE o.org_id = webhook_endpoints.org_id AND o.name = $3))`

	deleteEndpoint = `DELETE FROM webhook_endpoints WHERE id = $1 AND version = $2`

	deleteOf = `DELETE FROM webhook_endpoints WHERE org_id = $1`

	rotateEndpoint = `
	UPDATE webhook_endpoints SET secret_enc = $3, public_key = $4, previous_enc = $5, previous_until = $6, version = version + 1, updated_at = $7
	WHERE id = $1 AND version = $2`

	// The lock ends before that of the end of a job begins, so that the job finds the delivery.
	lockTargets = `
	SELECT id, format, disabled_at IS NOT NULL FROM webhook_endpoints
	WHERE org_id = $1 AND (project_id IS NULL OR project_id = $2) AND patterns && $3 ORDER BY id FOR SHARE`

	shareEndpoint = `SELECT FROM webhook_endpoints WHERE id = $1 AND disabled_at IS NULL FOR SHARE`

	lockEndpoint = `SELECT FROM webhook_endpoints WHERE id = $1 FOR UPDATE`

	insertDelivery = `
	INSERT INTO webhook_deliveries (id, endpoint_id, org_id, project_id, event_id, event_type, body, status, next_at)
	VALUES ($1, $2, $3, nullif($4, '00000000-0000-0000-0000-000000000000'::uuid), $5, $6, $7,
		CASE WHEN $8::boolean THEN 'skipped' ELSE 'pending' END, CASE WHEN NOT $8 THEN now() END)
	ON CONFLICT DO NOTHING`

	selectDue = `
	SELECT id, event_id, body, attempts FROM webhook_deliveries
	WHERE endpoint_id = $1 AND status = 'pending' AND next_at <= now() ORDER BY next_at, id LIMIT $2`

	// $2 is the number of delivered and $3 that of failed requests, $4 a pause of the endpoint, $5 the time of failures
	// after which it is disabled. Failures begin again after two days without a request, which no schedule has.
	updateState = `
	WITH before AS (
		SELECT CASE WHEN failed_at > now() - interval '2 days' THEN failing_since END AS failing_since, recovering
		FROM webhook_endpoints WHERE id = $1 AND disabled_at IS NULL FOR UPDATE)
	UPDATE webhook_endpoints e SET
		failing_since = CASE WHEN $3::int = 0 THEN NULL WHEN $2::int > 0 THEN now() ELSE coalesce(before.failing_since, now()) END,
		failed_at = CASE WHEN $3 > 0 THEN now() ELSE failed_at END,
		blocked_until = CASE WHEN $4::interval > '0' THEN now() + $4::interval END,
		recovering = e.recovering AND $2 = 0
	FROM before WHERE e.id = $1
	RETURNING coalesce($2 = 0 AND before.failing_since < now() - $5::interval, false), before.recovering AND $2 > 0`

	// The lowest and the highest id limit the partitions. A delivery that was changed meanwhile, by a resend or by a worker
	// that continued after its job, stays as it is. One that was skipped meanwhile is delivered if the receiver has it.
	updateResults = `
	UPDATE webhook_deliveries d SET status = r.status, attempts = d.attempts + 1, next_at = CASE WHEN r.status = 'pending' THEN now() + make_interval(secs => r.pause) END,
		attempt_log = CASE WHEN jsonb_array_length(d.attempt_log) < 20 THEN d.attempt_log ELSE d.attempt_log - 0 END || r.attempt::jsonb,
		response = r.response, updated_at = now()
	FROM unnest($1::uuid[], $2::int[], $3::text[], $4::float8[], $5::text[], $6::text[]) AS r (id, attempts, status, pause, attempt, response)
	WHERE d.id = r.id AND d.id BETWEEN $7 AND $8 AND (d.status = 'pending' OR d.status = 'skipped' AND r.status = 'delivered') AND d.attempts = r.attempts`

	disableEndpoint = `
	UPDATE webhook_endpoints SET disabled_at = now(), disabled_why = $2, recovering = true, retry_at = NULL, version = version + 1, updated_at = now()
	WHERE id = $1`

	skipPending = `UPDATE webhook_deliveries SET status = 'skipped', next_at = NULL, updated_at = now() WHERE endpoint_id = $1 AND status = 'pending'`

	storeDue = `
	WITH due AS (
		SELECT e.disabled_at, (SELECT greatest(min(next_at), e.blocked_until) FROM webhook_deliveries WHERE endpoint_id = e.id AND status = 'pending' HAVING min(next_at) IS NOT NULL) AS at
		FROM webhook_endpoints e WHERE e.id = $1),
	changed AS (UPDATE webhook_endpoints SET retry_at = due.at FROM due WHERE id = $1 AND retry_at IS DISTINCT FROM due.at)
	SELECT coalesce(at <= now() AND disabled_at IS NULL, false) FROM due`

	existsRetry = `SELECT EXISTS (SELECT FROM webhook_endpoints WHERE retry_at <= now() AND disabled_at IS NULL)`

	selectRetries = `SELECT id FROM webhook_endpoints WHERE retry_at <= now() AND disabled_at IS NULL ORDER BY retry_at LIMIT $1`

	deliveryColumns = `id, endpoint_id, org_id, project_id, event_id, event_type, status, attempt_log, response, next_at, created_at, updated_at`

	selectDeliveries = `
	SELECT ` + deliveryColumns + ` FROM webhook_deliveries
	WHERE endpoint_id = $1 AND ($2 = '' OR status = $2) AND id < $3 ORDER BY id DESC LIMIT $4`

	selectDelivery = `SELECT ` + deliveryColumns + ` FROM webhook_deliveries WHERE endpoint_id = $1 AND id = $2`

	resendDelivery = `UPDATE webhook_deliveries SET status = 'pending', attempts = 0, next_at = $2, updated_at = $2 WHERE id = $1`

	// The id begins with the time of the event.
	replayed = `endpoint_id = $1 AND status <> 'pending' AND ($2::boolean OR status IN ('skipped', 'failed')) AND ($3::timestamptz IS NULL OR id >= id_floor($3))`

	countReplayed = `SELECT count(*) FROM (SELECT FROM webhook_deliveries WHERE ` + replayed + ` LIMIT $4 + 1) AS chosen`

	replayDeliveries = `UPDATE webhook_deliveries SET status = 'pending', attempts = 0, next_at = now(), updated_at = now() WHERE ` + replayed

	selectOldSecrets = `
	SELECT id, ARRAY[secret_enc, CASE WHEN previous_until > now() THEN previous_enc END] FROM webhook_endpoints
	WHERE (substr(secret_enc, 1, length($1::bytea)) <> $1 OR previous_enc IS NOT NULL AND substr(previous_enc, 1, length($1)) <> $1) AND id > $2
	ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED`

	resealSecrets = `
	UPDATE webhook_endpoints SET secret_enc = $2, previous_enc = $3, previous_until = CASE WHEN $3::bytea IS NOT NULL THEN previous_until END WHERE id = $1`

	countOldSecrets = `
	SELECT count(*) FROM webhook_endpoints
	WHERE substr(secret_enc, 1, length($1::bytea)) <> $1 OR previous_until > now() AND substr(previous_enc, 1, length($1)) <> $1`

	// Of an endpoint that works, or that was not tried yet: the others wait for their receivers.
	selectBacklog = `
	SELECT coalesce(extract(epoch FROM now() - min(d.next_at)), 0)::float8
	FROM webhook_endpoints e CROSS JOIN LATERAL (
		SELECT min(next_at) AS next_at FROM webhook_deliveries WHERE endpoint_id = e.id AND status = 'pending') d
	WHERE e.disabled_at IS NULL AND e.failing_since IS NULL AND (e.blocked_until IS NULL OR e.blocked_until <= now()) AND d.next_at <= now()`
)
