package inventory

// A slot is sold where all of this is so: whether a hold stands is on the slot
// itself, for only the row that a claim waits for is read again after the wait.
const (
	sells    = `s.status = 'clean' AND coalesce(s.held_until, '-infinity') <= now() AND ` + onMarket
	onMarket = `n.lifecycle = 'active' AND n.reachability = 'reachable' AND NOT n.cordoned`
)

const (
	declareNode = `
		INSERT INTO nodes AS n (id, name, sku, region, onboarding, expected_gpus, lifecycle, hardware, cordoned, address)
		VALUES ($1, $2, $3, $4, $5, $6, 'declared', $7, $8, $9)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, sku = excluded.sku, region = excluded.region, onboarding = excluded.onboarding,
			expected_gpus = excluded.expected_gpus, hardware = excluded.hardware, cordoned = excluded.cordoned, address = excluded.address,
			lifecycle = CASE WHEN n.lifecycle = 'retired' THEN 'declared' WHEN NOT n.retiring THEN n.lifecycle
				WHEN n.reachability = 'reachable' THEN 'active' ELSE 'offline' END,
			retiring = false, version = n.version + 1, updated_at = now()
		WHERE n.lifecycle = 'retired' OR n.retiring OR (n.name, n.sku, n.region, n.onboarding, n.expected_gpus, n.hardware, n.cordoned, n.address) IS DISTINCT FROM
			(excluded.name, excluded.sku, excluded.region, excluded.onboarding, excluded.expected_gpus, excluded.hardware, excluded.cordoned, excluded.address)`
	// A node that is sold as something else sells its slots as that, once free.
	// One that was retired and is declared again is on the market again.
	resellSlots = `
		UPDATE slots SET sku = $2, region = $3, updated_at = now(),
			status = CASE WHEN reason = 'retired' THEN 'clean' ELSE status END, reason = CASE WHEN reason = 'retired' THEN '' ELSE reason END
		WHERE node_id = $1 AND ((sku, region) <> ($2, $3) OR reason = 'retired')`
	// Off the market first, so that a claim which waits for a slot finds none clean.
	drainNode = `
		UPDATE nodes SET lifecycle = 'draining', retiring = true, version = version + 1, updated_at = now()
		WHERE id = $1 AND NOT retiring AND lifecycle <> 'retired'`
	retireDrained   = `WITH node AS (SELECT id FROM nodes WHERE id = $1 AND retiring)` + andRetire
	retireDrainedOf = `WITH node AS (SELECT id FROM nodes WHERE id = ` + nodeOf + ` AND retiring)` + andRetire
	andRetire       = `, held AS (
			SELECT s.id, s.status FROM slots s JOIN node ON node.id = s.node_id ORDER BY s.id FOR UPDATE OF s
		), off AS (
			UPDATE slots SET status = 'quarantined', reason = 'retired', updated_at = now()
			FROM held WHERE slots.id = held.id AND held.status = 'clean'
		)
		UPDATE nodes SET lifecycle = 'retired', retiring = false, version = version + 1, updated_at = now()
		FROM node WHERE nodes.id = node.id AND NOT EXISTS (SELECT FROM held WHERE status IN ('claimed', 'dirty'))`
	// The node before its slots, as everybody locks them, and before another
	// statement looks at them: of two who leave at once, the later sees that the
	// other has left.
	lockNodeOf  = `SELECT id FROM nodes WHERE id = ` + nodeOf + ` FOR UPDATE`
	nodeOf      = `(SELECT s.node_id FROM slots s JOIN slot_claims c ON c.slot_id = s.id WHERE c.allocation_id = $1 LIMIT 1)`
	countClaims = `
		SELECT node_id, count(*) FROM slots WHERE node_id = ANY($1) AND status IN ('claimed', 'dirty') GROUP BY node_id`
	setReachability = `
		UPDATE nodes SET reachability = $2, version = version + 1, updated_at = now(),
			lifecycle = CASE WHEN $2 = 'stale' AND lifecycle = 'active' THEN 'offline' WHEN $2 = 'reachable' AND lifecycle = 'offline' THEN 'active' ELSE lifecycle END
		WHERE id = $1 AND reachability <> $2`

	// Two reports of one node must not interleave their devices.
	lockNode = `
		SELECT expected_gpus, sku, name, lifecycle, health, message, reachability, version, fingerprint, accepted, changed FROM nodes WHERE id = $1 FOR UPDATE`
	selectCards = `SELECT uuid, index, present FROM gpus WHERE node_id = $1 ORDER BY index, uuid`
	// An override that has ended is none. Who looks next takes it away.
	selectReports = `
		SELECT source, target, check_id, level, message, action, classes, since, until, actor FROM health_reports
		WHERE node_id = $1 AND (until IS NULL OR until > now()) ORDER BY source, target, check_id`
	selectOwnHolds = `
		SELECT h.id, coalesce(s.gpu_uuid, ''), h.cause FROM holds h LEFT JOIN slots s ON s.id = h.slot_id
		WHERE h.node_id = $1 AND h.lifted_at IS NULL AND h.owner = 'system' AND h.cause IN ('health', 'fingerprint') ORDER BY h.id`
	putGPUs = `
		INSERT INTO gpus AS g (uuid, node_id, index, model, memory_mib, health, present)
		SELECT uuid, $1, index, model, memory_mib, health, true
		FROM jsonb_to_recordset($2) AS r(uuid text, index int, model text, memory_mib bigint, health text)
		ORDER BY uuid
		ON CONFLICT (uuid) DO UPDATE SET index = excluded.index, model = excluded.model, memory_mib = excluded.memory_mib, updated_at = now()
		WHERE g.node_id = excluded.node_id AND (g.index, g.model, g.memory_mib) IS DISTINCT FROM (excluded.index, excluded.model, excluded.memory_mib)`
	// Health is all sources' word together.
	setCards = `
		UPDATE gpus g SET health = r.health, reasons = r.reasons, present = r.present, updated_at = now()
		FROM jsonb_to_recordset($2) AS r(uuid text, health text, reasons text[], present boolean)
		WHERE g.uuid = r.uuid AND g.node_id = $1 AND (g.health, g.reasons, g.present) IS DISTINCT FROM (r.health, r.reasons, r.present)`

	// What one source says stands until it says something else.
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
	setTopology  = `UPDATE nodes SET topology = $2 WHERE id = $1 AND topology IS DISTINCT FROM $2::jsonb`
	setChanged   = `UPDATE nodes SET changed = $2, version = version + 1, updated_at = now() WHERE id = $1`
	markHardware = `SELECT mark_due('Node', $1, now(), 'its hardware is another')`
	selectOf     = `
		SELECT source, target, check_id, level, message, action, classes, since, until, actor FROM health_reports
		WHERE node_id = $1 AND (until IS NULL OR until > now()) ORDER BY target, level = 'healthy', source, check_id`
	selectTopology = `SELECT topology, changed FROM nodes WHERE id = $1`
	acceptHardware = `UPDATE nodes SET fingerprint = $2, accepted = $3, changed = '', version = version + 1, updated_at = now() WHERE id = $1`
	selectHardware = `SELECT name, topology, changed FROM nodes WHERE id = $1 FOR UPDATE`

	liftOwn = `UPDATE holds SET lifted_at = now(), lifted_by = $2 WHERE id = ANY($1) AND lifted_at IS NULL`
	putOwn  = `
		INSERT INTO holds (id, node_id, slot_id, kind, cause, owner, reason)
		SELECT w.id, $1, s.id, CASE WHEN w.gpu = '' THEN 'cordon' ELSE 'quarantine' END, w.cause, 'system', w.reason
		FROM jsonb_to_recordset($2) AS w(id uuid, gpu text, cause text, reason text) LEFT JOIN slots s ON s.gpu_uuid = w.gpu AND s.node_id = $1
		WHERE w.gpu = '' OR s.id IS NOT NULL ON CONFLICT DO NOTHING
		RETURNING id, slot_id`
	// Of those who would hold one at a time: what the others held must be seen.
	lockBreaker = `SELECT pg_advisory_xact_lock(hashtextextended('inventory.breaker', 0))`
	// A window that a person has opened anew begins there; a higher bound opens none.
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
		ORDER BY node_id LIMIT $2`
	putOverride = `
		INSERT INTO health_reports AS h (node_id, source, target, check_id, level, message, classes, until, actor)
		SELECT id, 'operator', $2, $3, $4, $5, $6, $7, $8 FROM nodes WHERE id = $1
		ON CONFLICT (node_id, source, target, check_id) DO UPDATE SET level = excluded.level, message = excluded.message, classes = excluded.classes,
			until = excluded.until, actor = excluded.actor, since = now(), observed_at = now()`
	dropOverride = `DELETE FROM health_reports WHERE node_id = $1 AND source = 'operator' AND target = $2 AND check_id = $3`
	// What people look at: what of it a tenant may see is the table's to say.
	selectShown = `
		SELECT c.allocation_id, r.check_id, r.since FROM slot_claims c JOIN slots s ON s.id = c.slot_id
			JOIN health_reports r ON r.node_id = s.node_id AND r.target = s.gpu_uuid
		WHERE c.allocation_id = ANY ($1) AND upper_inf(c.period) AND r.level <> 'healthy' AND r.source <> 'operator'
			AND NOT EXISTS (SELECT FROM health_reports o WHERE o.node_id = r.node_id AND o.source = 'operator' AND o.target = r.target
				AND o.check_id = r.check_id AND o.level = 'healthy' AND (o.until IS NULL OR o.until > now()))
		ORDER BY c.allocation_id, r.since, r.check_id`
	countGPUs = `
		SELECT n.sku, n.region, CASE WHEN g.present THEN g.health ELSE 'missing' END, count(*)
		FROM gpus g JOIN nodes n ON n.id = g.node_id WHERE n.lifecycle <> 'retired' GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`

	// One slot a device under the whole_gpu profile. What is wrong with a new
	// device is seen by the statement after this one.
	putSlots = `
		INSERT INTO slots (id, node_id, gpu_uuid, sku, region, status, held_until)
		SELECT gen_random_uuid(), g.node_id, g.uuid, n.sku, n.region, 'clean',
			CASE WHEN n.cordoned THEN 'infinity' ELSE (SELECT max(` + holdEnds + `) FROM holds h WHERE h.node_id = n.id AND h.slot_id IS NULL AND h.lifted_at IS NULL) END
		FROM gpus g JOIN nodes n ON n.id = g.node_id
		WHERE g.node_id = $1 ON CONFLICT (gpu_uuid) DO NOTHING`
	// What is held is not sold; what is claimed stays with its holder and is kept back
	// when it is freed. One that nothing holds any more is sold again only if that
	// alone had kept it back. The same holds for one that something uses which nobody
	// ordered; without a report that is as it was.
	keptBack        = `CASE WHEN 'health' = ANY (h.causes) THEN 'unhealthy' WHEN h.causes IS NOT NULL THEN 'quarantined by an operator'`
	heldBy          = `LATERAL (SELECT array_agg(cause) AS causes FROM holds WHERE slot_id = s.id AND lifted_at IS NULL) h`
	quarantineSlots = `
		WITH now_is AS (
			SELECT s.id, ` + keptBack + ` WHEN coalesce(s.gpu_uuid = ANY ($2::text[]), s.reason = 'foreign use') THEN 'foreign use' ELSE '' END AS reason
			FROM slots s, ` + heldBy + ` WHERE s.node_id = $1
		)
		UPDATE slots s SET status = CASE WHEN now_is.reason = '' THEN 'clean' ELSE 'quarantined' END, reason = now_is.reason, updated_at = now()
		FROM now_is
		WHERE now_is.id = s.id AND (s.status = 'clean' AND now_is.reason <> ''
			OR s.status = 'quarantined' AND s.reason IN ('unhealthy', 'foreign use', 'quarantined by an operator') AND s.reason <> now_is.reason)`
	setHealth = `
		UPDATE nodes SET health = $2, message = $3, version = version + 1, updated_at = now() WHERE id = $1 AND (health, message) IS DISTINCT FROM ($2, $3)`
	setSeen = `
		UPDATE nodes SET health = $2, message = $3, reachability = 'reachable', version = version + 1, updated_at = now(),
			lifecycle = CASE WHEN lifecycle IN ('declared', 'commissioning', 'enrolled', 'offline', 'active') THEN $4 ELSE lifecycle END
		WHERE id = $1 AND (health, message, reachability, lifecycle) IS DISTINCT FROM ($2, $3, 'reachable', $4)`

	// A hold ends with its deadline; that of a drain is its tenants'.
	stands   = `h.lifted_at IS NULL AND (h.kind = 'drain' OR coalesce(h.deadline, 'infinity') > now())`
	holdEnds = `CASE WHEN h.kind = 'drain' THEN 'infinity' ELSE coalesce(h.deadline, 'infinity') END`
	lockHeld = `UPDATE nodes SET version = version + 1 WHERE id = $1`
	putHold  = `
		INSERT INTO holds (id, node_id, slot_id, kind, cause, owner, reason, deadline) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (node_id, coalesce(slot_id, '00000000-0000-0000-0000-000000000000'), kind, owner, cause) WHERE lifted_at IS NULL
		DO UPDATE SET reason = excluded.reason, deadline = excluded.deadline`
	liftHolds = `UPDATE holds SET lifted_at = now(), lifted_by = $3 WHERE node_id = $1 AND id = ANY($2) AND lifted_at IS NULL`
	lockSlots = `SELECT id FROM slots WHERE node_id = $1 ORDER BY id FOR UPDATE`
	// The slots change, so that a claim that waits for one looks at it again.
	refreshHeld = `
		UPDATE slots s SET held_until = now_is.until, updated_at = now()
		FROM (
			SELECT o.id, CASE WHEN n.cordoned THEN 'infinity' ELSE (SELECT max(` + holdEnds + `) FROM holds h
				WHERE h.node_id = o.node_id AND h.lifted_at IS NULL AND (h.slot_id IS NULL OR h.slot_id = o.id)) END AS until
			FROM slots o JOIN nodes n ON n.id = o.node_id WHERE o.node_id = $1
		) now_is WHERE now_is.id = s.id AND s.held_until IS DISTINCT FROM now_is.until`
	// Who stands on it is told, or told otherwise.
	markLeaving = `
		SELECT mark_due('Allocation', c.allocation_id, now(), $2)
		FROM slots s JOIN slot_claims c ON c.slot_id = s.id AND upper_inf(c.period) WHERE s.node_id = $1`
	// One that is held stays with its holder, and is kept back when it is freed.
	quarantineHeld = `UPDATE slots SET status = 'quarantined', reason = 'quarantined by an operator', updated_at = now() WHERE id = $1 AND status = 'clean'`
	selectHolds    = `
		SELECT h.id, h.node_id, h.slot_id, h.kind, h.cause, h.owner, h.reason, h.deadline, h.created_at
		FROM holds h WHERE h.node_id = ANY($1) AND ` + stands + ` ORDER BY h.id`

	// Each step looks again whether it is due: holds may have come and gone since it
	// was planned. The loop looks for the next one at once.
	drains   = `EXISTS (SELECT FROM holds h WHERE h.node_id = n.id AND h.kind = 'drain' AND h.lifted_at IS NULL)`
	occupied = `EXISTS (SELECT FROM slots s LEFT JOIN slot_claims c ON c.slot_id = s.id AND upper_inf(c.period)
			WHERE s.node_id = n.id AND (s.status IN ('claimed', 'dirty') OR c.slot_id IS NOT NULL))`
	beginDrain = `
		UPDATE nodes n SET lifecycle = 'draining', drained_at = NULL, version = version + 1, updated_at = now()
		WHERE n.id = $1 AND NOT n.retiring AND (n.lifecycle IN ('active', 'offline') OR n.lifecycle = 'drained' AND ` + occupied + `) AND ` + drains
	endDrain = `
		UPDATE nodes n SET lifecycle = 'drained', drained_at = now(), version = version + 1, updated_at = now()
		WHERE n.id = $1 AND NOT n.retiring AND n.lifecycle = 'draining' AND ` + drains + ` AND NOT ` + occupied
	callDrainOff = `
		UPDATE nodes n SET lifecycle = CASE WHEN n.reachability = 'reachable' THEN 'active' ELSE 'offline' END, drained_at = NULL,
			version = version + 1, updated_at = now()
		WHERE n.id = $1 AND NOT n.retiring AND n.lifecycle IN ('draining', 'drained') AND NOT ` + drains
	lapseHolds = `
		UPDATE holds SET lifted_at = now(), lifted_by = 'system:deadline'
		WHERE node_id = $1 AND slot_id IS NULL AND kind <> 'drain' AND lifted_at IS NULL AND deadline <= now()`
	markNode   = `SELECT mark_due('Node', $1, now(), $2)`
	markNodeOf = `SELECT mark_due('Node', id, now(), 'a slot came free') FROM nodes WHERE id = ` + nodeOf + ` AND lifecycle = 'draining' AND NOT retiring`
	selectNode = `
		SELECT n.name, n.version, n.region, coalesce(h.owner, ''), coalesce(h.reason, ''), h.deadline
		FROM nodes n LEFT JOIN LATERAL (
			SELECT owner, reason, deadline FROM holds WHERE node_id = n.id AND kind = 'drain' AND lifted_at IS NULL ORDER BY deadline, id LIMIT 1
		) h ON true WHERE n.id = $1`
	selectLeave = `
		SELECT h.deadline, h.owner, h.reason FROM holds h JOIN slots s ON s.node_id = h.node_id
			JOIN slot_claims c ON c.slot_id = s.id AND upper_inf(c.period)
		WHERE c.allocation_id = $1 AND h.kind = 'drain' AND h.lifted_at IS NULL ORDER BY h.deadline, h.id LIMIT 1`

	slotFields = `s.id, s.node_id, n.name, s.gpu_uuid, s.sku, s.region, s.status, s.reason,
			(SELECT allocation_id FROM slot_claims c WHERE c.slot_id = s.id AND upper_inf(c.period))`
	selectSlot = `SELECT ` + slotFields + ` FROM slots s JOIN nodes n ON n.id = s.node_id WHERE s.id = $1 AND n.lifecycle <> 'retired'`
	// A slot that only holds keep back was clean, or was freed by proof: it is sold
	// again when none of them stands.
	clearSlot = `
		UPDATE slots s SET status = 'clean', reason = '', updated_at = now()
		WHERE s.id = $1 AND s.status = 'quarantined' AND s.reason IN ('quarantined by an operator', 'unhealthy', '')
			AND NOT EXISTS (SELECT FROM holds h WHERE h.slot_id = s.id AND h.lifted_at IS NULL)`
	selectNames   = `SELECT id, name FROM nodes WHERE lifecycle <> 'retired'`
	selectAddress = `SELECT coalesce(nullif(address, ''), name) FROM nodes WHERE id = $1`

	// Two who make a token for one node take turns: only the later one's works.
	lockTokens   = `SELECT pg_advisory_xact_lock(hashtextextended('enrolment_tokens ' || $1::uuid::text, 0))`
	revokeTokens = `
		UPDATE enrolment_tokens SET revoked_at = now()
		WHERE node_id = $1 AND used_at IS NULL AND revoked_at IS NULL`
	insertToken = `
		INSERT INTO enrolment_tokens (secret_hash, node_id, expires_at)
		SELECT $1, id, now() + $3::interval FROM nodes WHERE id = $2 AND lifecycle <> 'retired'
		RETURNING expires_at`
	// Of many who redeem one token at once, one holds it while its certificate is
	// made. One that crashed lets go after a while.
	reserveToken = `
		UPDATE enrolment_tokens SET reserved_by = $2, reserved_until = now() + $3::interval
		WHERE secret_hash = $1 AND ` + redeemable + ` AND (reserved_until IS NULL OR reserved_until <= now())
		RETURNING node_id`
	releaseToken = `UPDATE enrolment_tokens SET reserved_by = NULL, reserved_until = NULL WHERE secret_hash = $1 AND reserved_by = $2 AND used_at IS NULL`
	spendToken   = `
		UPDATE enrolment_tokens SET used_at = now() WHERE secret_hash = $1 AND reserved_by = $2 AND ` + redeemable + `
		RETURNING node_id`
	redeemable = `used_at IS NULL AND revoked_at IS NULL AND expires_at > now()
			AND EXISTS (SELECT FROM nodes n WHERE n.id = node_id AND n.lifecycle <> 'retired')`
	selectRetired = `SELECT id FROM nodes WHERE lifecycle = 'retired'`
	// Held until the certificate is recorded, so that a node does not retire between.
	lockSpeaker = `SELECT lifecycle <> 'retired' FROM nodes WHERE id = $1 FOR SHARE`
	// The key of the host that was vouched for before proves nothing any more.
	setEnrolled = `
		UPDATE nodes SET proof_key = $2, version = version + 1, updated_at = now(),
			lifecycle = CASE WHEN lifecycle IN ('declared', 'commissioning') THEN 'enrolled' ELSE lifecycle END
		WHERE id = $1 AND (lifecycle IN ('declared', 'commissioning') OR proof_key IS DISTINCT FROM $2)`

	selectFree = `
		SELECT s.node_id, n.name, n.region, s.id, s.gpu_uuid, g.index
		FROM slots s JOIN nodes n ON n.id = s.node_id JOIN gpus g ON g.uuid = s.gpu_uuid
		WHERE s.sku = $1 AND ($2 = '' OR s.region = $2) AND ` + sells + `
		ORDER BY n.name, g.index`
	// Every node that is to sell it, with each slot and who holds it now.
	selectCandidates = `
		SELECT n.name, n.region, n.lifecycle IN ('active', 'offline', 'draining', 'drained'), n.reachability = 'reachable',
			n.cordoned OR EXISTS (SELECT FROM holds h WHERE h.node_id = n.id AND h.slot_id IS NULL AND ` + stands + `), s.status, c.allocation_id
		FROM nodes n LEFT JOIN slots s ON s.node_id = n.id AND s.reason <> 'retired'
			LEFT JOIN slot_claims c ON c.slot_id = s.id AND upper_inf(c.period)
		WHERE n.sku = $1 AND n.lifecycle <> 'retired' AND NOT n.retiring
		ORDER BY n.name, s.id`
	claimSlots = `
		WITH free AS (
			-- In id order, so that claims on the same slots queue and never deadlock.
			-- The node is looked at again: whoever placed may have believed an old reading.
			SELECT s.id FROM slots s JOIN nodes n ON n.id = s.node_id
			WHERE s.id = ANY($2) AND ` + sells + `
			ORDER BY s.id FOR UPDATE OF s
		), taken AS (
			UPDATE slots SET status = 'claimed', updated_at = now() FROM free WHERE slots.id = free.id RETURNING slots.id
		)
		INSERT INTO slot_claims (slot_id, allocation_id, period)
		SELECT id, $1, tstzrange(now(), NULL) FROM taken`
	dirtySlots = `
		UPDATE slots SET status = 'dirty', updated_at = now()
		WHERE status = 'claimed' AND id IN (SELECT slot_id FROM slot_claims WHERE allocation_id = $1 AND upper_inf(period))`
	freeSlots = `
		WITH ended AS (
			UPDATE slot_claims SET period = tstzrange(lower(period), greatest(now(), lower(period) + interval '1 microsecond'))
			WHERE allocation_id = $1 AND upper_inf(period) RETURNING slot_id
		)
		UPDATE slots s SET fence = $3, updated_at = now(),
			status = CASE WHEN NOT s.gpu_uuid = ANY($2) OR h.causes IS NOT NULL THEN 'quarantined' ELSE 'clean' END,
			reason = CASE WHEN NOT s.gpu_uuid = ANY($2) THEN 'no scrub proof' ELSE ` + keptBack + ` ELSE '' END END
		FROM ended JOIN slots f ON f.id = ended.slot_id, LATERAL (SELECT array_agg(cause) AS causes FROM holds WHERE slot_id = f.id AND lifted_at IS NULL) h
		WHERE s.id = f.id`
	quarantineClaimed = `
		UPDATE slots SET status = 'quarantined', reason = $2, updated_at = now()
		WHERE status IN ('claimed', 'dirty') AND id IN (SELECT slot_id FROM slot_claims WHERE allocation_id = $1 AND upper_inf(period))`

	// Sorted by bytes, as an envelope wants them.
	selectHeldGPUs = `
		SELECT gpu_uuid FROM slots WHERE id IN (SELECT slot_id FROM slot_claims WHERE allocation_id = $1) ORDER BY gpu_uuid COLLATE "C"`

	// From the devices and nodes that are unhealthy, which are few, to the claims.
	selectUnhealthy = `
		SELECT c.allocation_id
		FROM slots s JOIN gpus g ON g.uuid = s.gpu_uuid JOIN nodes n ON n.id = s.node_id JOIN slot_claims c ON c.slot_id = s.id AND upper_inf(c.period)
		WHERE (s.gpu_uuid IN (SELECT uuid FROM gpus WHERE health = 'unhealthy') OR s.node_id IN (SELECT id FROM nodes WHERE health = 'unhealthy'))
			AND c.allocation_id > $1
		GROUP BY c.allocation_id ORDER BY c.allocation_id LIMIT $2`
	selectUnhealthySince = `
		SELECT min(CASE WHEN g.health = 'unhealthy' THEN g.updated_at ELSE n.updated_at END)
		FROM slot_claims c JOIN slots s ON s.id = c.slot_id JOIN gpus g ON g.uuid = s.gpu_uuid JOIN nodes n ON n.id = s.node_id
		WHERE c.allocation_id = $1 AND upper_inf(c.period) AND (g.health = 'unhealthy' OR n.health = 'unhealthy')`

	selectCapacity = `
		SELECT s.sku, s.region, count(DISTINCT s.node_id), count(*),
			count(*) FILTER (WHERE ` + sells + `),
			count(*) FILTER (WHERE s.status = 'claimed'), count(*) FILTER (WHERE s.status = 'dirty'), count(*) FILTER (WHERE s.status = 'quarantined')
		FROM slots s JOIN nodes n ON n.id = s.node_id WHERE n.lifecycle <> 'retired'
		GROUP BY s.sku, s.region ORDER BY s.sku, s.region`
	// Of the nodes that a change touches, and of all, by SKU. A cordoned node sells
	// what it has sold.
	selectStanding = `
		SELECT n.id, n.name, n.sku, n.cordoned, count(s.id) FILTER (WHERE s.status = 'claimed'),
			count(s.id) FILTER (WHERE s.status IN ('clean', 'dirty') AND NOT n.retiring), count(s.id) FILTER (WHERE s.status IN ('claimed', 'dirty'))
		FROM nodes n LEFT JOIN slots s ON s.node_id = n.id WHERE n.id = ANY ($1::uuid[]) AND n.lifecycle <> 'retired' GROUP BY n.id`
	selectStock = `
		SELECT s.sku, count(*) FILTER (WHERE s.status = 'claimed'),
			count(*) FILTER (WHERE s.status IN ('clean', 'dirty') AND NOT n.cordoned AND NOT n.retiring
				AND coalesce(s.held_until, '-infinity') <= now())
		FROM slots s JOIN nodes n ON n.id = s.node_id WHERE n.lifecycle <> 'retired' GROUP BY s.sku`
	countFleet  = `SELECT count(*) FROM nodes WHERE lifecycle <> 'retired'`
	selectNodes = `
		SELECT n.id, n.name, n.sku, n.region, n.onboarding, n.expected_gpus, n.lifecycle, n.health, n.reachability,
			n.cordoned OR EXISTS (SELECT FROM holds h WHERE h.node_id = n.id AND h.slot_id IS NULL AND ` + stands + `), n.cordoned, n.hardware, n.message,
			n.version, n.updated_at, n.agent_version, n.fingerprint, n.address, n.drained_at,
			(SELECT min(h.deadline) FROM holds h WHERE h.node_id = n.id AND h.kind = 'drain' AND h.lifted_at IS NULL),
			count(s.id), count(s.id) FILTER (WHERE s.status = 'clean'), count(s.id) FILTER (WHERE s.status = 'quarantined'),
			count(s.id) FILTER (WHERE s.status IN ('claimed', 'dirty'))
		FROM nodes n LEFT JOIN slots s ON s.node_id = n.id`
	selectNodesOf = selectNodes + ` WHERE n.id = ANY($1) GROUP BY n.id`
	selectKept    = `
		SELECT id, name, sku, region, onboarding, expected_gpus, hardware, cordoned, address FROM nodes WHERE lifecycle <> 'retired' AND id = ANY ($1)`
	selectDevices = `
		SELECT g.index, g.uuid, g.model, g.memory_mib, g.health, g.reasons, g.present, s.id, coalesce(s.status, ''), coalesce(s.reason, ''),
			(SELECT allocation_id FROM slot_claims c WHERE c.slot_id = s.id AND upper_inf(c.period))
		FROM gpus g LEFT JOIN slots s ON s.gpu_uuid = g.uuid WHERE g.node_id = $1 ORDER BY g.index`

	// By what a node proves that a slot is clean.
	selectProofKey = `SELECT coalesce(proof_key, ''::bytea) FROM nodes WHERE id = $1`
)
