package check

// rule is an invariant and the statement that returns its violations.
type rule struct {
	promise string
	live    bool // the statement receives the names of live allocations
	rested  bool
	broken  string
}

var rules = []rule{
	{promise: "INV-01 one slot, one holder", broken: `
		SELECT format('slot %s is assigned to %s and %s', a.slot_id, a.allocation_id, b.allocation_id)
		FROM slot_claims a JOIN slot_claims b ON a.slot_id = b.slot_id AND a.allocation_id < b.allocation_id AND a.period && b.period`},
	{promise: "INV-02 n slots or none", broken: `
		SELECT format('%s has %s claims for %s GPUs', a.name, count(c.slot_id), a.gpus)
		FROM allocations a LEFT JOIN slot_claims c ON c.allocation_id = a.id GROUP BY a.id HAVING count(c.slot_id) <> a.gpus`},
	{promise: "INV-03 claims end and slots are clean", live: true, broken: `
		SELECT format('slot %s of %s is %s (%s), assigned to %s', s.id, n.name, s.status, s.reason, coalesce(a.name, 'no allocation'))
		FROM slots s JOIN nodes n ON n.id = s.node_id
		LEFT JOIN slot_claims c ON c.slot_id = s.id AND upper_inf(c.period) LEFT JOIN allocations a ON a.id = c.allocation_id
		WHERE s.status <> CASE WHEN a.name = ANY($1) AND a.status = 'active' THEN 'claimed' ELSE 'clean' END
			OR c.slot_id IS NOT NULL AND NOT coalesce(a.name = ANY($1) AND a.status = 'active', false)`},
	{promise: "INV-04 history is a chain", broken: `
		SELECT format('%s: version %s goes from %s, but was %s', a.name, t.version, t.from_status, t.before)
		FROM (SELECT *, lag(to_status, 1, '') OVER w AS before FROM allocation_transitions WINDOW w AS (PARTITION BY allocation_id ORDER BY version)) t
		JOIN allocations a ON a.id = t.allocation_id WHERE t.from_status <> t.before
		UNION ALL
		SELECT format('%s is %s at version %s, its history ends in %s at %s', a.name, a.status, a.version, t.to_status, t.version)
		FROM allocations a CROSS JOIN LATERAL (
			SELECT * FROM allocation_transitions WHERE allocation_id = a.id ORDER BY version DESC LIMIT 1) t
		WHERE (a.status, a.version) <> (t.to_status, t.version)`},
	{promise: "INV-05 every allocation reached its goal", live: true, broken: `
		SELECT format('%s is %s: %s', name, status, message) FROM allocations
		WHERE NOT (status = 'released' OR status = 'active' AND name = ANY($1))
		UNION ALL
		SELECT format('%s should be active', l) FROM unnest($1::text[]) l WHERE NOT EXISTS (SELECT FROM allocations WHERE name = l AND status = 'active')`},
	{promise: "INV-06 one effect for one key", broken: `
		SELECT format('%s was created %s times', name, count(*)) FROM allocations GROUP BY project_id, name HAVING count(*) > 1
		UNION ALL
		SELECT format('the response stored for key %s names %s, which is not there', key, reply->>'id')
		FROM (SELECT key, route, convert_from(body, 'UTF8')::jsonb AS reply FROM idempotency_keys WHERE status IN (201, 202) AND NOT encrypted) k
		WHERE reply ? 'id' AND route LIKE '%allocations%' AND NOT EXISTS (SELECT FROM allocations a WHERE a.id::text = k.reply->>'id')`},
	{promise: "INV-05 no declaration is left", live: true, broken: `
		SELECT format('%s %s is still declared (released %s)', kind, name, spec->>'released') FROM desired_objects
		WHERE kind = 'Allocation' AND NOT name = ANY($1)`},
	{promise: "INV-05 nothing is overdue", broken: `
		SELECT format('%s %s is due since %s: %s', kind, object_id, now() - due_at, reason) FROM reconcile_due WHERE due_at < now() - interval '3 seconds'`},
	{promise: "INV-19 no task waits", broken: `
		SELECT format('task %s of %s is %s', type, coalesce(a.name, t.allocation_id::text, 'its node'), t.status)
		FROM node_tasks t LEFT JOIN allocations a ON a.id = t.allocation_id WHERE t.status IN ('queued', 'delivered', 'running')`},
	// River rescues the job of a killed worker after 90 s and up to 30 s more; until then it is in
	// the state running. River discards a job with a single attempt then, and its successor does
	// the work.
	{promise: "INV-21 no job is stuck", broken: `
		SELECT format('%s %s is %s since %s, attempt %s: %s', kind, id, state, now() - coalesce(attempted_at, created_at), attempt, args)
		FROM river.river_job WHERE state IN ('available', 'retryable', 'pending') AND scheduled_at < now() - interval '3 seconds'
			OR state = 'running' AND attempted_at < now() - CASE
				WHEN kind IN ('check_ledger', 'maintenance') THEN interval '31 minutes' -- River rescues no job before its timeout
				WHEN kind IN ('check_drift', 'check_meters', 'check_health') THEN interval '6 minutes'
				ELSE interval '130 seconds' END
			OR state = 'discarded' AND NOT (max_attempts = 1 AND errors[1]->>'error' LIKE 'Stuck job rescued%')`},
	{promise: "INV-23 one fact for one change", broken: `
		SELECT format('%s has %s facts at sequence %s', aggregate, count(*), sequence) FROM outbox_events GROUP BY aggregate, sequence HAVING count(*) > 1
		UNION ALL
		SELECT format('event id %s occurs %s times', event_id, count(*)) FROM outbox_events GROUP BY event_id HAVING count(*) > 1
		UNION ALL
		SELECT format('%s %s: fact %s', a.name, t.to_status, coalesce(e.subject, 'is missing'))
		FROM allocation_transitions t
		JOIN allocations a ON a.id = t.allocation_id
		LEFT JOIN outbox_events e ON e.aggregate = 'allocation:' || t.allocation_id AND e.sequence = t.version
		WHERE t.trigger <> 'updated' AND e.subject IS DISTINCT FROM CASE t.to_status WHEN 'requested' THEN 'provisioning.requested' WHEN 'active' THEN 'provisioning.active'
			WHEN 'releasing' THEN 'provisioning.releasing.requested' WHEN 'released' THEN 'provisioning.releasing.completed'
			WHEN 'failed' THEN 'provisioning.failed' WHEN 'release_failed' THEN 'provisioning.release_failed' END`},
	{promise: "INV-24 the relay has caught up", broken: `
		SELECT format('%s: %s facts are not published', e.stream, count(*))
		FROM outbox_events e LEFT JOIN outbox_position p ON p.stream = e.stream
		WHERE p.stream IS NULL OR (e.xid, e.seq) > (p.xid, p.seq) GROUP BY e.stream`},
	{promise: "INV-28 no dead letter", broken: `SELECT format('%s failed %s times in %s: %s', event_id, attempts, consumer, error) FROM dead_letters WHERE dead_at IS NOT NULL`},
	{promise: "INV-33 metered from active to the release", live: true, broken: `
		SELECT format('%s was active %s times and began %s times, %s open', a.name, t.n, u.n, u.open) FROM allocations a
		CROSS JOIN LATERAL (SELECT count(*) AS n FROM allocation_transitions WHERE allocation_id = a.id AND to_status = 'active') t
		CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE opened_by = 'observed_ready') AS n, count(*) FILTER (WHERE end_s IS NULL) AS open
			FROM usage_records WHERE allocation_id = a.id) u
		WHERE t.n <> u.n OR u.open <> (a.name = ANY($1) AND a.paused = '')::int
		UNION ALL
		SELECT format('%s is charged from %s to %s, but was active from %s to %s', a.name, u.start_s, u.end_s, b.at, e.at) FROM usage_records u
		JOIN allocations a ON a.id = u.allocation_id
		CROSS JOIN LATERAL (SELECT extract(epoch FROM min(at)) AS at FROM allocation_transitions WHERE allocation_id = a.id AND to_status = 'active') b
		LEFT JOIN LATERAL (SELECT extract(epoch FROM min(at)) AS at FROM allocation_transitions WHERE allocation_id = a.id AND to_status = 'releasing') e ON true
		WHERE u.start_s < floor(b.at) OR u.opened_by = 'observed_ready' AND u.start_s > b.at + 2 OR u.end_s > e.at + 2`},
	{promise: "INV-33 intervals tile what is used", broken: `
		SELECT format('%s: [%s, %s) and [%s, %s) overlap', a.allocation_id, a.start_s, a.end_s, b.start_s, b.end_s)
		FROM usage_records a JOIN usage_records b ON a.allocation_id = b.allocation_id AND a.id < b.id AND int8range(a.start_s, a.end_s) && int8range(b.start_s, b.end_s)
		UNION ALL
		SELECT format('%s: %s at %s is followed by %s at %s', allocation_id, closed_by, end_s, opened_next, next)
		FROM (SELECT *, lead(start_s) OVER w AS next, lead(opened_by) OVER w AS opened_next FROM usage_records WINDOW w AS (PARTITION BY allocation_id ORDER BY start_s, end_s)) u
		WHERE CASE closed_by WHEN 'price_changed' THEN (next, opened_next) IS DISTINCT FROM (end_s, 'price_changed')
			WHEN 'release_requested' THEN next IS NOT NULL ELSE opened_next <> 'observed_again' END`},
	{promise: "INV-33 each interval names its observations", broken: `
		SELECT format('%s opened by %s, closed by %s: observations %s, %s', id, opened_by, closed_by, opened_observation, closed_observation) FROM usage_records
		WHERE opened_by IN ('observed_ready', 'observed_again') AND NOT coalesce(opened_observation ? 'node_id' AND opened_observation ? 'seen_at', false)
			OR closed_by IN ('observation_stale', 'node_unhealthy') AND NOT coalesce(closed_observation ? 'node_id' AND closed_observation ? 'seen_at', false)`},
	{promise: "INV-34 the displayed amount is the charged amount", broken: `
		SELECT format('%s shows %s and is charged %s', a.name, a.price_minor, u.price_minor)
		FROM usage_records u JOIN allocations a ON a.id = u.allocation_id WHERE u.end_s IS NULL AND (a.price_minor, a.currency) <> (u.price_minor, u.currency)`},
	{promise: "INV-33 a pause is credited", broken: `
		SELECT format('%s ended by %s at %s; credited [%s, %s) for %s: %s, in the ledger %s', r.allocation_id, r.closed_by, r.end_s, c.from_s, c.to_s, c.reason, c.amount_minor, e.amount)
		FROM usage_credits c JOIN usage_records r ON r.id = c.record_id
		LEFT JOIN LATERAL (SELECT sum(amount_minor) AS amount FROM ledger_entries WHERE transfer_id = c.transfer_id AND amount_minor > 0) e ON true
		WHERE (c.reason, c.to_s) <> (r.closed_by, r.end_s) AND NOT EXISTS (SELECT FROM fault_reports f WHERE f.allocation_id = r.allocation_id AND f.status = 'confirmed')
			OR c.to_s > r.end_s OR c.from_s < r.start_s OR c.amount_minor <> coalesce(e.amount, 0)
			OR c.amount_minor <> div(r.price_minor::numeric * r.gpus * (c.to_s - r.start_s), 3600) - div(r.price_minor::numeric * r.gpus * (c.from_s - r.start_s), 3600)`},
	{promise: "INV-30 never more is charged than was used", broken: `
		SELECT format('%s owes %s and was charged %s', u.allocation_id, u.due, e.charged) FROM (` + owed + `) u
		JOIN (` + charged + `) e USING (allocation_id) WHERE e.charged > u.due`},
	{promise: "INV-30 all that was used is charged", rested: true, broken: `
		SELECT format('%s owes %s and was charged %s', u.allocation_id, u.due, coalesce(e.charged, 0)) FROM (` + owed + `) u
		LEFT JOIN (` + charged + `) e USING (allocation_id) WHERE u.closed AND u.due <> coalesce(e.charged, 0)`},
	{promise: "INV-30 transfers sum to zero", broken: `
		SELECT format('transfer %s sums to %s %s', transfer_id, sum(amount_minor), currency) FROM ledger_entries GROUP BY transfer_id, currency HAVING sum(amount_minor) <> 0
		UNION ALL
		SELECT format('entry %s has no transfer', e.id) FROM ledger_entries e WHERE NOT EXISTS (SELECT FROM ledger_transfers t WHERE t.id = e.transfer_id)`},
	{promise: "INV-30 ticks tile time, and passes follow them", broken: `
		SELECT format('tick from %s follows one to %s', from_s, before) FROM (SELECT from_s, lag(to_s) OVER (ORDER BY to_s) AS before FROM usage_ticks) t WHERE before <> from_s
		UNION ALL
		SELECT format('tick [%s, %s) spans a midnight', from_s, to_s) FROM usage_ticks WHERE from_s / 86400 <> (to_s - 1) / 86400
		UNION ALL
		SELECT format('the tick up to %s is not charged, and a later one is', to_s) FROM usage_ticks t
		WHERE NOT EXISTS (SELECT FROM usage_passes p WHERE p.to_s = t.to_s) AND EXISTS (SELECT FROM usage_passes p WHERE p.to_s > t.to_s)`},
	{promise: "INV-30 each pass equals its tick", broken: `
		SELECT format('tick up to %s: %s owes %s, charged %s', to_s, allocation_id, due, charged) FROM (
			SELECT t.to_s, u.allocation_id, sum(div(u.price_minor::numeric * u.gpus * (least(coalesce(u.end_s, t.to_s), t.to_s) - u.start_s), 3600)
				- div(u.price_minor::numeric * u.gpus * greatest(t.from_s - u.start_s, 0), 3600)) AS due
			FROM usage_passes p JOIN usage_ticks t ON t.to_s = p.to_s JOIN usage_records u ON u.start_s < t.to_s AND coalesce(u.end_s, t.to_s) > t.from_s
			GROUP BY t.to_s, u.allocation_id) d
		FULL JOIN (
			SELECT split_part(t.reference, ' ', 1)::bigint AS to_s, e.allocation_id, -sum(e.amount_minor) AS charged
			FROM ledger_transfers t JOIN ledger_entries e ON e.transfer_id = t.id
			WHERE t.kind = 'usage' AND e.allocation_id IS NOT NULL GROUP BY 1, 2) c USING (to_s, allocation_id)
		WHERE coalesce(due, 0) <> coalesce(charged, 0)`},
	{promise: "INV-58 one audit row for each request", broken: `
		SELECT format('%s: %s rows of %s', a.name, count(l.id), w.action) FROM allocations a
		CROSS JOIN (VALUES ('allocation.create'), ('allocation.release')) w(action)
		LEFT JOIN audit_logs l ON l.action = w.action AND l.target_urn LIKE '%' || a.id
		WHERE w.action = 'allocation.create' OR a.reason = 'user'
		GROUP BY a.id, a.name, w.action HAVING count(l.id) <> 1`},
	{promise: "INV-17 no drift is open", broken: `SELECT format('%s %s: %s', kind, object_id, field) FROM drift WHERE status = 'open'`},
	{promise: "INV-11 the pointer is at an applied revision", broken: `
		SELECT format('%s points to revision %s, which is %s', p.source, p.revision, r.status)
		FROM desired_pointer p JOIN desired_revisions r USING (revision) WHERE r.status <> 'applied' OR r.commit <> p.commit`},
}

// owed calculates the charge of an interval up to now. It repeats the formula instead of calling
// the code that charges, so that a fault of that code is found.
const owed = `
	SELECT allocation_id, bool_and(end_s IS NOT NULL) AS closed,
		sum(div(price_minor::numeric * gpus * (coalesce(end_s, floor(extract(epoch FROM clock_timestamp()))::bigint) - start_s), 3600)) AS due
	FROM usage_records GROUP BY allocation_id`

const charged = `
	SELECT e.allocation_id, -sum(e.amount_minor) AS charged FROM ledger_entries e JOIN ledger_transfers t ON t.id = e.transfer_id AND t.kind = 'usage'
	WHERE e.allocation_id IS NOT NULL GROUP BY e.allocation_id`
