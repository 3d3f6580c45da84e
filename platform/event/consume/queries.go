package consume

import "github.com/gpuaas/gpuaas/platform/event"

const (
	// One statement reads the event and marks it, because a second one would cost a fifth of the time of an event.
	markEvent = `WITH e AS MATERIALIZED (SELECT ` + event.Columns + ` FROM outbox_events WHERE event_id = $2),` + markProcessed + `
	SELECT e.*, EXISTS (SELECT FROM known), (SELECT wanted FROM effect) FROM e`

	// A dead letter is in no outbox.
	markLetter = `WITH e AS (SELECT '' AS aggregate, 0 AS sequence, $6::timestamptz AS occurred_at),` + markProcessed + `
	SELECT EXISTS (SELECT FROM known), (SELECT wanted FROM effect)`

	// The first insert waits for another transaction that processes the event. The row of the aggregate is
	// locked until the commit. An event from before the first start of the consumer is not marked, so that a
	// replay can process it. Failures of the event end with it, and a dead letter only with its effect.
	markProcessed = `
		known AS (SELECT e.occurred_at >= since OR $3::boolean AS chosen FROM event_consumers CROSS JOIN e WHERE name = $1),
		new AS (INSERT INTO inbox (consumer, event_id) SELECT $1, $2 FROM known WHERE chosen ON CONFLICT DO NOTHING RETURNING event_id),
		head AS (
			INSERT INTO inbox_heads (consumer, aggregate, sequence) SELECT $1, e.aggregate, e.sequence FROM new CROSS JOIN e WHERE NOT $4::boolean
			ON CONFLICT (consumer, aggregate) DO UPDATE SET sequence = excluded.sequence, moved_at = now() WHERE inbox_heads.sequence < excluded.sequence
			RETURNING sequence),
		effect AS (SELECT EXISTS (SELECT FROM new) AND ($4 OR EXISTS (SELECT FROM head)) OR $5::boolean AS wanted),
		failed AS (DELETE FROM dead_letters WHERE consumer = $1 AND event_id = $2 AND dead_at IS NULL),
		dead AS (
			UPDATE dead_letters SET resolved_at = now(), resolution = 'retried', retry_at = NULL
			WHERE consumer = $1 AND event_id = $2 AND dead_at IS NOT NULL AND resolved_at IS NULL AND (SELECT wanted FROM effect))`

	countFailure = `
	INSERT INTO dead_letters (id, consumer, event_id, stream, subject, error, dead_at) VALUES ($1, $2, $3, $4, $5, left($6, 4096), CASE WHEN $7 <= 1 THEN now() END)
	ON CONFLICT (consumer, event_id) DO UPDATE SET
		attempts = dead_letters.attempts + 1, error = excluded.error, failed_at = now(), retry_at = NULL,
		dead_at = coalesce(dead_letters.dead_at, CASE WHEN dead_letters.attempts + 1 >= $7 THEN now() END),
		resolved_at = NULL, resolution = ''
	RETURNING id, attempts`

	insertState = `INSERT INTO event_consumers (name, stream, epoch, pending, redelivered) VALUES ($1, $2, '', 0, 0) ON CONFLICT DO NOTHING`

	putState = `
	INSERT INTO event_consumers (name, stream, epoch, pending, redelivered, oldest_at) VALUES ($1, $2, $3, $4, $5, $6)
	ON CONFLICT (name) DO UPDATE SET
		stream = excluded.stream, epoch = excluded.epoch, pending = excluded.pending, redelivered = excluded.redelivered, oldest_at = excluded.oldest_at,
		checked_at = now()
	WHERE event_consumers.checked_at < now() - interval '1 minute' OR (event_consumers.epoch, event_consumers.pending, event_consumers.redelivered, event_consumers.oldest_at)
		IS DISTINCT FROM (excluded.epoch, excluded.pending, excluded.redelivered, excluded.oldest_at)`

	selectStates = `
	SELECT name, stream, epoch, pending, redelivered, oldest_at, coalesce(now() - oldest_at, '0'), checked_at FROM event_consumers
	WHERE name > $1 ORDER BY name LIMIT $2`

	// A day after the last worker that had the consumer: workers of two releases may run at the same time.
	deleteStates = `DELETE FROM event_consumers WHERE name <> ALL ($1) AND checked_at < now() - interval '1 day'`

	// No event is dropped while a replay is active.
	endReplays = `UPDATE event_replays SET done_at = now() WHERE done_at IS NULL AND consumer NOT IN (SELECT name FROM event_consumers)`

	lockRetry = `
	SELECT consumer, event_id FROM dead_letters
	WHERE retry_at IS NOT NULL AND resolved_at IS NULL AND consumer = ANY ($1) ORDER BY retry_at, id LIMIT 1 FOR UPDATE SKIP LOCKED`

	lockReplay = `
	SELECT id, consumer, xid, seq, repeat, event_ids IS NOT NULL FROM event_replays
	WHERE done_at IS NULL AND consumer = ANY ($1) ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED`

	// A replay waits for stored events that are not below the horizon yet, because an older transaction is open.
	moveReplay = `
	UPDATE event_replays SET xid = $2::xid8, seq = $3, events = events + $4, effects = effects + $5,
		done_at = CASE WHEN $6 AND NOT EXISTS (
			SELECT FROM outbox_events e WHERE e.stream = $7 AND (e.xid, e.seq) > ($2::xid8, $3) AND e.occurred_at < to_at
				AND (event_ids IS NULL OR e.event_id = ANY (event_ids))) THEN now() END
	WHERE id = $1 RETURNING done_at IS NOT NULL`

	// Both read by position, so that a replay continues after a killed worker. An event that has become a dead
	// letter since the request is not processed again.
	selectReplayed = `
	SELECT e.event_id, e.xid, e.seq, e.subject = ANY ($3) AND ` + chosenByReplay + `
	FROM event_replays r CROSS JOIN LATERAL (
		SELECT event_id, xid, seq, subject, occurred_at FROM outbox_events
		WHERE stream = $2 AND (xid, seq) > (r.xid, r.seq) AND xid < xact_horizon() ORDER BY xid, seq LIMIT $4) e
	WHERE r.id = $1 ORDER BY e.xid, e.seq`

	selectReplayedByID = `
	SELECT e.event_id, e.xid, e.seq, e.subject = ANY ($3) AND ` + chosenByReplay + `
	FROM event_replays r JOIN outbox_events e ON e.event_id = ANY (r.event_ids) AND e.stream = $2 AND (e.xid, e.seq) > (r.xid, r.seq)
	WHERE r.id = $1 ORDER BY e.xid, e.seq LIMIT $4`

	chosenByReplay = `e.occurred_at >= r.from_at AND e.occurred_at < r.to_at AND NOT EXISTS (
			SELECT FROM dead_letters d WHERE d.consumer = r.consumer AND d.event_id = e.event_id
				AND d.dead_at IS NOT NULL AND d.resolved_at IS NULL AND d.failed_at >= r.created_at)`

	letterColumns = `id, consumer, event_id, stream, subject, error, attempts, created_at, failed_at, dead_at, retry_at, resolved_at, resolution, resolved_by, reason`

	selectLetters = `
	SELECT ` + letterColumns + ` FROM dead_letters
	WHERE dead_at IS NOT NULL AND ($1 = '' OR consumer = $1) AND ($2 = '' OR stream = $2) AND ($3 = '' OR subject = $3)
		AND ($4 OR resolved_at IS NULL) AND id < $5 ORDER BY id DESC LIMIT $6`

	selectLetter = `SELECT ` + letterColumns + ` FROM dead_letters WHERE id = $1 AND dead_at IS NOT NULL`

	selectChosen = `
	SELECT id FROM dead_letters
	WHERE dead_at IS NOT NULL AND resolved_at IS NULL AND ($1 = '' OR consumer = $1) AND ($2 = '' OR stream = $2) AND ($3 = '' OR subject = $3)
		AND ($4::uuid[] IS NULL OR id = ANY ($4)) ORDER BY id LIMIT $5`

	requestRetries = `UPDATE dead_letters SET retry_at = now(), resolved_by = $2, reason = $3 WHERE id = ANY ($1) AND resolved_at IS NULL`

	// Marked as processed, so that a stream that is filled again does not bring the effect back.
	discardLetters = `
	WITH gone AS (
		UPDATE dead_letters SET resolved_at = now(), resolution = 'discarded', resolved_by = $2, reason = $3, retry_at = NULL
		WHERE id = ANY ($1) AND resolved_at IS NULL RETURNING consumer, event_id)
	INSERT INTO inbox (consumer, event_id) SELECT consumer, event_id FROM gone ON CONFLICT DO NOTHING`

	selectConsumer = `SELECT stream FROM event_consumers WHERE name = $1`

	insertReplay = `
	INSERT INTO event_replays (id, consumer, event_ids, from_at, to_at, xid, seq, repeat, actor, reason)
	VALUES ($1, $2, $3, coalesce($4::timestamptz, '-infinity'), coalesce($5::timestamptz, now()), $6::xid8, $7, $8, $9, $10)`

	deleteHeads = `DELETE FROM inbox_heads WHERE (consumer, aggregate) IN (
		SELECT consumer, aggregate FROM inbox_heads WHERE moved_at < now() - $1::interval ORDER BY moved_at LIMIT $2)`

	deleteLetters = `DELETE FROM dead_letters WHERE id IN (
		SELECT id FROM dead_letters WHERE failed_at < now() - $1::interval AND (resolved_at IS NOT NULL OR dead_at IS NULL) ORDER BY failed_at LIMIT $2)`

	deleteReplays = `DELETE FROM event_replays WHERE id IN (
		SELECT id FROM event_replays WHERE done_at < now() - $1::interval ORDER BY done_at LIMIT $2)`
)
