package fleet

import (
	"github.com/gpuaas/gpuaas/product/slots"
)

const (
	declareNode = `
		INSERT INTO nodes AS n (id, name, spec, lifecycle) VALUES ($1, $2, $3, 'declared')
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, spec = excluded.spec,
			lifecycle = CASE WHEN n.lifecycle = 'retired' THEN 'declared' WHEN NOT n.retiring THEN n.lifecycle
				WHEN n.reachability = 'reachable' THEN 'active' ELSE 'offline' END,
			retiring = false, version = n.version + 1, updated_at = now()
		WHERE n.lifecycle = 'retired' OR n.retiring OR (n.name, n.spec) IS DISTINCT FROM (excluded.name, excluded.spec)`
	// A success locks the row only after a failure.
	countProvisioned = `
		UPDATE nodes SET provision_failures = CASE WHEN $2 THEN 0 ELSE provision_failures + 1 END
		WHERE id = $1 AND (NOT $2 OR provision_failures > 0)`
	// Off the market first, so that a claim which waits for a slot finds none clean.
	drainNode = `
		UPDATE nodes SET lifecycle = 'draining', retiring = true, version = version + 1, updated_at = now()
		WHERE id = $1 AND NOT retiring AND lifecycle <> 'retired'`
	retireDrained   = `WITH node AS (SELECT id FROM nodes WHERE id = $1 AND retiring)` + andRetire
	retireDrainedOf = `WITH node AS (SELECT id FROM nodes WHERE id = ` + nodeOf + ` AND retiring)` + andRetire
	// The statement before has locked the slots.
	andRetire = `
		UPDATE nodes SET lifecycle = 'retired', retiring = false, version = version + 1, updated_at = now()
		FROM node WHERE nodes.id = node.id AND NOT EXISTS (SELECT FROM slots s WHERE s.node_id = node.id AND s.status IN ('claimed', 'dirty'))`
	// The node is locked before its slots, as everywhere, and before another statement reads them. If
	// two allocations end concurrently, the later transaction sees that the other one has ended.
	lockNodeOf      = `SELECT id FROM nodes WHERE id = ` + nodeOf + ` FOR UPDATE`
	nodeOf          = `(SELECT s.node_id FROM slots s JOIN slot_claims c ON c.slot_id = s.id WHERE c.allocation_id = $1 LIMIT 1)`
	setReachability = `
		UPDATE nodes SET reachability = $2, version = version + 1, updated_at = now(),
			lifecycle = CASE WHEN $2 = 'stale' AND lifecycle = 'active' THEN 'offline' WHEN $2 = 'reachable' AND lifecycle = 'offline' THEN 'active' ELSE lifecycle END
		WHERE id = $1 AND reachability <> $2`
	putGPUs = `
		INSERT INTO gpus AS g (uuid, node_id, index, model, memory_mib, health, present)
		SELECT uuid, $1, index, model, memory_mib, health, true
		FROM jsonb_to_recordset($2) AS r(uuid text, index int, model text, memory_mib bigint, health text)
		ORDER BY uuid
		ON CONFLICT (uuid) DO UPDATE SET index = excluded.index, model = excluded.model, memory_mib = excluded.memory_mib, updated_at = now()
		WHERE g.node_id = excluded.node_id AND (g.index, g.model, g.memory_mib) IS DISTINCT FROM (excluded.index, excluded.model, excluded.memory_mib)`
	// A node that is retired owns nothing any more. A contest ends only with a complete report.
	contestGPUs = `
		WITH more AS (
			UPDATE gpus g SET contested_by = g.contested_by || $1::uuid FROM nodes n
			WHERE g.uuid = ANY($2) AND n.id = g.node_id AND n.id <> $1 AND n.lifecycle <> 'retired' AND NOT g.contested_by @> ARRAY[$1::uuid]
				AND cardinality(g.contested_by) < 64
			RETURNING g.node_id
		), less AS (
			UPDATE gpus g SET contested_by = array_remove(g.contested_by, $1::uuid)
			WHERE $3 AND g.contested_by <> '{}' AND g.contested_by @> ARRAY[$1::uuid] AND NOT g.uuid = ANY($2)
			RETURNING g.node_id
		)
		SELECT node_id, count(*) FILTER (WHERE added) FROM (SELECT node_id, true AS added FROM more UNION ALL SELECT node_id, false FROM less) AS c
		GROUP BY node_id ORDER BY node_id`
	// Health is the merged health of all sources.
	setCards = `
		UPDATE gpus g SET health = r.health, reasons = r.reasons, present = r.present, updated_at = now()
		FROM jsonb_to_recordset($2) AS r(uuid text, health text, reasons text[], present boolean)
		WHERE g.uuid = r.uuid AND g.node_id = $1 AND (g.health, g.reasons, g.present) IS DISTINCT FROM (r.health, r.reasons, r.present)`
	setTopology    = `UPDATE nodes SET topology = $2 WHERE id = $1 AND topology IS DISTINCT FROM $2::jsonb`
	setMounts      = `UPDATE nodes SET mounts_missing = $2, updated_at = now() WHERE id = $1`
	setChanged     = `UPDATE nodes SET changed = $2, version = version + 1, updated_at = now() WHERE id = $1`
	markHardware   = `SELECT mark_due('Node', $1, now(), 'its hardware is another')`
	selectTopology = `SELECT topology, changed FROM nodes WHERE id = $1`
	acceptHardware = `UPDATE nodes SET fingerprint = $2, accepted = $3, changed = '', version = version + 1, updated_at = now() WHERE id = $1`
	selectHardware = `SELECT name, topology, changed FROM nodes WHERE id = $1 FOR UPDATE`
	liftOwn        = `UPDATE holds SET lifted_at = now(), lifted_by = $2 WHERE id = ANY($1) AND lifted_at IS NULL`
	putOwn         = `
		INSERT INTO holds (id, node_id, slot_id, kind, cause, owner, reason)
		SELECT w.id, $1, s.id, CASE WHEN w.gpu = '' THEN 'cordon' ELSE 'quarantine' END, w.cause, 'system', w.reason
		FROM jsonb_to_recordset($2) AS w(id uuid, gpu text, cause text, reason text) LEFT JOIN slots s ON s.gpu_uuid = w.gpu AND s.node_id = $1
		WHERE w.gpu = '' OR s.id IS NOT NULL ON CONFLICT DO NOTHING
		RETURNING id, slot_id`
	countGPUs = `
		SELECT n.sku, n.region, CASE WHEN g.present THEN g.health ELSE 'missing' END, count(*)
		FROM gpus g JOIN nodes n ON n.id = g.node_id WHERE n.lifecycle <> 'retired' GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`
	countNodes = `SELECT lifecycle, health, reachability, count(*) FROM nodes WHERE lifecycle <> 'retired' GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`
	setHealth  = `
		UPDATE nodes SET health = $2, message = $3, version = version + 1, updated_at = now() WHERE id = $1 AND (health, message) IS DISTINCT FROM ($2, $3)`
	setReported = `
		UPDATE nodes SET health = $2, message = $3, reachability = 'reachable', version = version + 1, updated_at = now(),
			lifecycle = CASE WHEN lifecycle IN ('declared', 'commissioning', 'enrolled', 'offline', 'active') THEN $4 ELSE lifecycle END
		WHERE id = $1 AND (health, message, reachability, lifecycle) IS DISTINCT FROM ($2, $3, 'reachable', $4)`
	lockHeld = `UPDATE nodes SET version = version + 1 WHERE id = $1`
	putHold  = `
		INSERT INTO holds (id, node_id, slot_id, kind, cause, owner, reason, deadline) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (node_id, coalesce(slot_id, '00000000-0000-0000-0000-000000000000'), kind, owner, cause) WHERE lifted_at IS NULL
		DO UPDATE SET reason = excluded.reason, deadline = excluded.deadline`
	liftHolds = `UPDATE holds SET lifted_at = now(), lifted_by = $3 WHERE node_id = $1 AND id = ANY($2) AND lifted_at IS NULL`
	// The tenants of the allocations on the node must be notified of the new deadline.
	markLeaving = `
		SELECT mark_due('Allocation', c.allocation_id, now(), $2)
		FROM slots s JOIN slot_claims c ON c.slot_id = s.id AND upper_inf(c.period) WHERE s.node_id = $1`
	selectHolds = `
		SELECT h.id, h.node_id, h.slot_id, h.kind, h.cause, h.owner, h.reason, h.deadline, h.created_at
		FROM holds h WHERE h.node_id = ANY($1) AND ` + slots.ActiveHold + ` ORDER BY h.id`
	// Each step checks again whether it is due, because holds may have changed since it was planned. The
	// loop checks for the next step at once.
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
	// An inspection is about the claim that it ends. One of a day ago proves nothing about the slot today.
	insertInspection = `
		INSERT INTO slot_inspections (slot_id, claimed_at, actor, reason)
		VALUES ($1, coalesce((SELECT max(lower(period)) FROM slot_claims WHERE slot_id = $1), '-infinity'), $2, $3)
		ON CONFLICT (slot_id, claimed_at, actor) DO UPDATE SET reason = excluded.reason, inspected_at = now()`
	selectInspections = `
		SELECT actor FROM slot_inspections
		WHERE slot_id = $1 AND claimed_at = coalesce((SELECT max(lower(period)) FROM slot_claims WHERE slot_id = $1), '-infinity')
			AND inspected_at > now() - interval '24 hours' ORDER BY inspected_at, actor`
	// Inspections count once: the slot may be quarantined again before its next claim.
	useInspections = `UPDATE slot_inspections SET inspected_at = '-infinity' WHERE slot_id = $1`
	selectNames    = `SELECT id, name FROM nodes WHERE lifecycle <> 'retired'`
	// A node that is declared again after its row was lost has no reports either.
	setRetirement  = `UPDATE nodes SET retires_at = $2, retires_reason = $3, version = version + 1, updated_at = now() WHERE id = $1`
	selectSilenced = `SELECT coalesce((SELECT reachability <> 'reachable' FROM nodes WHERE id = $1), true)`
	selectSSH      = `SELECT n.name, n.spec, coalesce(k.host_keys, '{}') FROM nodes n LEFT JOIN node_host_keys k ON k.node_id = n.id WHERE n.id = $1`
	// Two concurrent tokens for one node are created one after the other: only the later one is valid.
	lockTokens   = `SELECT pg_advisory_xact_lock(hashtextextended('enrolment_tokens ' || $1::uuid::text, 0))`
	revokeTokens = `
		UPDATE enrolment_tokens SET revoked_at = now()
		WHERE node_id = $1 AND used_at IS NULL AND revoked_at IS NULL`
	insertToken = `
		INSERT INTO enrolment_tokens (secret_hash, node_id, expires_at)
		SELECT $1, id, now() + $3::interval FROM nodes WHERE id = $2 AND lifecycle <> 'retired'
		RETURNING expires_at`
	// If several agents redeem one token at once, one of them reserves it while its certificate is made.
	// A reservation expires, because the server may crash in between.
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
	// The lock lasts until the certificate is stored, so that the node cannot retire in between.
	lockSpeaker = `SELECT lifecycle <> 'retired' FROM nodes WHERE id = $1 FOR SHARE`
	// The host key of the previous enrolment proves nothing any more.
	setEnrolled = `
		UPDATE nodes SET proof_key = $2, version = version + 1, updated_at = now(),
			lifecycle = CASE WHEN lifecycle IN ('declared', 'commissioning') THEN 'enrolled' ELSE lifecycle END
		WHERE id = $1 AND (lifecycle IN ('declared', 'commissioning') OR proof_key IS DISTINCT FROM $2)`
	selectEnrolled = `SELECT name, region FROM nodes WHERE id = $1`
	selectNodes    = `
		SELECT n.id, n.name, n.spec, n.lifecycle, n.health, n.reachability,
			n.cordoned OR EXISTS (SELECT FROM holds h WHERE h.node_id = n.id AND h.slot_id IS NULL AND ` + slots.ActiveHold + `), n.message,
			n.version, n.updated_at, n.agent_version, n.fingerprint, n.drained_at,
			(SELECT min(h.deadline) FROM holds h WHERE h.node_id = n.id AND h.kind = 'drain' AND h.lifted_at IS NULL),
			count(s.id), count(s.id) FILTER (WHERE s.status = 'clean'), count(s.id) FILTER (WHERE s.status = 'quarantined'),
			count(s.id) FILTER (WHERE s.status IN ('claimed', 'dirty')), n.created_at, n.retires_at, n.retires_reason
		FROM nodes n LEFT JOIN slots s ON s.node_id = n.id`
	selectPage = `
		SELECT n.id FROM nodes n
		WHERE n.lifecycle <> 'retired' AND ($4 = '' OR n.region = $4) AND ($5 = '' OR n.sku = $5) AND ($6 = '' OR n.lifecycle = $6)
			AND ($7 = '' OR n.health = $7) AND ($8 = '' OR n.reachability = $8) AND ($9 = '' OR strpos(lower(n.name), lower($9)) > 0)`
	selectNodesOf = selectNodes + ` WHERE n.id = ANY($1) GROUP BY n.id`
	selectApplied = `SELECT id, name, spec FROM nodes WHERE lifecycle <> 'retired' AND id = ANY ($1)`
	selectDevices = `
		SELECT g.index, g.uuid, g.model, g.memory_mib, g.health, g.reasons, g.present, s.id, coalesce(s.status, ''), coalesce(s.reason, ''),
			(SELECT allocation_id FROM slot_claims c WHERE c.slot_id = s.id AND upper_inf(c.period))
		FROM gpus g LEFT JOIN slots s ON s.gpu_uuid = g.uuid WHERE g.node_id = $1 ORDER BY g.index`
	// By what a node proves that a slot is clean.
	selectProofKey = `SELECT coalesce(proof_key, ''::bytea) FROM nodes WHERE id = $1`
)
