package reconciler

const (
	selectDue = `
		SELECT kind, object_id, due_at, previous_verb, previous_trigger, previous_fence, previous_generation, previous_failures, previous_until
		FROM reconcile_due WHERE due_at <= now()
		ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED`

	// A row that another replica has locked is skipped: that replica is processing it.
	selectSwept = `
		WITH keys AS (SELECT * FROM unnest($1::text[], $2::uuid[]) AS k(kind, object_id)),
		there AS MATERIALIZED (
			SELECT kind, object_id FROM reconcile_due WHERE object_id = ANY($2)
		), mine AS (
			SELECT d.* FROM reconcile_due d WHERE d.object_id = ANY($2) FOR UPDATE SKIP LOCKED
		)
		SELECT k.kind, k.object_id, m.due_at, coalesce(m.previous_verb, ''), coalesce(m.previous_trigger, ''), coalesce(m.previous_fence, 0),
			coalesce(m.previous_generation, 0), coalesce(m.previous_failures, 0), m.previous_until
		FROM keys k LEFT JOIN mine m ON (m.kind, m.object_id) = (k.kind, k.object_id)
			LEFT JOIN there t ON (t.kind, t.object_id) = (k.kind, k.object_id)
		WHERE m.object_id IS NOT NULL OR t.object_id IS NULL`

	// The published view of product/allocation.
	selectProgress = `SELECT allocation_id, status, status_at, expires_at, hourly_minor, currency, eviction_at, eviction_by, eviction_reason FROM allocation_progress WHERE allocation_id = ANY($1)`
	// The inventory's published view.
	selectNodeSpecs = `SELECT node_id, reachable, sellable, changed, lifecycle, retiring, drain_deadline, hold_expires_at, occupied FROM node_progress WHERE node_id = ANY($1)`
	selectLeaving   = `SELECT allocation_id, eviction_at, owner, reason FROM eviction_progress WHERE allocation_id = ANY($1)`
	countNodes      = `SELECT count(*) FROM node_progress WHERE in_fleet`
	selectFindings  = `
		SELECT object_id, id, field, desired, observed, cause, policy, owner, opened_at, deadline_at, status = 'ignored', ignored_by, ignored_reason,
			ignored_until, cost_minor, currency, version
		FROM drift WHERE object_id = ANY($1) AND status IN ('open', 'ignored') ORDER BY object_id, field`

	deleteDue = `DELETE FROM reconcile_due WHERE object_id = ANY($1)`

	// The rows that this pass has locked get their next time.
	upsertRechecks = `
		SELECT * FROM unnest($1::text[], $2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::int[], $10::timestamptz[])
			AS recheck(kind, object_id, due_at, reason, previous_verb, previous_trigger, previous_fence, previous_generation, previous_failures, previous_until)`
	keepDue = `
		UPDATE reconcile_due d SET due_at = recheck.due_at, reason = recheck.reason, previous_verb = recheck.previous_verb, previous_trigger = recheck.previous_trigger,
			previous_fence = recheck.previous_fence, previous_generation = recheck.previous_generation, previous_failures = recheck.previous_failures, previous_until = recheck.previous_until
		FROM (` + upsertRechecks + `) AS recheck WHERE (d.kind, d.object_id) = (recheck.kind, recheck.object_id)`
	// A swept object had no row to lock. A row that has appeared since is a mark, and a check that
	// began before the mark must not delay it.
	addDue = `
		INSERT INTO reconcile_due (kind, object_id, due_at, reason, previous_verb, previous_trigger, previous_fence, previous_generation, previous_failures, previous_until)
		` + upsertRechecks + ` ORDER BY object_id ON CONFLICT (kind, object_id) DO NOTHING`

	insertPlan    = `INSERT INTO plans (id, hash, actions, rejected_actions) VALUES ($1, $2, $3, $4)`
	insertActions = `
		INSERT INTO plan_actions (plan_id, number, kind, object_id, node_id, verb, trigger, fence, generation, epoch, reason, rejected_reason, automatic)
		SELECT $1, number, kind, object_id, node_id, verb, trigger, fence, generation, epoch, reason, rejected_reason, automatic
		FROM jsonb_to_recordset($2) AS r(number int, kind text, object_id uuid, node_id uuid, verb text, trigger text,
			fence bigint, generation bigint, epoch bigint, reason text, rejected_reason text, automatic boolean)`
	// Plans with automatic actions are checked one at a time. Two plans that count at once would
	// both find the whole budget.
	lockAutomatic   = `SELECT pg_advisory_xact_lock(hashtext('reconciler automatic'))`
	selectAutomatic = `
		SELECT DISTINCT a.object_id, a.kind FROM plans p JOIN plan_actions a ON a.plan_id = p.id
		WHERE a.automatic AND (a.verb = 'release' OR a.trigger = 'eviction_due' OR a.kind = 'Node') AND a.rejected_reason = '' AND p.created_at > now() - $1::interval`
	// Actions of an approved revision do not count as automatic.
	selectApproved = `
		SELECT DISTINCT p.source, p.commit FROM unnest($1::text[], $2::text[]) AS requested(source, commit)
			JOIN plans p ON p.origin = 'change' AND (p.source, p.commit) = (requested.source, requested.commit)
		WHERE p.decided_at IS NOT NULL AND p.status IN ('approved', 'applied')`

	selectPlans = `
		SELECT id, created_at, hash, status, actions, rejected_actions FROM plans
		WHERE origin = 'loop' AND ($3 = '' OR status = $3) AND id < $1 ORDER BY id DESC LIMIT $2`
	selectPlan    = `SELECT id, created_at, hash, status, actions, rejected_actions FROM plans WHERE origin = 'loop' AND id = $1`
	selectActions = `
		SELECT a.plan_id, p.created_at, a.number, a.kind, a.object_id, a.node_id, a.verb, a.trigger, a.fence, a.generation, a.epoch, a.reason, a.rejected_reason
		FROM plan_actions a JOIN plans p ON p.id = a.plan_id`
	driftFields = `id, kind, object_id, name, field, desired, observed, status, policy, owner, cause, opened_at, observed_at, deadline_at, healed_at,
			cost_minor, currency, ignored_by, ignored_reason, ignored_until, version, greatest(opened_at, observed_at, healed_at, ignored_at) AS updated_at`
	driftColumns = `SELECT ` + driftFields + ` FROM drift`
	selectDrift  = driftColumns + ` WHERE id = $1`
	// The three lists differ in which index finds their rows.
	selectDrifts   = driftColumns + ` WHERE (status, opened_at, id) < ($1, $2, $3) AND ($5 = '' OR kind = $5)` + driftPage
	selectDriftsIn = driftColumns + ` WHERE status = $6 AND (status, opened_at, id) < ($1, $2, $3) AND ($5 = '' OR kind = $5)` + driftPage
	selectDriftsOf = driftColumns + ` WHERE object_id = $7 AND (status, opened_at, id) < ($1, $2, $3) AND ($5 = '' OR kind = $5) AND ($6 = '' OR status = $6)` + driftPage
	// Of several objects at once, what is open.
	selectOpenOf = driftColumns + ` WHERE object_id = ANY($1) AND status = 'open' ORDER BY field`
	driftPage    = ` ORDER BY status DESC, opened_at DESC, id DESC LIMIT $4`
	// Due at once, so that the loop schedules the end of the ignore period.
	ignoreDrift = `
		WITH put AS (
			UPDATE drift SET status = 'ignored', ignored_by = $2, ignored_reason = $3, ignored_until = $4, ignored_at = now(), owner = 'operator', deadline_at = NULL, version = version + 1
			WHERE id = $1 AND status IN ('open', 'ignored')
			RETURNING ` + driftFields + `
		), due AS (
			SELECT mark_due(kind, object_id, now(), 'drift ignored') FROM put
		)
		SELECT put.* FROM put, due`

	selectLoad = `
		SELECT kind, sum(due)::bigint, coalesce(max(age), interval '0'), sum(drifting)::bigint, sum(overdue)::bigint FROM (
			SELECT kind, count(*) AS due, now() - min(due_at) AS age, 0 AS drifting, 0 AS overdue FROM reconcile_due WHERE due_at <= now() GROUP BY kind
			UNION ALL
			SELECT kind, 0, NULL, count(*), count(*) FILTER (WHERE deadline_at < now()) FROM drift WHERE status = 'open' GROUP BY kind
		) AS both_sides GROUP BY kind ORDER BY kind`

	countDrift = `SELECT count(*), count(*) FILTER (WHERE deadline_at < now()) FROM drift WHERE status = 'open'`

	// Two transactions may find the same drift at once. The second insert has no effect, and its
	// pass is repeated.
	openDrift = `
		INSERT INTO drift (id, kind, object_id, name, field, desired, observed, cause, policy, owner, status, deadline_at, cost_minor, currency,
			ignored_by, ignored_reason, ignored_until)
		SELECT id, kind, object_id, name, field, desired, observed, cause, policy, owner, status, deadline_at, cost_minor, currency,
			ignored_by, ignored_reason, ignored_until
		FROM jsonb_to_recordset($1) AS r(` + driftRow + `)`
	// An operator may have ignored the drift since it was read. Then the row is unchanged, and the
	// next pass reads it.
	changeDrift = `
		UPDATE drift d SET name = r.name, desired = r.desired, observed = r.observed, cause = r.cause, policy = r.policy, owner = r.owner, status = r.status,
			deadline_at = r.deadline_at, cost_minor = r.cost_minor, currency = r.currency, ignored_by = r.ignored_by, ignored_reason = r.ignored_reason,
			ignored_until = r.ignored_until, observed_at = now(), version = d.version + 1
		FROM jsonb_to_recordset($1) AS r(` + driftRow + `) WHERE d.id = r.id AND d.version = r.version`
	healDrift   = `UPDATE drift SET status = 'healed', healed_at = now(), version = version + 1 WHERE id = ANY($1) AND status <> 'healed'`
	deleteDrift = `
		DELETE FROM drift WHERE id IN (SELECT id FROM drift WHERE healed_at < now() - $1::interval ORDER BY healed_at LIMIT $2)`
	driftRow = `id uuid, kind text, object_id uuid, name text, field text, desired text, observed text, cause text, policy text, owner text, status text,
		deadline_at timestamptz, cost_minor bigint, currency text, ignored_by text, ignored_reason text, ignored_until timestamptz, version bigint`
)
