package secret

const (
	// Issuing and revoking lock the same rows in the same order, so a certificate cannot be issued
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
	selectCertificates = `SELECT serial, node_id, trust, issuer, enrolment, used_at IS NOT NULL FROM certificates WHERE ` + isValid
	useCertificate     = `UPDATE certificates SET used_at = now() WHERE serial = $1 AND used_at IS NULL`
	revokeCertificates = `
		UPDATE certificates SET status = 'revoked', revoked_at = now(), reason = $2
		WHERE node_id = $1 AND ` + isValid + ` RETURNING serial`
	selectCertificatesOf = `
		SELECT serial, CASE WHEN status <> 'revoked' AND not_after <= now() THEN 'expired' ELSE status END, issuer, trust, created_at, not_after, revoked_at, reason
		FROM certificates WHERE node_id = $1 ORDER BY created_at DESC, serial LIMIT $2`
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
