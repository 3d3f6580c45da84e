package payment

const sessionColumns = `id, org_id, principal, amount_minor, currency, status, reason, customer, coalesce(provider_session, ''), coalesce(payment, ''),
	url, livemode, coalesce(mandate_id, '00000000-0000-0000-0000-000000000000'), coalesce(to_char(charge_month, 'YYYY-MM'), ''), coalesce(charge_number, 0), correlation_id, expires_at, created_at, status_at, checked_at, version`

// before is a keyset bound whose zero is the end of all ids. CASE, because
// row-level security lets it into the index, and coalesce not.
const before = `CASE WHEN $2::uuid = '00000000-0000-0000-0000-000000000000' THEN 'ffffffff-ffff-ffff-ffff-ffffffffffff' ELSE $2::uuid END`

const (
	selectCustomer = `SELECT customer FROM payment_customers WHERE org_id = $1 AND livemode = $2`
	insertCustomer = `INSERT INTO payment_customers (org_id, livemode, customer) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`

	abandonRequest = `UPDATE payment_sessions SET status = 'expired', reason = 'never_opened', request_hash = NULL, status_at = now(), version = version + 1
		WHERE request_hash = $1 AND provider_session IS NULL AND expires_at < $2`
	insertSession = `INSERT INTO payment_sessions (id, org_id, principal, amount_minor, currency, status, customer, livemode, request_hash, correlation_id,
			expires_at, created_at, status_at)
		VALUES ($1, $2, $3, $4, $5, 'initiated', $6, $7, $8, $9, $10, $11, $11)
		ON CONFLICT (request_hash) WHERE request_hash IS NOT NULL DO NOTHING`
	giveUpSession = `UPDATE payment_sessions SET status = 'expired', reason = 'never_opened', request_hash = NULL, status_at = now(), version = version + 1
		WHERE id = $1 AND status = 'initiated' AND provider_session IS NULL`
	selectUnanswered = `SELECT ` + sessionColumns + ` FROM payment_sessions WHERE request_hash = $1`
	// What came of it may be known already, where the first answer was lost.
	openSession = `UPDATE payment_sessions SET provider_session = $2, url = $3, expires_at = $4, version = $5
		WHERE id = $1 AND version = $5 - 1 AND coalesce(provider_session, $2) = $2`

	selectSession    = `SELECT ` + sessionColumns + ` FROM payment_sessions WHERE id = $1 AND org_id = $2`
	selectAnySession = `SELECT ` + sessionColumns + ` FROM payment_sessions WHERE id = $1`
	selectSessions   = `SELECT ` + sessionColumns + ` FROM payment_sessions WHERE org_id = $1 AND id < ` + before + ` ORDER BY id DESC LIMIT $3`
	// A charge without a result may have moved money.
	selectPending = `SELECT coalesce(sum(amount_minor), 0)::bigint FROM payment_sessions
		WHERE org_id = $1 AND (status = 'checkout_completed' OR status = 'initiated' AND mandate_id IS NOT NULL)`

	selectAllSessions = `SELECT ` + sessionColumns + ` FROM payment_sessions
		WHERE ($1 = '' OR status = $1 OR $1 = 'stuck' AND (status = 'failed_reconcile' OR status IN ('initiated', 'checkout_completed') AND expires_at < now()))
			AND id < ` + before + ` AND ($3 = '00000000-0000-0000-0000-000000000000'::uuid OR org_id = $3)
		ORDER BY id DESC LIMIT $4`
	selectCredits = `SELECT session_id, transfer_id, credited_at, refunded_minor FROM stripe_payments WHERE session_id = ANY ($1::uuid[])`

	lockSession = `SELECT ` + sessionColumns + ` FROM payment_sessions WHERE id = $1 FOR UPDATE`
	// The session that the provider's id names has precedence over the one in the reference. If they
	// differ, the reference is wrong.
	lockClaimed = `SELECT ` + sessionColumns + ` FROM payment_sessions WHERE id = coalesce(
			(SELECT id FROM payment_sessions WHERE provider_session = $1), (SELECT id FROM payment_sessions WHERE id = $2)) FOR UPDATE`
	// A session that has ended cannot be paid, and the same request creates another one.
	moveSession = `UPDATE payment_sessions SET status = $2, reason = $3, provider_session = coalesce(provider_session, $4), payment = coalesce($5, payment),
			url = CASE WHEN $2 = 'failed_reconcile' THEN url ELSE '' END, request_hash = NULL, status_at = now(), version = version + 1
		WHERE id = $1`
	checkSession = `UPDATE payment_sessions SET checked_at = now() WHERE id = $1`
)

