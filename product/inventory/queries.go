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
	lockNode = `SELECT expected_gpus FROM nodes WHERE id = $1 FOR UPDATE`
	putGPUs  = `
		INSERT INTO gpus AS g (uuid, node_id, index, model, memory_mib, health, reasons, present)
		SELECT uuid, $1, index, model, memory_mib, health, coalesce(reasons, '{}'), true
		FROM jsonb_to_recordset($2) AS r(uuid text, index int, model text, memory_mib bigint, health text, reasons text[])
		ORDER BY uuid
		ON CONFLICT (uuid) DO UPDATE SET index = excluded.index, model = excluded.model, memory_mib = excluded.memory_mib,
			health = excluded.health, reasons = excluded.reasons, present = true, updated_at = now()
		WHERE g.node_id = excluded.node_id
			AND (g.index, g.model, g.memory_mib, g.health, g.reasons, g.present) IS DISTINCT FROM
				(excluded.index, excluded.model, excluded.memory_mib, excluded.health, excluded.reasons, true)`
	missGPUs = `
		UPDATE gpus SET present = false, health = 'unhealthy', reasons = ARRAY['missing from a complete report'], updated_at = now()
		WHERE node_id = $1 AND NOT uuid = ANY($2) AND present`
	// One slot a device under the whole_gpu profile. What is wrong with a new
	// device is seen by the statement after this one.
	putSlots = `
		INSERT INTO slots (id, node_id, gpu_uuid, sku, region, status, held_until)
		SELECT gen_random_uuid(), g.node_id, g.uuid, n.sku, n.region, 'clean',
			CASE WHEN n.cordoned THEN 'infinity' ELSE (SELECT max(` + holdEnds + `) FROM holds h WHERE h.node_id = n.id AND h.slot_id IS NULL AND h.lifted_at IS NULL) END
		FROM gpus g JOIN nodes n ON n.id = g.node_id
		WHERE g.node_id = $1 ON CONFLICT (gpu_uuid) DO NOTHING`
	// A device that is sick is not sold; one that is claimed stays with its holder
	// and is quarantined when it is freed. One that recovered is sold again only
	// if health alone had kept it back.
	// The same holds for one that something uses which nobody ordered.
	quarantineSlots = `
		UPDATE slots s SET status = CASE WHEN now_is.reason = '' THEN 'clean' ELSE 'quarantined' END, reason = now_is.reason, updated_at = now()
		FROM (
			SELECT uuid, CASE WHEN health NOT IN ('healthy', 'degraded') THEN 'unhealthy' WHEN uuid = ANY($2) THEN 'foreign use' ELSE '' END AS reason
			FROM gpus WHERE node_id = $1
		) AS now_is
		WHERE now_is.uuid = s.gpu_uuid AND s.node_id = $1
			AND (s.status = 'clean' AND now_is.reason <> ''
				OR s.status = 'quarantined' AND s.reason IN ('unhealthy', 'foreign use') AND s.reason <> now_is.reason)`
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
	markHeld = `
		SELECT mark_due('Node', $1, now(), $2)
		UNION ALL
		SELECT mark_due('Allocation', c.allocation_id, now(), $2)
		FROM slots s JOIN slot_claims c ON c.slot_id = s.id AND upper_inf(c.period) WHERE s.node_id = $1`
	// One that is held stays with its holder, and is kept back when it is freed.
	quarantineHeld = `UPDATE slots SET status = 'quarantined', reason = $2, updated_at = now() WHERE id = $1 AND status = 'clean'`
	selectHolds    = `
		SELECT h.id, h.node_id, h.slot_id, h.kind, h.cause, h.owner, h.reason, h.deadline, h.created_at
		FROM holds h WHERE h.node_id = ANY($1) AND ` + stands + ` ORDER BY h.id`

	slotFields = `s.id, s.node_id, n.name, s.gpu_uuid, s.sku, s.region, s.status, s.reason,
			(SELECT allocation_id FROM slot_claims c WHERE c.slot_id = s.id AND upper_inf(c.period))`
	selectSlot = `SELECT ` + slotFields + ` FROM slots s JOIN nodes n ON n.id = s.node_id WHERE s.id = $1 AND n.lifecycle <> 'retired'`
	// What may be sold again: nobody holds it, its device is well, and the last release
	// was proved, which is when a claim ends.
	clearSlot = `
		UPDATE slots s SET status = 'clean', reason = '', updated_at = now()
		FROM gpus g WHERE s.id = $1 AND s.status = 'quarantined' AND g.uuid = s.gpu_uuid AND g.present AND g.health IN ('healthy', 'degraded')
			AND s.reason <> 'no scrub proof' AND NOT EXISTS (SELECT FROM slot_claims c WHERE c.slot_id = s.id AND upper_inf(c.period))`
	selectAddress  = `SELECT coalesce(nullif(address, ''), name) FROM nodes WHERE id = $1`
	selectTopology = `SELECT coalesce(topology, '{}'), fingerprint FROM nodes WHERE name = $1 AND lifecycle <> 'retired'`

	insertToken = `
		INSERT INTO enrolment_tokens (secret_hash, node_id, expires_at)
		SELECT $1, id, now() + $3::interval FROM nodes WHERE id = $2 AND lifecycle <> 'retired'
		RETURNING expires_at`
	spendToken = `
		UPDATE enrolment_tokens SET used_at = now() WHERE secret_hash = $1 AND used_at IS NULL AND expires_at > now()
			AND EXISTS (SELECT FROM nodes n WHERE n.id = node_id AND n.lifecycle <> 'retired')
		RETURNING node_id`
	setEnrolled = `
		UPDATE nodes SET lifecycle = 'enrolled', version = version + 1, updated_at = now()
		WHERE id = $1 AND lifecycle IN ('declared', 'commissioning')`

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
			status = CASE WHEN NOT s.gpu_uuid = ANY($2) OR h.id IS NOT NULL THEN 'quarantined'
				WHEN g.health IN ('healthy', 'degraded') THEN 'clean' ELSE 'quarantined' END,
			reason = CASE WHEN NOT s.gpu_uuid = ANY($2) THEN 'no scrub proof' WHEN h.id IS NOT NULL THEN h.cause || ': ' || h.reason
				WHEN g.health IN ('healthy', 'degraded') THEN '' ELSE 'unhealthy' END
		FROM gpus g LEFT JOIN LATERAL (
			SELECT q.id, q.cause, q.reason FROM holds q JOIN slots o ON o.id = q.slot_id
			WHERE o.gpu_uuid = g.uuid AND q.lifted_at IS NULL ORDER BY q.id LIMIT 1
		) h ON true
		WHERE g.uuid = s.gpu_uuid AND s.id IN (SELECT slot_id FROM ended)`
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
)
