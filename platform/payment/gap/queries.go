package gap

const (
	selectStored   = `SELECT event_id FROM stripe_events WHERE event_id = ANY($1)`
	selectSessions = `SELECT id::text FROM payment_sessions WHERE id = ANY($1)`
)
