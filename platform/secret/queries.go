package secret

const (
	// Issuing and revoking lock the same rows by ascending serial, so a certificate cannot be issued
	// concurrently with the revocation of its node.
	lockCertificates = `SELECT serial FROM certificates WHERE node_id = $1 AND not_after > now() ORDER BY serial FOR UPDATE`
	isValid          = `status IN ('active', 'superseded') AND not_after > now()`
	selectStands     = `SELECT EXISTS (SELECT FROM certificates WHERE serial = $1 AND node_id = $2 AND ` + isValid + `)`

	// $7 is 1 for an enrolment and 0 for a renewal.
	insertCertificate = `
		WITH last AS (
			UPDATE certificates SET status = 'superseded', not_after = least(not_after, now() + $4::interval) WHERE node_id = $2 AND status = 'active'
		)
		INSERT INTO certificates (serial, node_id, status, not_after, issuer, trust, enrolment)
		SELECT $1, $2, 'active', $3, $5, $6, coalesce(max(enrolment), 0) + $7 FROM certificates WHERE node_id = $2
		RETURNING enrolment`
	selectInForce   = `SELECT serial, node_id FROM certificates WHERE serial = ANY($1) AND ` + isValid
	selectUnrevoked = `
		SELECT serial, node_id FROM certificates AS opened WHERE serial = ANY($1) AND status <> 'revoked'
			AND EXISTS (SELECT FROM certificates WHERE node_id = opened.node_id AND ` + isValid + `)`
	selectCertificates = `SELECT serial, node_id, trust, issuer, enrolment, used_at IS NOT NULL FROM certificates WHERE ` + isValid
	// Not of a retired node, and not if the database knows that the serial ended.
	adoptCertificate = `
		INSERT INTO certificates (serial, node_id, status, not_after, reason, enrolment)
		SELECT $1, $2, 'active', $3, 'presented after a restore', max(enrolment) FROM certificates WHERE node_id = $2 HAVING count(*) > 0
		ON CONFLICT DO NOTHING`
	useCertificate     = `UPDATE certificates SET used_at = now() WHERE serial = $1 AND used_at IS NULL`
	revokeCertificates = `
		UPDATE certificates SET status = 'revoked', revoked_at = now(), reason = $2
		WHERE node_id = $1 AND ` + isValid + ` RETURNING serial`
	selectCertificatesOf = `
		SELECT serial, CASE WHEN status <> 'revoked' AND not_after <= now() THEN 'expired' ELSE status END, issuer, trust, created_at, not_after, revoked_at, reason
		FROM certificates WHERE node_id = $1 ORDER BY created_at DESC, serial LIMIT $2`

	deleteCertificates = `
		DELETE FROM certificates WHERE serial IN (
			SELECT serial FROM certificates c WHERE not_after < now() - $1::interval AND EXISTS (
				SELECT FROM certificates n WHERE n.node_id = c.node_id AND (n.created_at, n.serial) > (c.created_at, c.serial))
			ORDER BY not_after LIMIT $2)`

	// A key is fresh until every server has read it; each reads once a second.
	selectStored = `
		SELECT id, generation, public, sealed, created_at > now() - interval '3 seconds'
		FROM signing_keys WHERE purpose = $1 AND status = 'active' ORDER BY generation`
	// A server reads within a second that a key is not fresh any more, or later under load.
	selectReplaced    = `SELECT NOT EXISTS (SELECT FROM signing_keys WHERE purpose = $1 AND status = 'active' AND created_at > now() - interval '10 seconds')`
	selectPublicParts = `SELECT public FROM signing_keys WHERE purpose = $1`
	selectPurposes    = `SELECT DISTINCT purpose FROM signing_keys WHERE status = 'active'`
	insertStored      = `INSERT INTO signing_keys (purpose, generation, public, sealed) VALUES ($1, $2, $3, $4)`
	endStored         = `UPDATE signing_keys SET status = 'ended', sealed = NULL, ended_at = now() WHERE purpose = $1 AND generation = $2 AND status = 'active'`
	// $1 is the beginning of the envelopes of the newest key.
	selectForReseal = `
		SELECT id, purpose, generation, sealed FROM signing_keys
		WHERE status = 'active' AND substr(sealed, 1, length($1::bytea)) <> $1 ORDER BY id LIMIT $2 FOR UPDATE`
	resealStored     = `UPDATE signing_keys SET sealed = $2 WHERE id = $1`
	lockStored       = `SELECT pg_advisory_xact_lock(hashtextextended('secret.signing_keys', 0))`
	selectPublicKeys = `SELECT purpose, generation, status, public, created_at, ended_at FROM public_keys ORDER BY purpose, generation`

	selectPublic = `SELECT purpose, generation, public FROM public_keys WHERE status = 'active' ORDER BY purpose, generation`

	// A node that missed more rotations than these enrols again.
	selectKeySets = `
		SELECT kind, kid, body, signature FROM (
			SELECT kind, sequence, kid, body, signature, row_number() OVER (PARTITION BY kind ORDER BY sequence DESC) AS age FROM key_sets
		) AS all_sets WHERE age <= 8 ORDER BY kind, sequence`
	nextKeySet           = `SELECT coalesce(max(sequence), 0) + 1 FROM key_sets WHERE kind = 'control'`
	selectNewestReleases = `SELECT sequence, kid, body, signature FROM key_sets WHERE kind = 'releases' ORDER BY sequence DESC LIMIT 1`
	lockKeySets          = `SELECT pg_advisory_xact_lock(hashtextextended('secret.key_sets', 0))`
	insertKeySet         = `INSERT INTO key_sets (kind, sequence, kid, body, signature) VALUES ($1, $2, $3, $4, $5)`

	// Of the newest of each node, how long it lasts: the shortest, and two from there.
	selectExpiry = `
		SELECT coalesce(percentile_disc(ARRAY[0, 0.05, 0.5]) WITHIN GROUP (ORDER BY extract(epoch FROM not_after - now())::float8), '{}') FROM (
			SELECT DISTINCT ON (node_id) not_after FROM certificates WHERE ` + isValid + ` ORDER BY node_id, created_at DESC, serial
		) AS newest`
	// The trust stamp of a certificate is the trust state that was sent with it.
	selectNewest = `
		SELECT node_id, trust, issuer, used_at IS NOT NULL FROM certificates WHERE ` + isValid + `
		ORDER BY node_id, created_at DESC, serial`
)
