package ratelimit

// Rate limits are token buckets. Each is stored as the time at which it is full again (GCRA), by the
// database's clock, so that servers with different clocks agree. Durations are in microseconds.

// A bucket refills one request per $2, up to a capacity of $3.
const takeLimit = `
	WITH charged AS (
		INSERT INTO rate_limits AS r (bucket, full_at) VALUES ($1, now() + $2::bigint * interval '1 microsecond')
		ON CONFLICT (bucket) DO UPDATE SET full_at = greatest(r.full_at, now()) + $2::bigint * interval '1 microsecond'
		WHERE greatest(r.full_at, now()) + $2::bigint * interval '1 microsecond' <= now() + $3::bigint * interval '1 microsecond'
		RETURNING full_at
	)
	SELECT true, (extract(epoch FROM full_at - now()) * 1000000)::bigint FROM charged
	UNION ALL
	SELECT false, (extract(epoch FROM full_at - now()) * 1000000)::bigint FROM rate_limits
	WHERE bucket = $1 AND NOT EXISTS (SELECT FROM charged)`

// The requests arrived within the last $3, so the buckets are charged as of that time, and the refill since
// then is not lost. The rows are updated by ascending bucket, so that two servers that share buckets wait for
// each other and never deadlock.
const shareLimits = `
	INSERT INTO rate_limits AS r (bucket, full_at)
	SELECT bucket, now() + (spent - $3::bigint) * interval '1 microsecond'
	FROM unnest($1::text[], $2::bigint[]) AS moved (bucket, spent) ORDER BY bucket
	ON CONFLICT (bucket) DO UPDATE SET full_at = greatest(r.full_at, now() - $3::bigint * interval '1 microsecond')
		+ (excluded.full_at - now() + $3::bigint * interval '1 microsecond')
	RETURNING bucket, (extract(epoch FROM full_at - now()) * 1000000)::bigint`

// A full bucket needs no row.
const deleteFullLimits = `DELETE FROM rate_limits WHERE full_at < now() - interval '1 minute'`
