package observed

const (
	// The statement compares and updates the row in one step; it returns no row if the report is not
	// newer. "blind" reports whether the last report was stale, or was incomplete and this one is
	// complete.
	putReport = `
		WITH last AS (
			SELECT content_hash, greatest(stale_at, (SELECT l.stale_at FROM observed_leases l WHERE l.id = lease)) AS stale_at, complete, devices
			FROM observed_nodes WHERE node_id = $1 FOR UPDATE
		), put AS (
			INSERT INTO observed_nodes AS n (node_id, enrolment, boot, boot_id, sequence, complete, missing, agent, capability, inventory,
				content_hash, foreign_use, devices, observed_at, stale_at, lease, origin)
			-- From the lock: read any later, the row would be this statement's own, and
			-- every report would count as a change.
			SELECT $1, $15::bigint, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $13::jsonb, now(), now() + $12::interval, $14, $16::jsonb FROM (SELECT count(*) FROM last) AS locked
			ON CONFLICT (node_id) DO UPDATE SET
				enrolment = excluded.enrolment, boot = excluded.boot, boot_id = excluded.boot_id, sequence = excluded.sequence, complete = excluded.complete,
				missing = excluded.missing, agent = excluded.agent, capability = excluded.capability,
				inventory = CASE WHEN n.content_hash = excluded.content_hash THEN n.inventory ELSE excluded.inventory END,
				content_hash = excluded.content_hash, foreign_use = excluded.foreign_use, devices = excluded.devices,
				observed_at = excluded.observed_at, stale_at = excluded.stale_at, lease = excluded.lease,
				origin = CASE WHEN n.content_hash = excluded.content_hash THEN coalesce(n.origin, excluded.origin) ELSE excluded.origin END
			WHERE (excluded.enrolment, excluded.boot, excluded.sequence) > (n.enrolment, n.boot, n.sequence)
			RETURNING content_hash, devices
		)
		SELECT coalesce((SELECT content_hash FROM last), ''), content_hash,
			coalesce((SELECT stale_at <= now() OR $5 AND NOT complete FROM last), true),
			devices IS DISTINCT FROM (SELECT devices FROM last)
		FROM put`

	selectBoot = `SELECT boot FROM observed_nodes WHERE node_id = $1`

	markNode = `SELECT mark_due('Node', $1, now(), 'its GPUs are others')`

	wakeNode = `
		SELECT mark_due('Node', $1, now(), 'reports have begun')
		UNION ALL
		SELECT mark_due('Allocation', allocation_id, now(), 'its node reports again')
		FROM (SELECT allocation_id FROM observed_allocations WHERE node_id = $1 AND phase <> 'gone' ORDER BY allocation_id) AS present`

	// Only differing rows are written and marked as due. A report with an older fence is late and
	// changes nothing. The key contains the node, so that no report changes the row of another node.
	putObserved = `
		WITH input AS (
			SELECT * FROM jsonb_to_recordset($2) AS r(allocation_id uuid, phase text, fence bigint, observed_generation bigint,
				spec_hash text, step text, message text, proof jsonb, mounts jsonb)
		), put AS (
			INSERT INTO observed_allocations AS o (allocation_id, node_id, phase, fence, observed_generation, spec_hash, step, message, proof, mounts, observed_at)
			SELECT allocation_id, $1, phase, fence, observed_generation, spec_hash, coalesce(step, ''), coalesce(message, ''), nullif(proof, 'null'), coalesce(mounts, '[]'), now()
			FROM input ORDER BY allocation_id
			ON CONFLICT (allocation_id, node_id) DO UPDATE SET
				phase = excluded.phase, fence = excluded.fence, observed_generation = excluded.observed_generation,
				spec_hash = excluded.spec_hash, step = excluded.step, message = excluded.message, proof = excluded.proof, mounts = excluded.mounts, observed_at = excluded.observed_at
			WHERE excluded.fence >= o.fence AND (o.phase, o.fence, o.observed_generation, o.spec_hash, o.step, o.message, o.proof, o.mounts)
				IS DISTINCT FROM (excluded.phase, excluded.fence, excluded.observed_generation, excluded.spec_hash, excluded.step, excluded.message, excluded.proof, excluded.mounts)
			RETURNING allocation_id
		)
		SELECT count(mark_due('Allocation', allocation_id, now(), 'reported')) FROM (SELECT allocation_id FROM put ORDER BY 1) AS sorted`

	// The row of an unread allocation stays as it was last read.
	markUnread = `
		WITH put AS (
			UPDATE observed_allocations o SET unread = coalesce(r.unread, '')
			FROM jsonb_to_recordset($2) AS r(allocation_id uuid, unread text)
			WHERE o.allocation_id = r.allocation_id AND o.node_id = $1 AND o.unread <> coalesce(r.unread, '')
			RETURNING o.allocation_id
		)
		SELECT count(mark_due('Allocation', allocation_id, now(), 'its node can read it again, or no longer')) FROM (SELECT allocation_id FROM put ORDER BY 1) AS sorted`

	// A node that no longer reports an allocation has lost its record. That is no proof: the fence
	// stays, the proof is removed.
	forget = `
		WITH put AS (
			UPDATE observed_allocations SET phase = 'gone', proof = NULL, message = 'the node no longer reports it', observed_at = now()
			WHERE node_id = $1 AND NOT allocation_id = ANY($2) AND phase <> 'gone'
			RETURNING allocation_id
		)
		SELECT count(mark_due('Allocation', allocation_id, now(), 'no longer reported')) FROM put`

	// Before a first report the row has fence 0 and phase gone, unproven: nothing
	// is known to be there, and nothing is known to be clean.
	countFailure = `
		WITH put AS (
			INSERT INTO observed_allocations AS o (allocation_id, node_id, phase, fence, observed_generation, spec_hash, failures, failed_fence, failed_code, message, observed_at)
			VALUES ($1, $2, 'gone', 0, $4, '', $7, $3, $5, $6, now())
			ON CONFLICT (allocation_id, node_id) DO UPDATE SET
				failures = CASE WHEN o.failed_fence = excluded.failed_fence THEN o.failures + excluded.failures ELSE excluded.failures END,
				failed_fence = excluded.failed_fence, failed_code = excluded.failed_code, message = excluded.message
			WHERE excluded.failed_fence >= o.failed_fence
			RETURNING allocation_id
		)
		SELECT mark_due('Allocation', allocation_id, now(), 'a task failed') FROM put`

	putApplied = `
		WITH put AS (
			INSERT INTO observed_objects (uid, kind, generation, spec_hash, gone, epoch) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (uid) DO UPDATE SET generation = excluded.generation, epoch = excluded.epoch, spec_hash = excluded.spec_hash, gone = excluded.gone, observed_at = now(),
				failures = 0, failure = ''
			RETURNING uid, kind
		)
		SELECT mark_due(kind, uid, now(), 'applied') FROM put`

	countApplyFailure = `
		INSERT INTO observed_objects AS o (uid, kind, generation, spec_hash, failures, failed_generation, failed_epoch, failure) VALUES ($1, $2, 0, '', 1, $3, $4, $5)
		ON CONFLICT (uid) DO UPDATE SET observed_at = now(), failed_generation = excluded.failed_generation, failed_epoch = excluded.failed_epoch, failure = excluded.failure,
			failures = CASE WHEN (o.failed_generation, o.failed_epoch) = (excluded.failed_generation, excluded.failed_epoch) THEN o.failures + 1 ELSE 1 END`

	// A proof is one only of the fence that it was made at, and with nothing left.
	proven = `a.proof IS NOT NULL AND (a.proof->>'fence')::bigint = a.fence
				AND jsonb_array_length(coalesce(nullif(a.proof->'leftovers', 'null'), '[]')) = 0`

	// OFFSET 0 makes PostgreSQL read the node by its key. As a plain join it built a hash of the whole
	// fleet for a thousand keys.
	selectObserved = `
		SELECT a.allocation_id, a.node_id, a.phase, a.fence, a.spec_hash, a.message, ` + proven + `,
			coalesce(n.complete, false) AND a.unread = '', coalesce(n.stale_at, 'epoch'::timestamptz), a.failures, a.failed_fence
		FROM observed_allocations a LEFT JOIN LATERAL (
			SELECT complete, ` + staleAt + ` AS stale_at FROM ` + nodesLeased + ` WHERE n.node_id = a.node_id OFFSET 0) n ON true
		WHERE a.allocation_id = ANY($1)`

	selectApplied    = `SELECT uid, generation, epoch, spec_hash, gone, failures, failed_generation, failed_epoch FROM observed_objects WHERE uid = ANY($1)`
	selectCarriedOut = `SELECT uid, generation, epoch, spec_hash, gone, observed_at FROM observed_objects WHERE uid = $1 AND generation > 0`
	selectHeard      = `SELECT node_id, ` + staleAt + `, CASE WHEN complete THEN devices END FROM ` + nodesLeased + ` WHERE node_id = ANY($1)`
	selectCapability = `SELECT capability FROM observed_nodes WHERE node_id = $1`
	selectLast       = `SELECT node_id, ` + observedAt + ` FROM ` + nodesLeased
	selectSilent     = `SELECT ` + staleAt + ` <= now() FROM ` + nodesLeased + ` WHERE node_id = $1`
	selectNode       = `
		SELECT node_id, boot, sequence, complete, missing, agent, capability, inventory, foreign_use, ` + observedAt + `, ` + staleAt + `
		FROM ` + nodesLeased + ` WHERE node_id = $1`
	held = `
		SELECT a.allocation_id, a.node_id, a.phase, a.fence, a.observed_generation, a.step, a.message, a.proof, a.failures, a.failed_code, a.observed_at,
			a.failed_fence, a.spec_hash, ` + proven + `, coalesce(n.complete AND ` + staleAt + ` > now(), false),
			coalesce(n.boot, 0), coalesce(n.sequence, 0), coalesce(` + observedAt + `, a.observed_at), now() - coalesce(` + observedAt + `, a.observed_at), n.origin,
			coalesce(n.capability, 0), a.mounts
		FROM observed_allocations a LEFT JOIN (` + nodesLeased + `) ON n.node_id = a.node_id`

	selectHeld    = held + ` WHERE a.allocation_id = $1 AND a.node_id = $2`
	selectNewest  = held + ` WHERE a.allocation_id = $1 ORDER BY a.observed_at DESC LIMIT 1`
	selectMany    = held + ` WHERE a.allocation_id = ANY($1) ORDER BY a.observed_at`
	selectCarried = `SELECT uid, generation, spec_hash, gone, observed_at, failures, failed_generation, failed_epoch, failure FROM observed_objects WHERE uid = ANY($1)`
	selectOld     = `
		SELECT a.allocation_id FROM ` + nodesLeased + ` JOIN observed_allocations a ON a.node_id = n.node_id
		WHERE ` + observedAt + ` < now() - $1::interval AND a.phase <> 'gone' AND a.allocation_id > $2 ORDER BY a.allocation_id LIMIT $3`
	countSilent = `SELECT count(*) FILTER (WHERE ` + staleAt + ` <= now()), count(*) FROM ` + nodesLeased

	// The time of a node's last report is in its row, or in the lease that its row names, whichever is
	// later.
	nodesLeased = `observed_nodes n LEFT JOIN observed_leases l ON l.id = n.lease`
	observedAt  = `greatest(n.observed_at, l.observed_at)`
	staleAt     = `greatest(n.stale_at, l.stale_at)`

	selectLease  = `SELECT now(), coalesce((SELECT stale_at FROM observed_leases WHERE id = $1), 'epoch')`
	selectLeased = `SELECT node_id FROM observed_nodes WHERE node_id = ANY($2) AND lease = $1`
	renewLease   = `
		INSERT INTO observed_leases (id, observed_at, stale_at) VALUES ($1, now() - $2::interval, now() - $2::interval + $3::interval)
		ON CONFLICT (id) DO UPDATE SET observed_at = excluded.observed_at, stale_at = excluded.stale_at`
	endLease   = `DELETE FROM observed_leases WHERE id = $1`
	dropLeases = `DELETE FROM observed_leases WHERE stale_at < now() - interval '1 day'` // of processes that died

	// Only if the row has the same content and is not stale: every other report is a change that must be
	// processed.
	adoptReports = `
		UPDATE observed_nodes n SET sequence = i.sequence, observed_at = now(), stale_at = now() + $2::interval, lease = $1
		FROM unnest($3::uuid[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[]) AS i (node_id, boot, sequence, content_hash, enrolment)
		WHERE n.node_id = i.node_id AND n.content_hash = i.content_hash AND n.enrolment = i.enrolment AND n.boot = i.boot AND i.sequence > n.sequence AND n.devices IS NOT NULL
			AND (n.stale_at > now() OR (SELECT l.stale_at > now() FROM observed_leases l WHERE l.id = n.lease))
		RETURNING n.node_id`

	// A row that is locked is being written by a report: its node lives. Waiting for
	// it, with others locked already, could be waiting for oneself.
	lapseReports = `
		WITH quiet AS (
			SELECT n.node_id, i.enrolment, i.boot, i.sequence, i.age * interval '1 microsecond' AS age
			FROM observed_nodes n JOIN unnest($3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
				AS i (node_id, boot, sequence, age, enrolment) ON i.node_id = n.node_id
			WHERE n.lease = $1 FOR UPDATE OF n SKIP LOCKED
		)
		UPDATE observed_nodes n SET lease = NULL, sequence = CASE WHEN (quiet.enrolment, quiet.boot) = (n.enrolment, n.boot) THEN greatest(n.sequence, quiet.sequence) ELSE n.sequence END,
			observed_at = greatest(n.observed_at, now() - quiet.age), stale_at = greatest(n.stale_at, now() - quiet.age + $2::interval)
		FROM quiet WHERE n.node_id = quiet.node_id
		RETURNING n.node_id`
)
