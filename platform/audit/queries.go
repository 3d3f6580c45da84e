package audit

const insertEntry = `
	INSERT INTO audit_logs (id, org_id, actor, action, target_urn, correlation_id, before, after, client_address, user_agent)
	VALUES ($1, nullif($2::uuid, '00000000-0000-0000-0000-000000000000'), $3, $4, $5, $6, $7, $8, $9, $10)`

// A search consists of these conditions, with numbered parameters.
const (
	selectRecords = `
	SELECT id, at, coalesce(org_id, '00000000-0000-0000-0000-000000000000'), actor, action, target_urn, correlation_id, before, after,
		client_address, user_agent
	FROM audit_logs`

	ofTenant = `org_id = $%d`
	byActor  = `actor = $%d`
	ofAction = `action = $%d`
	onTarget = `target_urn = $%d`
	// These two conditions read all rows of the tenant or the period and drop some, because they match a
	// part of a text.
	ofActions  = `starts_with(action, $%d)`
	onResource = `right(target_urn, 37) = ':' || $%d::text`
	from       = `at >= $%d`
	until      = `at < $%d`
	// The time once more by itself: a comparison of rows leaves out no partition.
	olderThan = `at <= $%[1]d AND (at, id) < ($%[1]d, $%[2]d)`

	newestFirst = ` ORDER BY at DESC, id DESC LIMIT $%d`
)

const selectNewest = `SELECT coalesce((SELECT at FROM audit_logs WHERE at < coalesce($1::timestamptz, 'infinity') ORDER BY at DESC LIMIT 1), '-infinity')`

// Statements of sealing.
const (
	lockSeals = `SELECT pg_advisory_xact_lock(hashtextextended('audit.seal', 0))`

	selectSealedTo = `SELECT up_to, up_to >= xact_horizon() FROM audit_seals ORDER BY up_to DESC LIMIT 1`

	// Below the horizon only: an open transaction may still commit rows of a lower
	// number. A transaction is sealed whole, so the stretch ends with one.
	selectStretch = `
	SELECT xid FROM (
		SELECT xid FROM audit_logs
		WHERE xid > $1::xid8 AND xid < xact_horizon()
		ORDER BY xid, id LIMIT $2) next
	ORDER BY xid DESC LIMIT 1`

	selectRows = `
	SELECT xid, id, at, coalesce(org_id, '00000000-0000-0000-0000-000000000000'), actor, action, target_urn, correlation_id, before, after,
		client_address, user_agent
	FROM audit_logs
	WHERE xid > $1::xid8 AND xid <= $2::xid8
		AND ($3 = '00000000-0000-0000-0000-000000000000'::uuid OR org_id = $3)
	ORDER BY xid, id`

	selectHeads = `
	SELECT o.id, s.total, s.chain FROM unnest($1::uuid[]) AS o (id) CROSS JOIN LATERAL (
		SELECT total, chain FROM audit_seals WHERE org_id = o.id ORDER BY up_to DESC LIMIT 1) s`

	insertSeals = `
	INSERT INTO audit_seals (up_to, org_id, total, rows, chain, form)
	SELECT $1::xid8, org, total, rows, chain, form
	FROM unnest($2::uuid[], $3::bigint[], $4::bytea[], $5::bytea[], $6::smallint[]) AS s (org, total, rows, chain, form)`
)

// Statements of the archive.
const (
	// Whole months whose rows are all sealed.
	selectMonths = `
	SELECT starts_at FROM table_partitions m
	WHERE name = 'audit_logs' AND ends_at <= $1 AND NOT EXISTS (SELECT FROM audit_exports e WHERE e.month = m.starts_at)
		AND NOT EXISTS (SELECT FROM audit_logs l WHERE l.at >= m.starts_at AND l.at < m.ends_at
			AND l.xid > coalesce((SELECT up_to FROM audit_seals ORDER BY up_to DESC LIMIT 1), '0'))
	ORDER BY starts_at`

	// A month may have more rows than one statement may usually read.
	patient = `SET LOCAL statement_timeout = '30min'`

	selectMonth = `
	SELECT xid, id, at, coalesce(org_id, '00000000-0000-0000-0000-000000000000'), actor, action, target_urn, correlation_id, before, after,
		client_address, user_agent
	FROM audit_logs WHERE at >= $1 AND at < ($1 AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC'
	ORDER BY xid, id`

	insertExport = `INSERT INTO audit_exports (month, file, rows, sha256) VALUES ($1, $2, $3, $4)`

	selectExports = `SELECT month, file, rows, sha256 FROM audit_exports ORDER BY month`

	// Their rows are only in the archive.
	selectDropped = `
	SELECT month, rows FROM audit_exports e
	WHERE NOT EXISTS (SELECT FROM table_partitions WHERE name = 'audit_logs' AND starts_at = e.month) ORDER BY month`
)

// Statements of verification.
const (
	// Whole stretches, of at least so many seals.
	selectSeals = `
	SELECT up_to, org_id, total, rows, chain, sealed_at, form FROM audit_seals
	WHERE up_to > $1::xid8 AND ($4 = '00000000-0000-0000-0000-000000000000'::uuid OR org_id = $4) AND up_to <= (
		SELECT up_to FROM (
			SELECT up_to FROM audit_seals
			WHERE up_to > $1::xid8 AND up_to <= $2::xid8 AND ($4 = '00000000-0000-0000-0000-000000000000'::uuid OR org_id = $4)
			ORDER BY up_to LIMIT $3) page
		ORDER BY up_to DESC LIMIT 1)
	ORDER BY up_to, org_id`

	// Counted only so far: when so many wait, the number matters no more.
	selectUnsealed = `
	SELECT count(*), coalesce(min(at), now()) FROM (
		SELECT at FROM audit_logs WHERE xid > $1::xid8 ORDER BY xid, id LIMIT 100000) waiting`
)
