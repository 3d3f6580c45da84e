package payment

const sessionColumns = `id, org_id, principal, amount_minor, currency, status, reason, customer, coalesce(provider_session, ''), coalesce(payment, ''),
	url, livemode, correlation_id, expires_at, created_at, status_at, checked_at, version`

const (
	selectCustomer = `SELECT customer FROM payment_customers WHERE org_id = $1 AND livemode = $2`
	insertCustomer = `INSERT INTO payment_customers (org_id, livemode, customer) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`

	abandonRequest = `UPDATE payment_sessions SET status = 'expired', reason = 'never_opened', request = NULL, status_at = now(), version = version + 1
		WHERE request = $1 AND expires_at < $2`
	insertSession = `INSERT INTO payment_sessions (id, org_id, principal, amount_minor, currency, status, customer, livemode, request, correlation_id,
			expires_at, created_at, status_at)
		VALUES ($1, $2, $3, $4, $5, 'initiated', $6, $7, $8, $9, $10, $11, $11)
		ON CONFLICT (request) WHERE request IS NOT NULL DO NOTHING`
	selectUnanswered = `SELECT ` + sessionColumns + ` FROM payment_sessions WHERE request = $1`
	// What came of it may be known already, where the first answer was lost.
	openSession = `UPDATE payment_sessions SET provider_session = $2, url = $3, expires_at = $4, request = NULL, version = $5
		WHERE id = $1 AND version = $5 - 1 AND coalesce(provider_session, $2) = $2`

	selectSession = `SELECT ` + sessionColumns + ` FROM payment_sessions WHERE id = $1 AND org_id = $2`
	// CASE, because row-level security lets it into the index.
	selectSessions = `SELECT ` + sessionColumns + ` FROM payment_sessions
		WHERE org_id = $1 AND id < CASE WHEN $2::uuid = '00000000-0000-0000-0000-000000000000' THEN 'ffffffff-ffff-ffff-ffff-ffffffffffff' ELSE $2::uuid END
		ORDER BY id DESC LIMIT $3`
	selectPending = `SELECT coalesce(sum(amount_minor), 0)::bigint FROM payment_sessions WHERE org_id = $1 AND status = 'checkout_completed'`
)
