package agentrelease

const (
	// The same build again gets a later expiry. Another build with this version is rejected.
	putRelease = `
		INSERT INTO agent_releases AS r (version, platform, digest, size_bytes, minimum, metadata, signature, kid, expires_at, created_by)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT (version, platform) DO UPDATE SET minimum = excluded.minimum, metadata = excluded.metadata, signature = excluded.signature,
			kid = excluded.kid, expires_at = excluded.expires_at, created_by = excluded.created_by
		WHERE r.digest = excluded.digest`
	selectReleases = `
		SELECT version, platform, digest, size_bytes, minimum, metadata, signature, kid, expires_at, created_at, created_by
		FROM agent_releases ORDER BY created_at DESC, version, platform`
	selectRelease = `
		SELECT version, platform, digest, size_bytes, minimum, metadata, signature, kid, expires_at, created_at, created_by
		FROM agent_releases WHERE version = $1 AND platform = $2`

	// Without the lock, two workers would each start a ring of their own.
	tryLead = `SELECT pg_try_advisory_xact_lock(hashtextextended('agent.rollout', 0)), now()`
	// A node with a hold is not updated, for the same reasons that it is not sold.
	selectFleet = `
		SELECT n.id, n.name, n.agent_version, n.agent_platform, n.health,
			n.cordoned OR n.lifecycle IN ('draining', 'drained') OR EXISTS (
				SELECT FROM holds h WHERE h.node_id = n.id AND h.slot_id IS NULL AND h.lifted_at IS NULL AND (h.kind = 'drain' OR coalesce(h.deadline > now(), true))),
			n.reachability = 'reachable'
		FROM nodes n WHERE n.lifecycle NOT IN ('declared', 'commissioning', 'retired')`
	// Of versions that no node should run any more, only the rows in progress.
	selectUpdates = `
		SELECT node_id, version, ring, fence, health, status, message, deadline_at, updated_at
		FROM agent_updates WHERE status <> 'healthy' OR version = ANY ($1)`
	moveUpdates = `
		UPDATE agent_updates u SET status = m.status, message = m.message, updated_at = now()
		FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) AS m (node_id, version, status, message)
		WHERE u.node_id = m.node_id AND u.version = m.version`
	forgetUpdates = `
		DELETE FROM agent_updates u USING unnest($1::uuid[], $2::text[]) AS m (node_id, version)
		WHERE u.node_id = m.node_id AND u.version = m.version`
	askUpdate = `
		INSERT INTO agent_updates (node_id, version, previous, ring, fence, health, status, deadline_at)
		VALUES ($1, $2, $3, $4, $5, $6, 'requested', now() + $7::interval)
		ON CONFLICT (node_id, version) DO UPDATE SET previous = excluded.previous, ring = excluded.ring, fence = excluded.fence, health = excluded.health,
			status = 'requested', message = '', deadline_at = excluded.deadline_at, created_at = now(), updated_at = now()`
	// The rows of the version are deleted, and the next pass tries it again.
	retryVersion = `DELETE FROM agent_updates WHERE version = $1 AND status IN ('rolled_back', 'failed', 'waiting')`

	putRollout = `
		INSERT INTO agent_rollouts AS r (version, status, ring, nodes, updated, updating, failed, message) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (version) DO UPDATE SET status = excluded.status, ring = excluded.ring, nodes = excluded.nodes, updated = excluded.updated, updating = excluded.updating,
			failed = excluded.failed, message = excluded.message, status_changes = r.status_changes + (r.status <> excluded.status)::int, updated_at = now()
		WHERE (r.status, r.ring, r.nodes, r.updated, r.updating, r.failed, r.message) IS DISTINCT FROM
			(excluded.status, excluded.ring, excluded.nodes, excluded.updated, excluded.updating, excluded.failed, excluded.message)
		RETURNING status_changes, (SELECT status FROM agent_rollouts WHERE version = $1) IS DISTINCT FROM $2`
	endRollouts    = `DELETE FROM agent_rollouts WHERE NOT version = ANY ($1)`
	selectRollouts = `SELECT version, status, ring, nodes, updated, updating, failed, message, updated_at FROM agent_rollouts ORDER BY updated_at DESC, version`
	selectOf       = `
		SELECT version, previous, ring, status, message, created_at, updated_at FROM agent_updates WHERE node_id = $1 ORDER BY updated_at DESC, version LIMIT $2`
	selectLatest = `
		SELECT DISTINCT ON (node_id) node_id, version, previous, ring, status, message, created_at, updated_at
		FROM agent_updates WHERE node_id = ANY ($1) ORDER BY node_id, updated_at DESC, version`
)
