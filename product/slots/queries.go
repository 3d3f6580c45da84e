package slots

// A slot is for sale if the expression sells is true. An operator's hold is copied to the slot itself,
// because a claim that waits for a row reads only that row again.
const (
	sells    = `s.status = 'clean' AND coalesce(s.held_until, '-infinity') <= now() AND ` + onMarket
	onMarket = `n.lifecycle = 'active' AND n.reachability = 'reachable' AND NOT n.cordoned`
	// A node that is sold as something else sells its slots as that, once free.
	// One that was retired and is declared again is on the market again.
	resellSlots = `
		UPDATE slots SET sku = $2, region = $3, updated_at = now(),
			status = CASE WHEN reason = 'retired' THEN 'clean' ELSE status END, reason = CASE WHEN reason = 'retired' THEN '' ELSE reason END
		WHERE node_id = $1 AND ((sku, region) <> ($2, $3) OR reason = 'retired')`
	countClaims = `
		SELECT node_id, count(*) FROM slots WHERE node_id = ANY($1) AND status IN ('claimed', 'dirty') GROUP BY node_id`
	// One slot for each device under the whole_gpu profile. The next statement applies the health of a
	// new device.
	putSlots = `
		INSERT INTO slots (id, node_id, gpu_uuid, sku, region, status, held_until)
		SELECT gen_random_uuid(), g.node_id, g.uuid, n.sku, n.region, 'clean',
			CASE WHEN n.cordoned THEN 'infinity' ELSE (SELECT max(` + holdEnds + `) FROM holds h WHERE h.node_id = n.id AND h.slot_id IS NULL AND h.lifted_at IS NULL) END
		FROM gpus g JOIN nodes n ON n.id = g.node_id
		WHERE g.node_id = $1 ON CONFLICT (gpu_uuid) DO NOTHING`
	// A blocked slot is not sold. A claimed slot stays with its claim and is quarantined when it is
	// freed. A slot without a hold returns to sale only if a hold was the only reason of its quarantine.
	// The same applies to a slot with foreign use; without a report its state is unchanged.
	quarantineReason = `CASE WHEN 'health' = ANY (h.causes) THEN 'unhealthy' WHEN h.causes IS NOT NULL THEN 'quarantined by an operator'`
	heldBy           = `LATERAL (SELECT array_agg(cause) AS causes FROM holds WHERE slot_id = s.id AND lifted_at IS NULL) h`
	quarantineSlots  = `
		WITH now_is AS (
			SELECT s.id, ` + quarantineReason + ` WHEN coalesce(s.gpu_uuid = ANY ($2::text[]), s.reason = 'foreign use') THEN 'foreign use' ELSE '' END AS reason
			FROM slots s, ` + heldBy + ` WHERE s.node_id = $1
		)
		UPDATE slots s SET status = CASE WHEN now_is.reason = '' THEN 'clean' ELSE 'quarantined' END, reason = now_is.reason, updated_at = now()
		FROM now_is
		WHERE now_is.id = s.id AND (s.status = 'clean' AND now_is.reason <> ''
			OR s.status = 'quarantined' AND s.reason IN ('unhealthy', 'foreign use', 'quarantined by an operator') AND s.reason <> now_is.reason)`
	// A hold ends with its deadline, except that of a drain: its deadline is that of the evictions.
	ActiveHold = `h.lifted_at IS NULL AND (h.kind = 'drain' OR coalesce(h.deadline, 'infinity') > now())`
	holdEnds   = `CASE WHEN h.kind = 'drain' THEN 'infinity' ELSE coalesce(h.deadline, 'infinity') END`
	lockSlots  = `SELECT id FROM slots WHERE node_id = $1 ORDER BY id FOR UPDATE`
	// The update changes the slots, so a claim that waits for one evaluates it again.
	refreshHeld = `
		UPDATE slots s SET held_until = now_is.until, updated_at = now()
		FROM (
			SELECT o.id, CASE WHEN n.cordoned THEN 'infinity' ELSE (SELECT max(` + holdEnds + `) FROM holds h
				WHERE h.node_id = o.node_id AND h.lifted_at IS NULL AND (h.slot_id IS NULL OR h.slot_id = o.id)) END AS until
			FROM slots o JOIN nodes n ON n.id = o.node_id WHERE o.node_id = $1
		) now_is WHERE now_is.id = s.id AND s.held_until IS DISTINCT FROM now_is.until`
	// A claimed slot stays with its claim, and is quarantined when it is freed.
	quarantineHeld = `UPDATE slots SET status = 'quarantined', reason = 'quarantined by an operator', updated_at = now() WHERE id = $1 AND status = 'clean'`
	slotFields     = `s.id, s.node_id, n.name, s.gpu_uuid, s.sku, s.region, s.status, s.reason,
			(SELECT allocation_id FROM slot_claims c WHERE c.slot_id = s.id AND upper_inf(c.period)), s.created_at, s.updated_at`
	selectSlot = `SELECT ` + slotFields + ` FROM slots s JOIN nodes n ON n.id = s.node_id WHERE s.id = $1 AND n.lifecycle <> 'retired'`
	// A slot that only holds exclude was clean or was freed by a proof. It is sold again when no hold is
	// active.
	clearSlot = `
		UPDATE slots s SET status = 'clean', reason = '', updated_at = now()
		WHERE s.id = $1 AND s.status = 'quarantined' AND s.reason IN ('quarantined by an operator', 'unhealthy', '')
			AND NOT EXISTS (SELECT FROM holds h WHERE h.slot_id = s.id AND h.lifted_at IS NULL)`
	selectFree = `
		SELECT s.node_id, n.name, n.region, n.provision_failures, s.id, s.gpu_uuid, g.index
		FROM slots s JOIN nodes n ON n.id = s.node_id JOIN gpus g ON g.uuid = s.gpu_uuid
		WHERE s.sku = $1 AND ($2 = '' OR s.region = $2) AND ` + sells + `
			AND (NOT $3::boolean OR n.mounts_missing = '')
		ORDER BY n.name, g.index`
	selectMissing = `
		SELECT DISTINCT mounts_missing FROM nodes WHERE id = ANY ($1) AND mounts_missing <> '' ORDER BY 1 LIMIT 5`
	// Every node that offers the SKU, with each slot and its present claim.
	selectCandidates = `
		SELECT n.name, n.region, n.lifecycle IN ('active', 'offline', 'draining', 'drained'), n.reachability = 'reachable',
			n.cordoned OR EXISTS (SELECT FROM holds h WHERE h.node_id = n.id AND h.slot_id IS NULL AND ` + ActiveHold + `), s.status, c.allocation_id
		FROM nodes n LEFT JOIN slots s ON s.node_id = n.id AND s.reason <> 'retired'
			LEFT JOIN slot_claims c ON c.slot_id = s.id AND upper_inf(c.period)
		WHERE n.sku = $1 AND n.lifecycle <> 'retired' AND NOT n.retiring
		ORDER BY n.name, s.id`
	claimSlots = `
		WITH free AS (
			-- By ascending id, so that claims on the same slots queue and never deadlock.
			-- The node becomes due again: the placement may come from an outdated cache.
			SELECT s.id FROM slots s JOIN nodes n ON n.id = s.node_id
			WHERE s.id = ANY($2) AND ` + sells + `
			ORDER BY s.id FOR UPDATE OF s
		), claimed AS (
			UPDATE slots SET status = 'claimed', updated_at = now() FROM free WHERE slots.id = free.id RETURNING slots.id
		)
		INSERT INTO slot_claims (slot_id, allocation_id, period)
		SELECT id, $1, tstzrange(now(), NULL) FROM claimed`
	// A claim is never deleted, so an allocation that ended is still one of its node.
	selectPlaced = `
		SELECT greatest((SELECT count(*) FROM slots WHERE node_id = $1), coalesce((SELECT (spec->>'gpus')::int FROM nodes WHERE id = $1), 0)),
			ARRAY (SELECT DISTINCT c.allocation_id FROM slot_claims c JOIN slots s ON s.id = c.slot_id
				WHERE c.allocation_id = ANY($2) AND s.node_id = $1),
			ARRAY (SELECT DISTINCT c.allocation_id FROM slot_claims c JOIN slots s ON s.id = c.slot_id
				WHERE c.allocation_id = ANY($2) AND s.node_id = $1 AND upper_inf(c.period))`
	dirtySlots = `
		UPDATE slots SET status = 'dirty', updated_at = now()
		WHERE status = 'claimed' AND id IN (SELECT slot_id FROM slot_claims WHERE allocation_id = $1 AND upper_inf(period))`
	// A claim ends at least one microsecond after its start, because PostgreSQL stores an empty range without
	// its bounds. A slot without a proof of its scrub is quarantined: the memory may contain data of the last tenant.
	freeSlots = `
		WITH ended AS (
			UPDATE slot_claims SET period = tstzrange(lower(period), greatest(now(), lower(period) + interval '1 microsecond'))
			WHERE allocation_id = $1 AND upper_inf(period) RETURNING slot_id
		)
		UPDATE slots s SET fence = $3, updated_at = now(),
			status = CASE WHEN NOT s.gpu_uuid = ANY($2) OR h.causes IS NOT NULL THEN 'quarantined' ELSE 'clean' END,
			reason = CASE WHEN NOT s.gpu_uuid = ANY($2) THEN 'no scrub proof' ELSE ` + quarantineReason + ` ELSE '' END END
		FROM ended JOIN slots f ON f.id = ended.slot_id, LATERAL (SELECT array_agg(cause) AS causes FROM holds WHERE slot_id = f.id AND lifted_at IS NULL) h
		WHERE s.id = f.id`
	// Two operators state that nothing of the last tenant is left. The fence stays: it is that of a proof. A slot that was
	// freed and claimed meanwhile is left as it is.
	freeInspected = `
		WITH stuck AS (
			SELECT id FROM slots WHERE id = $1 AND status IN ('dirty', 'quarantined') FOR UPDATE
		), ended AS (
			UPDATE slot_claims SET period = tstzrange(lower(period), greatest(now(), lower(period) + interval '1 microsecond'))
			WHERE slot_id IN (SELECT id FROM stuck) AND upper_inf(period)
		)
		UPDATE slots s SET status = CASE WHEN h.causes IS NOT NULL THEN 'quarantined' ELSE 'clean' END,
			reason = ` + quarantineReason + ` ELSE '' END, updated_at = now()
		FROM stuck f, LATERAL (SELECT array_agg(cause) AS causes FROM holds WHERE slot_id = f.id AND lifted_at IS NULL) h
		WHERE s.id = f.id`
	countOpenClaims   = `SELECT count(*) FROM slot_claims WHERE allocation_id = $1 AND upper_inf(period)`
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
	selectNodeSummaries = `
		SELECT n.id, n.name, n.sku, n.cordoned, count(s.id) FILTER (WHERE s.status = 'claimed'),
			count(s.id) FILTER (WHERE s.status IN ('clean', 'dirty') AND NOT n.retiring), count(s.id) FILTER (WHERE s.status IN ('claimed', 'dirty'))
		FROM nodes n LEFT JOIN slots s ON s.node_id = n.id WHERE n.id = ANY ($1::uuid[]) AND n.lifecycle <> 'retired' GROUP BY n.id`
	selectStock = `
		SELECT s.sku, count(*) FILTER (WHERE s.status = 'claimed'),
			count(*) FILTER (WHERE s.status IN ('clean', 'dirty') AND NOT n.cordoned AND NOT n.retiring
				AND coalesce(s.held_until, '-infinity') <= now())
		FROM slots s JOIN nodes n ON n.id = s.node_id WHERE n.lifecycle <> 'retired' GROUP BY s.sku`
	countFleet    = `SELECT count(*) FROM nodes WHERE lifecycle <> 'retired'`
	retireSlots   = `WITH node AS (SELECT id FROM nodes WHERE id = $1 AND retiring)` + andRetireSlots
	retireSlotsOf = `WITH node AS (SELECT id FROM nodes WHERE retiring AND id =
			(SELECT s.node_id FROM slots s JOIN slot_claims c ON c.slot_id = s.id WHERE c.allocation_id = $1 LIMIT 1))` + andRetireSlots
	andRetireSlots = `, retired AS (
			SELECT s.id, s.status FROM slots s JOIN node ON node.id = s.node_id ORDER BY s.id FOR UPDATE OF s
		)
		UPDATE slots SET status = 'quarantined', reason = 'retired', updated_at = now()
		FROM retired WHERE slots.id = retired.id AND retired.status = 'clean'`
)
