package forge

const (
	// The row of an unchanged report stays. A report that waits for the end of a forge's pause retains
	// its time, even if its content changes.
	wantReports = `
		INSERT INTO forge_reports AS have (source, subject, context, state, body, url, hash)
		SELECT source, subject, context, state, body, url, hash
		FROM jsonb_to_recordset($1) AS r(source text, subject text, context text, state text, body text, url text, hash text)
		ORDER BY source, subject, context
		ON CONFLICT (source, subject, context) DO UPDATE SET state = excluded.state, body = excluded.body, url = excluded.url, hash = excluded.hash,
			attempts = 0, error = '', updated_at = now(), next_at = CASE WHEN have.sent_hash = have.hash THEN now() ELSE have.next_at END
		WHERE have.hash <> excluded.hash`

	// A worker owns a report until this time. After a crash of the worker, the report is due again.
	lockReport = `
		UPDATE forge_reports SET attempts = attempts + 1, next_at = now() + $2::interval
		WHERE (source, subject, context) = (
			SELECT source, subject, context FROM forge_reports
			WHERE source = $1 AND sent_hash <> hash AND next_at <= now() AND updated_at > now() - $3::interval
			ORDER BY next_at, updated_at LIMIT 1 FOR UPDATE SKIP LOCKED)
		RETURNING subject, context, state, body, url, hash, remote_id, attempts`

	// The report may have changed during the request. Then it stays pending.
	markSent = `
		UPDATE forge_reports SET sent_hash = $4, remote_id = $5, attempts = 0, error = '', next_at = now()
		WHERE source = $1 AND subject = $2 AND context = $3`
	reportFailed = `
		UPDATE forge_reports SET error = $4, next_at = now() + $5::interval
		WHERE source = $1 AND subject = $2 AND context = $3`
	// The others would meet the same.
	pauseReports = `
		UPDATE forge_reports SET error = $2, next_at = now() + $3::interval
		WHERE source = $1 AND sent_hash <> hash AND next_at < now() + $3::interval AND updated_at > now() - $4::interval`

	insertPush = `
		INSERT INTO forge_pushes (source, commit, login, email) VALUES ($1, $2, $3, $4)
		ON CONFLICT (source, commit, login) DO UPDATE SET email = excluded.email WHERE forge_pushes.email <> excluded.email`
	deletePushes = `
		DELETE FROM forge_pushes WHERE (source, commit, login) IN (
			SELECT source, commit, login FROM forge_pushes WHERE at < now() - $1::interval ORDER BY at LIMIT $2)`
	deleteReports = `
		DELETE FROM forge_reports WHERE (source, subject, context) IN (
			SELECT source, subject, context FROM forge_reports WHERE updated_at < now() - $1::interval ORDER BY updated_at LIMIT $2)`
	selectPushers = `SELECT email FROM forge_pushes WHERE source = $1 AND commit = $2 ORDER BY login`

	selectPending = `
		SELECT source, min(next_at) FROM forge_reports
		WHERE sent_hash <> hash AND updated_at > now() - $1::interval AND ($2 = '' OR source = $2)
		GROUP BY source ORDER BY source`
	selectReports = `
		SELECT subject, context, state, body, url, sent_hash = hash, remote_id, attempts, error FROM forge_reports
		WHERE source = $1 AND ($2 = '' OR subject = $2) ORDER BY updated_at DESC, subject, context LIMIT $3`
)
