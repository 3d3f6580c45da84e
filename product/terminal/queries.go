package terminal

const (
	sessionColumns = `id, org_id, project_id, principal, by_program, sign_in_id, sign_in_end, scopes, limited, correlation_id, allocation_id, node_id, fence,
		instance_id, purpose, address, user_agent, connected, received_bytes, sent_bytes, host_key, end_reason, exit_status, created_at, updated_at, ended_at`

	// The end of the token: no row means that the sign-in has ended meanwhile.
	selectTokenEnd = `
	SELECT least(now() + $3::bigint * interval '1 second', i.expires_at, $4), (SELECT count(*) FROM terminal_tokens WHERE principal = $2 AND expires_at > now()),
		(SELECT count(*) FROM terminal_sessions WHERE allocation_id = $5 AND ended_at IS NULL),
		(SELECT count(*) FROM terminal_sessions WHERE principal = $2 AND ended_at IS NULL)
	FROM open_sign_ins i WHERE i.id = $1 AND i.principal = $2`

	selectResumable = `
	SELECT EXISTS (SELECT FROM terminal_sessions WHERE id = $1 AND allocation_id = $2 AND principal = $3 AND purpose = 'shell' AND ended_at IS NULL)`

	insertToken = `
	INSERT INTO terminal_tokens (hash, org_id, project_id, allocation_id, principal, by_program, sign_in_id, sign_in_end, scopes, limited, purpose, origin, resumes,
		correlation_id, expires_at)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`

	redeemToken = `
	DELETE FROM terminal_tokens WHERE hash = $1
	RETURNING org_id, project_id, allocation_id, principal, by_program, sign_in_id, sign_in_end, scopes, limited, purpose, origin, resumes, correlation_id, expires_at > now()`

	deleteTokens = `
	DELETE FROM terminal_tokens WHERE hash IN (SELECT hash FROM terminal_tokens WHERE expires_at < now() ORDER BY expires_at LIMIT $1)`

	// Two openings must not both be the last one below a limit.
	lockOpening = `SELECT pg_advisory_xact_lock(hashtext('terminal'), hashtext(x)) FROM unnest($1::text[]) AS x`

	countOpen = `
	SELECT (SELECT count(*) FROM terminal_sessions WHERE allocation_id = $1 AND ended_at IS NULL),
		(SELECT count(*) FROM terminal_sessions WHERE principal = $2 AND ended_at IS NULL),
		(SELECT count(*) FROM terminal_sessions WHERE principal = $2 AND created_at > now() - interval '1 minute'),
		(SELECT count(*) FROM terminal_sessions WHERE instance_id = $3 AND ended_at IS NULL)`

	selectTarget = `
	SELECT t.node_id, login, fence, coalesce(host_keys, '{}') FROM terminal_targets t LEFT JOIN node_host_keys k ON k.node_id = t.node_id
	WHERE allocation_id = $1 AND org_id = $2 AND project_id = $3`

	insertSession = `
	INSERT INTO terminal_sessions (id, org_id, project_id, principal, by_program, sign_in_id, sign_in_end, scopes, limited, correlation_id, allocation_id, node_id, fence,
		instance_id, purpose, address, user_agent)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) RETURNING created_at`

	updateLogin = `UPDATE terminal_sessions SET certificate = $2, host_key = $3 WHERE id = $1`

	updateBytes = `
	UPDATE terminal_sessions s SET received_bytes = u.received, sent_bytes = u.sent, connected = u.connected
	FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::boolean[]) AS u (id, received, sent, connected)
	WHERE s.id = u.id AND s.ended_at IS NULL AND (s.received_bytes, s.sent_bytes, s.connected) <> (u.received, u.sent, u.connected)`

	endSession = `
	UPDATE terminal_sessions SET end_reason = $2, exit_status = $3, received_bytes = $4, sent_bytes = $5, connected = false, ended_at = now(), updated_at = now()
	WHERE id = $1 AND ended_at IS NULL`

	// No audit row names an actor who ended no session: only the first request counts.
	requestEnd = `
	UPDATE terminal_sessions SET end_wanted = $2, end_by = $3, updated_at = now() WHERE id = $1 AND ended_at IS NULL AND end_wanted = ''`

	insertInstance = `INSERT INTO terminal_instances (id, address, key) VALUES ($1, $2, $3)`
	selectRunning  = `SELECT address, key FROM terminal_instances WHERE seen_at > now() - $1::bigint * interval '1 second' ORDER BY random() LIMIT 3`
	selectKey      = `SELECT EXISTS (SELECT FROM terminal_instances WHERE key = $1)`
	// The server that owns the terminal which a token resumes, if it is another one.
	selectOwner = `
	SELECT i.address, i.key FROM terminal_tokens t JOIN terminal_sessions s ON s.id = t.resumes JOIN terminal_instances i ON i.id = s.instance_id
	WHERE t.hash = $1 AND i.id <> $2 AND s.ended_at IS NULL`
	deleteInstance = `DELETE FROM terminal_instances WHERE id = $1`
	beat           = `UPDATE terminal_instances SET seen_at = now() WHERE id = $1`
	// A server that was silent for longer than its sessions live without the database has none.
	deleteSilent = `
	DELETE FROM terminal_instances WHERE id IN (SELECT id FROM terminal_instances WHERE seen_at < now() - $1::bigint * interval '1 second' FOR UPDATE SKIP LOCKED)`

	selectOrphans = `
	SELECT ` + sessionColumns + ` FROM terminal_sessions s
	WHERE ended_at IS NULL AND NOT EXISTS (SELECT FROM terminal_instances i WHERE i.id = s.instance_id) ORDER BY id LIMIT $1 FOR UPDATE OF s SKIP LOCKED`

	selectRights = `
	SELECT id, end_wanted, org_id, project_id, principal, by_program, scopes, limited, allocated, node_usable, signed_in, enabled, platform_role, tenant_role,
		project_role, account_scopes
	FROM terminal_rights WHERE instance_id = $1 AND ($2 = '00000000-0000-0000-0000-000000000000'::uuid OR id = $2)`

	selectSession = `
	SELECT ` + sessionColumns + ` FROM terminal_sessions
	WHERE id = $1 AND ($2 = '00000000-0000-0000-0000-000000000000'::uuid OR project_id = $2) AND ($3 = '00000000-0000-0000-0000-000000000000'::uuid OR principal = $3)`

	// Zero values match all.
	selectSessions = `
	SELECT ` + sessionColumns + ` FROM terminal_sessions
	WHERE ($1 = '00000000-0000-0000-0000-000000000000'::uuid OR org_id = $1) AND ($2 = '00000000-0000-0000-0000-000000000000'::uuid OR project_id = $2)
		AND ($3 = '00000000-0000-0000-0000-000000000000'::uuid OR principal = $3) AND ($4 = '00000000-0000-0000-0000-000000000000'::uuid OR allocation_id = $4)
		AND ($5 = '00000000-0000-0000-0000-000000000000'::uuid OR node_id = $5) AND ($6 = '' OR (ended_at IS NULL) = ($6 = 'open'))
		AND ($7 = '00000000-0000-0000-0000-000000000000'::uuid OR id < $7)
	ORDER BY id DESC LIMIT $8`

	deleteSessions = `
	DELETE FROM terminal_sessions WHERE id IN (
		SELECT id FROM terminal_sessions WHERE ended_at < now() - $1::interval ORDER BY ended_at LIMIT $2)`
)