// Events.
const (
	insertEvent = `INSERT INTO stripe_events (event_id, type, api_version, account, livemode, object_id, body, payload, source, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (event_id) DO NOTHING`
	selectEvent = `SELECT event_id, type, api_version, account, livemode, object_id, payload, created_at FROM stripe_events WHERE event_id = $1`
	lockEvent   = `SELECT status FROM stripe_events WHERE event_id = $1 FOR UPDATE`
	markEvent   = `UPDATE stripe_events SET status = $2, result = $3 || CASE WHEN $4 = '' THEN '' ELSE ': ' || $4 END, processed_at = now() WHERE event_id = $1`

	insertPayment = `INSERT INTO stripe_payments (payment, session_id, org_id, amount_minor, currency, transfer_id)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`
	// Lock the payment, and read whether refunds of it are in progress.
	lockPayment = `SELECT p.org_id, s.principal, p.currency, p.amount_minor - p.refunded_minor,
			EXISTS (SELECT FROM refund_requests r WHERE r.payment = p.payment AND r.status = 'requested')
		FROM stripe_payments p JOIN payment_sessions s ON s.id = p.session_id WHERE p.payment = $1 FOR UPDATE OF p`
)

// The sweep. The first one begins with the first session.
const (
	selectSweep = `SELECT coalesce((SELECT up_to FROM payment_sweeps WHERE livemode = $1),
		(SELECT min(created_at) FROM payment_sessions WHERE livemode = $1), $2)`
	putSweep = `INSERT INTO payment_sweeps (livemode, up_to) VALUES ($1, $2)
		ON CONFLICT (livemode) DO UPDATE SET up_to = greatest(payment_sweeps.up_to, excluded.up_to)`
	// A user pays within a quarter of an hour, and the event arrives within that time.
	selectOverdue = `SELECT ` + sessionColumns + ` FROM payment_sessions
		WHERE status IN ('initiated', 'checkout_completed') AND livemode = $1 AND id > $2 AND created_at < now() - interval '15 minutes' ORDER BY id LIMIT $3`
	endUnopened = `UPDATE payment_sessions SET status = 'expired', reason = 'never_opened', request_hash = NULL, status_at = now(), checked_at = now(), version = version + 1
		WHERE id = $1 AND status = 'initiated' AND provider_session IS NULL AND expires_at < now()`
	selectForgottenEvents  = `SELECT event_id FROM stripe_events WHERE status = 'stored' AND received_at < now() - interval '5 minutes' ORDER BY received_at LIMIT $1`
	selectForgottenRefunds = `SELECT id FROM refund_requests WHERE status = 'requested' AND created_at < now() - interval '5 minutes' ORDER BY created_at LIMIT $1`
)

const refundColumns = `r.id, r.org_id, r.user_id, r.requested_by, r.kind, r.route, p.session_id, coalesce(r.payment, ''), r.amount_minor, r.currency, r.reason,
	r.status, r.failure, coalesce(r.provider_refund, ''), r.transfer_id, r.correlation_id, r.created_at, r.settled_at, r.version`

const refunds = ` FROM refund_requests r LEFT JOIN stripe_payments p ON p.payment = r.payment`

// Refunds.
const (
	payments = `SELECT p.payment, p.session_id, p.amount_minor - p.refunded_minor, p.credited_at >= now() - $3::interval AS in_window
		FROM stripe_payments p JOIN payment_sessions s ON s.id = p.session_id WHERE p.org_id = $1 AND s.livemode = $2`
	selectNamedPayment   = payments + ` AND p.session_id = $4`
	selectBearingPayment = payments + ` AND p.amount_minor - p.refunded_minor >= $4 ORDER BY p.credited_at DESC, p.payment LIMIT 1`

	takeFromPayment = `UPDATE stripe_payments SET refunded_minor = refunded_minor + $3
		WHERE payment = $1 AND org_id = $2 AND amount_minor - refunded_minor >= $3 AND credited_at >= now() - $4::interval`
	withdrawPayment = `UPDATE stripe_payments SET refunded_minor = refunded_minor + $2 WHERE payment = $1`
	giveToPayment   = `UPDATE stripe_payments SET refunded_minor = refunded_minor - $2 WHERE payment = $1`

	insertRefund = `INSERT INTO refund_requests (id, org_id, user_id, requested_by, kind, route, payment, amount_minor, currency, reason,
			correlation_id, status, transfer_id, created_at, settled_at, provider_refund)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`
	selectRefund      = `SELECT ` + refundColumns + refunds + ` WHERE r.id = $1`
	lockRefund        = selectRefund + ` OR r.provider_refund = $2 FOR UPDATE OF r`
	selectCardCharges = `SELECT coalesce(sum(amount_minor), 0)::bigint FROM refund_requests
		WHERE org_id = $1 AND kind = 'charge' AND route = 'card' AND status <> 'failed'`
	selectRefunds    = `SELECT ` + refundColumns + refunds + ` WHERE r.org_id = $1 AND r.id < ` + before + ` ORDER BY r.id DESC LIMIT $3`
	selectAllRefunds = `SELECT ` + refundColumns + refunds + `
		WHERE r.id < CASE WHEN $1::uuid = '00000000-0000-0000-0000-000000000000' THEN 'ffffffff-ffff-ffff-ffff-ffffffffffff' ELSE $1::uuid END ORDER BY r.id DESC LIMIT $2`
	recordRefund = `UPDATE refund_requests SET status = $2, failure = $3, provider_refund = coalesce($4, provider_refund), settled_at = now(), version = version + 1
		WHERE id = $1`
	nameRefund = `UPDATE refund_requests SET provider_refund = coalesce($2, provider_refund), version = version + 1 WHERE id = $1`
)
