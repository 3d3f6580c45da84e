package autotopup

const (
	columns = `id, org_id, principal, status, reason, customer, livemode, currency, coalesce(provider_session, ''), url, coalesce(payment_method, ''),
		threshold_minor, amount_minor, monthly_cap_minor, failures, next_charge_at, correlation_id, version, created_at, updated_at, confirmed_at, request_hash`
	mandates = `SELECT ` + columns + ` FROM payment_mandates `

	selectMandate   = mandates + `WHERE id = $1 AND org_id = $2`
	selectBegun     = mandates + `WHERE org_id = $1 AND status IN ('pending', 'unconfirmed')`
	selectConfirmed = mandates + `WHERE org_id = $1 AND status IN ('active', 'paused')`
	lockConfirmed   = selectConfirmed + ` FOR UPDATE`
	lockActive      = mandates + `WHERE status = 'active' ORDER BY id FOR UPDATE`
	lockMandate     = mandates + `WHERE id = $1 FOR UPDATE`
	lockLive        = mandates + `WHERE org_id = $1 AND status <> 'ended' ORDER BY id FOR UPDATE`
	selectMandates  = mandates + `WHERE org_id = $1 AND id < CASE WHEN $2::uuid = '00000000-0000-0000-0000-000000000000'
			THEN 'ffffffff-ffff-ffff-ffff-ffffffffffff' ELSE $2::uuid END ORDER BY id DESC LIMIT $3`

	insertMandate = `INSERT INTO payment_mandates (id, org_id, principal, status, customer, livemode, currency, next_charge_at, correlation_id, created_at, updated_at, request_hash)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, $11) ON CONFLICT (org_id) WHERE status IN ('pending', 'unconfirmed') DO NOTHING`
	openMandate = `UPDATE payment_mandates SET provider_session = coalesce(provider_session, $2), url = CASE WHEN status = 'pending' THEN $3 ELSE '' END
		WHERE id = $1 AND status <> 'ended'`
	updateMandate = `UPDATE payment_mandates SET version = $2, status = $3, reason = $4, provider_session = nullif($5, ''), url = $6, payment_method = nullif($7, ''),
			threshold_minor = $8, amount_minor = $9, monthly_cap_minor = $10, failures = $11, next_charge_at = $12, confirmed_at = $13, principal = $14, updated_at = $15, request_hash = NULL
		WHERE id = $1 AND version = $2 - 1`
	countFailures = `UPDATE payment_mandates SET failures = $2, next_charge_at = $3 WHERE id = $1`
	delayCharge   = `UPDATE payment_mandates SET next_charge_at = $2 WHERE id = $1 AND status = 'active'`

	insertCharge = `INSERT INTO payment_sessions (id, org_id, principal, amount_minor, currency, status, customer, livemode, correlation_id, expires_at,
			created_at, status_at, mandate_id, charge_month, charge_number)
		VALUES ($1, $2, $3, $4, $5, 'initiated', $6, $7, $8, $9, $10, $10, $11, $12::text::date, $13)`
	selectMonthCharges = `SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM'), coalesce(sum(amount_minor) FILTER (WHERE status <> 'expired'), 0)::bigint,
			coalesce(max(charge_number), 0)
		FROM payment_sessions WHERE org_id = $1 AND mandate_id IS NOT NULL AND charge_month = date_trunc('month', now() AT TIME ZONE 'UTC')::date`

	selectDue    = mandates + `WHERE status = 'active' AND next_charge_at <= now() AND org_id > $1 ORDER BY org_id LIMIT $2`
	selectExists = `SELECT EXISTS (SELECT FROM payment_mandates WHERE status = 'active')`
)
