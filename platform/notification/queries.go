package notification

const (
	// A digest that is queued at this moment accepts no further notification. It has each once.
	addToDigest = `
	INSERT INTO notification_digests AS d (user_id, period, due_at, id, notification_ids) VALUES ($1, $2, $3, $4, ARRAY[$5::uuid])
	ON CONFLICT (user_id, period, due_at) DO UPDATE SET notification_ids = array_remove(d.notification_ids, $5) || excluded.notification_ids
	WHERE d.queued_at IS NULL`

	closeDigests = `
	UPDATE notification_digests SET queued_at = now() WHERE id IN (
		SELECT id FROM notification_digests WHERE queued_at IS NULL AND due_at <= $1 ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED)
	RETURNING id`

	// An address that was invited again within a day receives its e-mail after that day: its user has confirmed nothing.
	selectNewInvitations = `
	SELECT id, org_id FROM open_invitations i WHERE id > $1 AND NOT EXISTS (SELECT FROM invitation_mails m WHERE m.invitation_id = i.id)
		AND NOT EXISTS (SELECT FROM invitation_mails m WHERE m.address = lower(i.email) AND m.org_id = i.org_id AND m.queued_at > now() - interval '1 day')
	ORDER BY id LIMIT $2`

	insertInvitationMails = `
	INSERT INTO invitation_mails (invitation_id, org_id, address) SELECT id, org_id, lower(email) FROM open_invitations WHERE id = ANY ($1)
	ON CONFLICT DO NOTHING RETURNING invitation_id`

	selectInvitation = `
	SELECT i.email, i.tenant, i.role, i.expires_at, EXISTS (SELECT FROM suppressed_addresses s WHERE s.address = lower(i.email) AND s.lifted_at IS NULL)
	FROM open_invitations i WHERE i.id = $1`

	toSendColumns = `n.id, n.user_id, n.org_id, n.kind, n.urn, n.title, n.message, n.count, n.correlation_id, n.created_at`

	selectOne = `SELECT ` + toSendColumns + ` FROM notifications n WHERE n.id = $1`

	selectOfDigest = `
	SELECT ` + toSendColumns + ` FROM notification_digests d JOIN notifications n ON n.id = ANY (d.notification_ids) AND n.user_id = d.user_id
	WHERE d.id = $1 ORDER BY n.id LIMIT 1000`

	selectRecipient = `
	SELECT c.id, c.email, c.verified, c.active, EXISTS (SELECT FROM suppressed_addresses s WHERE s.address = lower(c.email) AND s.lifted_at IS NULL)
	FROM user_contacts c WHERE c.id = $1`

	selectActive = `SELECT id FROM user_contacts WHERE id = $1 AND active AND deleted_at IS NULL`

	ensureLinkKey = `
	INSERT INTO notification_preferences AS p (id, scope, link_key) VALUES ($1, 'user', $2)
	ON CONFLICT (id) DO UPDATE SET link_key = coalesce(p.link_key, excluded.link_key) RETURNING p.link_key`

	suppress = `
	INSERT INTO suppressed_addresses (id, address, reason) VALUES ($1, $2, $3) ON CONFLICT (address) WHERE lifted_at IS NULL DO NOTHING`

	selectSuppressed = `
	SELECT id, address, reason, created_at FROM suppressed_addresses WHERE lifted_at IS NULL AND id < $1 ORDER BY id DESC LIMIT $2`

	liftSuppression = `UPDATE suppressed_addresses SET lifted_at = now(), lifted_by = $2 WHERE id = $1 AND lifted_at IS NULL`

	selectSubscriber = `
	SELECT c.email, c.deleted_at IS NOT NULL, p.link_key FROM user_contacts c LEFT JOIN notification_preferences p ON p.id = c.id WHERE c.id = $1`

	lockPreferences = `SELECT id, choices, time_zone, quiet_start, quiet_end, version FROM notification_preferences WHERE id = $1 FOR UPDATE`

	putChoices = `UPDATE notification_preferences SET choices = $2, version = version + 1, updated_at = now() WHERE id = $1`

	insertTest = `INSERT INTO notifications (id, user_id, org_id, kind, severity, urn, title, message, correlation_id) VALUES ($1, $2, $3, 'test', 'info', '', $4, $5, $6)`

	deleteDigests = `
	DELETE FROM notification_digests WHERE id IN (
		SELECT id FROM notification_digests WHERE queued_at < now() - $1::interval ORDER BY queued_at LIMIT $2)`

	deleteSuppressed = `
	DELETE FROM suppressed_addresses WHERE id IN (
		SELECT id FROM suppressed_addresses s WHERE coalesce(lifted_at, created_at) < now() - $1::interval AND (lifted_at IS NOT NULL
			OR NOT EXISTS (SELECT FROM user_contacts c WHERE lower(c.email) = s.address)
			AND NOT EXISTS (SELECT FROM open_invitations i WHERE lower(i.email) = s.address)) ORDER BY id LIMIT $2)`

	deleteInvitationMails = `
	DELETE FROM invitation_mails WHERE invitation_id IN (
		SELECT invitation_id FROM invitation_mails WHERE queued_at < now() - $1::interval ORDER BY queued_at LIMIT $2)`

	deletePreferences = `
	DELETE FROM notification_preferences WHERE id IN (
		SELECT c.id FROM user_contacts c JOIN notification_preferences p ON p.id = c.id WHERE c.deleted_at < now() - $1::interval LIMIT $2)`
)
