package nodetask

const (
	// Locks the live tasks of the allocation, ends those that the new task supersedes, and returns
	// the highest fence so far, the attempts at this fence, and whether an equal task is pending or succeeded within $4.
	// A running task expires $6 later than one that the node has not started.
	finishTasks = `
		WITH live AS (
			SELECT id, fence, type, expires_at + CASE status WHEN 'running' THEN $6 ELSE '0' END::interval AS expires_at FROM node_tasks
			WHERE allocation_id = $1 AND status IN ('queued', 'delivered', 'running') FOR UPDATE
		), ended AS (
			UPDATE node_tasks t SET status = CASE WHEN live.fence < $2 THEN 'superseded' ELSE 'expired' END, finished_at = now()
			FROM live WHERE t.id = live.id
				AND (live.fence < $2 OR live.fence = $2 AND (live.type <> $3 OR live.expires_at <= now()))
			RETURNING t.status
		)
		SELECT (SELECT count(*) FROM ended WHERE status = 'expired'), coalesce((SELECT max(fence) FROM node_tasks WHERE allocation_id = $1), 0),
			coalesce((SELECT max(attempt) FROM node_tasks WHERE allocation_id = $1 AND fence = $2), 0),
			EXISTS (SELECT FROM live WHERE fence = $2 AND type = $3 AND expires_at > now())
				OR EXISTS (SELECT FROM node_tasks WHERE allocation_id = $1 AND node_id = $5 AND fence = $2 AND type = $3
					AND status = 'succeeded' AND finished_at > now() - $4::interval)`

	// Ends the expired tasks of a type about the node, and returns whether one is pending. A node that does not poll
	// would otherwise get one more probe with each pass.
	finishNodeTasks = `
		WITH ended AS (
			UPDATE node_tasks SET status = 'expired', finished_at = now()
			WHERE node_id = $1 AND type = $2 AND allocation_id IS NULL AND status IN ('queued', 'delivered', 'running') AND expires_at <= now() RETURNING id
		)
		SELECT (SELECT count(*) FROM ended), EXISTS (SELECT FROM node_tasks WHERE node_id = $1 AND type = $2 AND allocation_id IS NULL
			AND status IN ('queued', 'delivered', 'running') AND expires_at > now())`

	selectNewest = `
		SELECT fence, node_id = $2 AND type = $3 AND generation = 0 FROM node_tasks WHERE allocation_id = $1 ORDER BY fence DESC, attempt DESC LIMIT 1`

	insertTask = `
		INSERT INTO node_tasks (id, node_id, allocation_id, type, fence, generation, attempt, body, signature, status, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'queued', $10)`

	// The oldest task of each node. An unacknowledged delivery is repeated; the node recognises the
	// task by its id.
	takeTasks = `
		WITH due AS (
			SELECT t.id FROM unnest($1::uuid[]) AS n (node_id), LATERAL (
				SELECT id FROM node_tasks
				WHERE node_id = n.node_id AND expires_at > now()
					AND (status = 'queued' OR status = 'delivered' AND delivered_at < now() - $2::interval)
				ORDER BY created_at LIMIT 1 FOR UPDATE SKIP LOCKED
			) AS t
		)
		UPDATE node_tasks SET status = 'delivered', delivered_at = now() FROM due WHERE node_tasks.id = due.id
		RETURNING node_tasks.node_id, body, signature`

	stepTask = `
		UPDATE node_tasks SET status = 'running', step = $5
		WHERE id = $1 AND node_id = $2 AND fence = $3 AND attempt = $4 AND status IN ('queued', 'delivered', 'running')`

	finishTask = `
		UPDATE node_tasks SET status = $5, code = $6, message = $7, step = $8, finished_at = now()
		WHERE id = $1 AND node_id = $2 AND fence = $3 AND attempt = $4 AND allocation_id IS NOT DISTINCT FROM $9
			AND status IN ('queued', 'delivered', 'running')
		RETURNING type, extract(epoch FROM coalesce(delivered_at, now()) - created_at)::float8, extract(epoch FROM now() - created_at)::float8`
	countQueued = `SELECT type, count(*) FROM node_tasks WHERE status IN ('queued', 'delivered', 'running') AND expires_at > now() GROUP BY type`
	// Body and signature are not read: the body contains keys, and the API's role has no right to
	// read it.
	taskColumns = `SELECT id, node_id, type, fence, generation, attempt, status, step, code, message, created_at, delivered_at, finished_at, allocation_id FROM node_tasks`
	selectOf    = taskColumns + ` WHERE allocation_id = $1 ORDER BY created_at DESC LIMIT $2`
	selectLast  = taskColumns + ` WHERE node_id = $1 ORDER BY created_at DESC LIMIT $2`
	selectTo    = taskColumns + ` WHERE node_id = $1 AND allocation_id IS NULL AND status IN ('queued', 'delivered', 'running') ORDER BY created_at DESC LIMIT $2`

	// The newest first. An allocation that lives for years has its last provisioning
	// among them, or is provisioned once more.
	selectLastApplied = `SELECT type, fence, status, body FROM node_tasks WHERE allocation_id = $1 ORDER BY fence DESC, attempt DESC LIMIT 50`
	selectWaits       = `
		SELECT EXISTS (SELECT FROM node_tasks WHERE node_id = $1 AND type = $2 AND allocation_id IS NULL
			AND status IN ('queued', 'delivered', 'running') AND expires_at > now())`
	selectProbed = `
		SELECT EXISTS (SELECT FROM node_tasks WHERE node_id = $1 AND type = $3 AND allocation_id IS NULL AND status = 'succeeded' AND finished_at >= $2)`

	deleteTasks = `
		DELETE FROM node_tasks WHERE id IN (
			SELECT id FROM node_tasks t WHERE finished_at < now() - $1::interval AND (allocation_id IS NULL OR EXISTS (
				SELECT FROM node_tasks r WHERE r.allocation_id = t.allocation_id AND r.type = $2 AND r.status = 'succeeded'
					AND r.finished_at < now() - $1::interval))
			ORDER BY finished_at LIMIT $3)`

	sameResult = `
		SELECT EXISTS (SELECT FROM node_tasks WHERE id = $1 AND node_id = $2 AND fence = $3 AND attempt = $4 AND status = $5
			AND allocation_id IS NOT DISTINCT FROM $6)`
)
