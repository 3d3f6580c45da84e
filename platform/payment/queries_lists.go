package payment

const (
	selectAllSessions = `SELECT ` + sessionColumns + ` FROM payment_sessions
		WHERE ($1 = '' OR status = $1 OR $1 = 'stuck' AND (status = 'failed_reconcile' OR status IN ('initiated', 'checkout_completed') AND expires_at < now()))
			AND id < ` + before + ` AND ($3 = '00000000-0000-0000-0000-000000000000'::uuid OR org_id = $3)
		ORDER BY id DESC LIMIT $4`
	selectCredits = `SELECT session_id, transfer_id, credited_at, refunded_minor FROM stripe_payments WHERE session_id = ANY ($1::uuid[])`
)
