package nodehealth

const (
	// Two reports of one node must not interleave their devices.
	lockNode = `
		SELECT (spec->>'gpus')::int, sku, name, lifecycle, health, message, reachability, version, fingerprint, accepted, changed, mounts_missing FROM nodes WHERE id = $1 FOR UPDATE`
	selectCards = `
		SELECT g.uuid, g.index, g.present, CASE WHEN g.contested_by = '{}' THEN '{}' ELSE ARRAY (SELECT n.name FROM nodes n
			WHERE n.id = ANY(g.contested_by) AND n.lifecycle <> 'retired' ORDER BY n.name) END
		FROM gpus g WHERE g.node_id = $1 ORDER BY g.index, g.uuid`
	// GPUs that the node reports and that belong to other nodes.
	selectContested = `
		SELECT g.uuid || ' of node ' || n.name FROM gpus g JOIN nodes n ON n.id = g.node_id
		WHERE g.contested_by <> '{}' AND g.contested_by @> ARRAY[$1::uuid] AND n.lifecycle <> 'retired' ORDER BY 1`
	// An expired override is ignored. The next write deletes it.
	selectReports = `
		SELECT source, target, check_id, level, message, action, classes, since, until, actor FROM health_reports
		WHERE node_id = $1 AND (until IS NULL OR until > now()) ORDER BY source, target, check_id`
	selectOwnHolds = `
		SELECT h.id, coalesce(s.gpu_uuid, ''), h.cause FROM holds h LEFT JOIN slots s ON s.id = h.slot_id
		WHERE h.node_id = $1 AND h.lifted_at IS NULL AND h.owner = 'system' AND h.cause IN ('health', 'fingerprint') ORDER BY h.id`
	// The value of a source stays until the source reports another one.
	reportRows = `jsonb_to_recordset($2) AS r(source text, target text, check_id text, level text, message text, action text, classes text[], since timestamptz)`
	putReports = `
		INSERT INTO health_reports AS h (node_id, source, target, check_id, level, message, action, classes, since)
		SELECT $1, source, target, check_id, level, message, action, coalesce(classes, '{}'), CASE WHEN since < '1970-01-02' THEN now() ELSE since END FROM ` + reportRows + `
		ORDER BY source, target, check_id
		ON CONFLICT (node_id, source, target, check_id) DO UPDATE SET level = excluded.level, message = excluded.message, action = excluded.action,
			classes = excluded.classes, since = CASE WHEN h.level = excluded.level THEN h.since ELSE now() END, observed_at = now()
		WHERE (h.level, h.message, h.action, h.classes) IS DISTINCT FROM (excluded.level, excluded.message, excluded.action, excluded.classes)`
	forgetReports = `
		DELETE FROM health_reports h WHERE h.node_id = $1 AND (h.until <= now() OR h.source <> 'operator'
			AND NOT EXISTS (SELECT FROM ` + reportRows + ` WHERE (r.source, r.target, r.check_id) = (h.source, h.target, h.check_id)))`
	selectOf = `
		SELECT source, target, check_id, level, message, action, classes, since, until, actor FROM health_reports
		WHERE node_id = $1 AND (until IS NULL OR until > now()) ORDER BY target, level = 'healthy', source, check_id`
	// Transactions that set holds run one after the other, because each must see the holds of the
	// others.
	lockBreaker = `SELECT pg_advisory_xact_lock(hashtextextended('inventory.breaker', 0))`
	// A window starts again when an operator clears the breaker. A higher limit starts none.
	selectBreaker = `
		SELECT (SELECT count(*) FROM nodes WHERE lifecycle <> 'retired'),
			count(DISTINCT h.node_id) FILTER (WHERE h.node_id <> $1), count(*) FILTER (WHERE h.node_id = $1) > 0,
			coalesce((SELECT allowed FROM breaker_trips WHERE cleared_at IS NULL), 0),
			coalesce((SELECT fleet FROM breaker_trips WHERE cleared_at IS NULL), 0)
		FROM holds h WHERE h.cause IN ('health', 'fingerprint') AND h.owner = 'system'
			AND h.created_at > greatest(now() - $2::interval, (SELECT max(cleared_at) FROM breaker_trips WHERE cleared_by <> 'policy'))`
	tripBreaker = `
		INSERT INTO breaker_trips AS t (held, allowed, fleet, reason, rejected_nodes) VALUES ($2, $3, $4, $5, ARRAY[$1::uuid])
		ON CONFLICT ((true)) WHERE cleared_at IS NULL DO UPDATE SET rejected_nodes = t.rejected_nodes || $1::uuid WHERE NOT $1 = ANY (t.rejected_nodes)
		RETURNING t.id, t.xmax = 0`
	selectTrip   = `SELECT id, tripped_at, held, allowed, fleet, reason, cardinality(rejected_nodes), cleared_at, cleared_by FROM breaker_trips ORDER BY tripped_at DESC LIMIT 1`
	clearBreaker = `UPDATE breaker_trips SET cleared_at = now(), cleared_by = $1 WHERE cleared_at IS NULL`
	selectIll    = `
		SELECT DISTINCT node_id FROM health_reports
		WHERE (until <= now() OR level <> 'healthy' AND NOT EXISTS (SELECT FROM breaker_trips WHERE cleared_at IS NULL
				AND allowed >= greatest($3::int, fleet * $4::int / 100))) AND node_id > $1
		UNION SELECT g.node_id FROM gpus g WHERE g.contested_by <> '{}' AND g.node_id > $1
			AND NOT EXISTS (SELECT FROM health_reports h WHERE h.node_id = g.node_id AND h.target = g.uuid AND h.check_id = 'gpu_contested')
		ORDER BY node_id LIMIT $2`
	putOverride = `
		INSERT INTO health_reports AS h (node_id, source, target, check_id, level, message, classes, until, actor)
		SELECT id, 'operator', $2, $3, $4, $5, $6, $7, $8 FROM nodes WHERE id = $1
		ON CONFLICT (node_id, source, target, check_id) DO UPDATE SET level = excluded.level, message = excluded.message, classes = excluded.classes,
			until = excluded.until, actor = excluded.actor, since = now(), observed_at = now()`
	dropOverride = `DELETE FROM health_reports WHERE node_id = $1 AND source = 'operator' AND target = $2 AND check_id = $3`
	// For display. The fault table decides which part a tenant may see.
	selectShown = `
		SELECT c.allocation_id, r.check_id, r.since FROM slot_claims c JOIN slots s ON s.id = c.slot_id
			JOIN health_reports r ON r.node_id = s.node_id AND r.target = s.gpu_uuid
		WHERE c.allocation_id = ANY ($1) AND upper_inf(c.period) AND r.level <> 'healthy' AND r.source <> 'operator'
			AND NOT EXISTS (SELECT FROM health_reports o WHERE o.node_id = r.node_id AND o.source = 'operator' AND o.target = r.target
				AND o.check_id = r.check_id AND o.level = 'healthy' AND (o.until IS NULL OR o.until > now()))
		ORDER BY c.allocation_id, r.since, r.check_id`
)
