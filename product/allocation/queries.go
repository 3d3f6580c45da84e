package allocation

import (
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
)

const (
	columns = `id, org_id, project_id, user_id, name, sku, region, gpus, coalesce(node_id, '00000000-0000-0000-0000-000000000000'), price_minor, currency, login, host_uid, status, reason,
		message, labels, correlation_id, trace, version, created_at, status_at, greatest(status_at, updated_at), active_at, ended_at, expires_at, paused, queue_until, eviction_at, eviction_by, eviction_reason, idle_release_at, mounts`

	insertAllocation = `
		WITH put AS (
			INSERT INTO allocations (id, org_id, project_id, user_id, name, sku, region, gpus, node_id, price_minor, currency, login,
				host_uid, status, labels, created_at, status_at, expires_at, correlation_id, trace, key_ids, queue_until, mounts)
			SELECT $1, $2, $3, $4, $5, $6, $7, $8, nullif($9, '00000000-0000-0000-0000-000000000000'::uuid), $10, $11, $12, $13, 'requested', $14, $15, $15, $16, $17, $18, $19, $20, $22::jsonb
			WHERE NOT EXISTS (SELECT FROM allocations WHERE project_id = $3 AND name = $5 AND status NOT IN ('released', 'failed'))
			RETURNING id
		)
		INSERT INTO allocation_transitions (allocation_id, version, trigger, from_status, to_status, reason, actor)
		SELECT id, 1, 'requested', '', 'requested', '', $21 FROM put`

	// The allocations that count against the caps: also those whose release failed, because they occupy
	// their slots until a proof arrives. The caller has locked the tenant.
	countLive = `
		SELECT count(*) FILTER (WHERE user_id = $2), count(*) FILTER (WHERE project_id = $3), count(*),
			coalesce(sum(gpus * price_minor) FILTER (WHERE ` + committed + ` AND project_id = $3), 0)::bigint,
			coalesce(sum(gpus * price_minor) FILTER (WHERE ` + committed + `), 0)::bigint
		FROM allocations WHERE org_id = $1 AND status NOT IN ('released', 'failed')`

	countActive = `SELECT count(*) FROM allocations WHERE org_id = $1 AND user_id = $2 AND status = 'active'`

	countOfTenant = `SELECT count(*) FROM allocations WHERE org_id = $1 AND status NOT IN ('released', 'failed')`
	countOfUser   = `SELECT count(*) FROM allocations WHERE user_id = $1 AND status NOT IN ('released', 'failed')`
	countHeld     = `SELECT count(*) FROM allocations WHERE project_id = $1 AND status NOT IN ('released', 'failed')`

	moveAllocation = `
		WITH moved AS (
			UPDATE allocations SET status = $4, reason = CASE WHEN $5 = '' THEN reason ELSE $5 END, message = $6, version = version + 1,
				status_at = now(), correlation_id = $8, trace = $9,
				active_at = CASE WHEN $4 = 'active' THEN now() ELSE active_at END,
				ended_at = CASE WHEN $4 IN ('released', 'failed') THEN now() END,
				paused = CASE WHEN $4 = 'active' THEN paused ELSE '' END
			WHERE id = $1 AND version = $2
			RETURNING id, version
		)
		INSERT INTO allocation_transitions (allocation_id, version, trigger, from_status, to_status, reason, message, actor)
		SELECT id, version, $7, $3, $4, $5, $6, $10 FROM moved`

	// In all tenants, because the principal may have changed tenants. The first condition matches a
	// partial index of live allocations.
	lockOpen = `
		SELECT id, org_id, user_id = $1 FROM allocations
		WHERE id IN (
			SELECT id FROM allocations
			WHERE status NOT IN ('released', 'failed', 'release_failed') AND status <> 'releasing' AND user_id = $1 AND node_id IS NOT NULL
			UNION SELECT c.allocation_id FROM ssh_certificates c JOIN allocations a ON a.id = c.allocation_id
			WHERE c.principal = $1 AND c.revoked_at IS NULL AND c.expires_at > now() AND a.status = 'active')
		ORDER BY id FOR UPDATE`
	insertCertificate  = `INSERT INTO ssh_certificates (serial, allocation_id, principal, expires_at) VALUES ($1, $2, $3, $4)`
	selectRevoked      = `SELECT serial FROM ssh_certificates WHERE allocation_id = $1 AND revoked_at IS NOT NULL AND expires_at > now() - interval '1 hour'`
	revokeCertificates = `
		UPDATE ssh_certificates SET revoked_at = now()
		WHERE principal = $1 AND allocation_id = ANY ($2::uuid[]) AND revoked_at IS NULL AND expires_at > now() RETURNING allocation_id`
	deleteCertificates = `
		DELETE FROM ssh_certificates WHERE serial IN (
			SELECT serial FROM ssh_certificates WHERE expires_at < now() - interval '1 hour' ORDER BY expires_at LIMIT $1)`
	setAuthorities = `UPDATE allocations SET authorities = $2 WHERE id = $1 AND authorities <> $2`
	// Of one that is being provisioned the first task carries the authorities.
	lockOutdated = `
		SELECT id FROM allocations WHERE status = 'active' AND authorities <> $1 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED`
	// Live allocations follow the catalogue. Rows are locked by ascending id, as everywhere. The version
	// stays, because a new price is no transition.
	setPrices = `
		WITH priced AS (
			SELECT id FROM allocations WHERE sku = $1 AND currency = $2 AND price_minor <> $3
				AND status NOT IN ('released', 'failed', 'release_failed') AND status <> 'releasing' ORDER BY id FOR UPDATE
		)
		UPDATE allocations a SET price_minor = $3 FROM priced WHERE a.id = priced.id`
	// A tenant without a value of its own has that of the platform.
	warnExpiring = `
		UPDATE allocations SET expiry_warned_for = expires_at WHERE id IN (
			SELECT id FROM allocations
			WHERE status = 'active' AND expires_at > now() AND expires_at IS DISTINCT FROM expiry_warned_for
				AND expires_at <= now() + coalesce((SELECT warning FROM unnest($2::uuid[], $3::interval[]) AS w (tenant, warning) WHERE tenant = org_id), $1::interval)
			ORDER BY expires_at LIMIT 500 FOR UPDATE SKIP LOCKED)
		RETURNING ` + columns
	// The key is that of the moment: a node that enrols again has another one.
	storeProof   = `INSERT INTO release_proofs (allocation_id, proof, public_key) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`
	setPrice     = `UPDATE allocations SET price_minor = $2 WHERE id = $1`
	setLeave     = `UPDATE allocations SET eviction_at = $2, eviction_by = $3, eviction_reason = $4 WHERE id = $1`
	setIdle      = `UPDATE allocations SET idle_release_at = $2 WHERE id = $1`
	setPaused    = `UPDATE allocations SET paused = $2 WHERE id = $1 AND status = 'active' AND paused <> $2`
	selectPaused = `SELECT id FROM allocations WHERE paused <> '' AND id > $1 ORDER BY id LIMIT $2`
	// States that cost money now or once the node is ready.
	committed        = `status IN ('requested', 'provisioning', 'active')`
	lockCommitted    = `SELECT ` + columns + ` FROM allocations WHERE org_id = $1 AND ` + committed + ` ORDER BY id FOR UPDATE`
	selectCommitted  = `SELECT org_id, id FROM allocations WHERE org_id = ANY ($1::uuid[]) AND ` + committed + ` ORDER BY org_id, id`
	lockAllocation   = `SELECT ` + columns + ` FROM allocations WHERE id = $1 FOR UPDATE`
	selectAllocation = `SELECT ` + columns + ` FROM allocations WHERE id = $1 AND org_id = $2`
	selectSome       = `SELECT ` + columns + ` FROM allocations WHERE id = ANY($1)`
	selectPage       = `
		SELECT ` + columns + ` FROM allocations
		WHERE org_id = $1 AND ($2::uuid IS NULL OR project_id = $2) AND ($3 = '' OR status = $3) AND ($4 = '' OR sku = $4) AND ($5 = '' OR name = $5)
			AND ($9 = '' OR strpos(lower(name), lower($9)) > 0)`
	// From the index of what lives.
	selectLiveAllocations = `
		SELECT id, org_id, project_id, coalesce(node_id, '00000000-0000-0000-0000-000000000000'), sku, gpus, price_minor, currency, status = 'active' AND paused = '', status = 'releasing'
		FROM allocations WHERE status NOT IN ('released', 'failed', 'release_failed') AND (node_id = ANY ($1::uuid[]) OR sku = ANY ($2::text[]))`
	selectHoldings = `
		SELECT org_id, project_id, user_id, count(*) FROM allocations
		WHERE status NOT IN ('released', 'failed') GROUP BY org_id, project_id, user_id`
	// The oldest request is served first. A request that does not fit lets the next one try.
	queueExists  = `SELECT EXISTS (SELECT FROM allocations WHERE node_id IS NULL AND status = 'requested')`
	selectQueued = `
		SELECT id, sku, region, gpus, mounts <> '[]' FROM allocations WHERE node_id IS NULL AND status = 'requested' ORDER BY created_at, id LIMIT $1`
	// Another worker that has it places it.
	lockQueued = `
		SELECT ` + columns + `, key_ids FROM allocations WHERE id = $1 AND node_id IS NULL AND status = 'requested' FOR UPDATE SKIP LOCKED`
	// The lease and the deadlines begin with the node.
	placeAllocation = `
		UPDATE allocations SET node_id = $2, region = $3, status_at = now(), queue_until = NULL, key_ids = '{}',
			expires_at = now() + (expires_at - created_at)
		WHERE id = $1 RETURNING expires_at`
	selectTimeline = `
		SELECT version, trigger, from_status, to_status, reason, message, actor, at
		FROM allocation_transitions WHERE allocation_id = $1 ORDER BY version`
)

func queueInsert(b *pgx.Batch, a Allocation, keys []uuid.UUID, actor string) {
	labels := a.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	b.Queue(insertAllocation, a.ID, a.Tenant, a.Project, a.User, a.Name, a.SKU, a.Region, a.GPUs, a.Node, a.PriceMinor, a.Currency,
		a.Login, a.HostUID, labels, a.CreatedAt, a.ExpiresAt, a.CorrelationID, a.Trace, keys, a.QueueUntil, actor, append([]desired.Mount{}, a.Mounts...)).Exec(oneRow(func() error {
		return errs.New(errs.AlreadyExists, "the project already has an allocation named %q", a.Name).At("name").Try("choose another name, or release that one")
	}))
}

func scan(row pgx.CollectableRow) (Allocation, error) { return scanWith(row) }

// scanWith reads the columns of an allocation, and those that follow them.
func scanWith(row pgx.CollectableRow, more ...any) (a Allocation, err error) {
	err = row.Scan(append([]any{
		&a.ID, &a.Tenant, &a.Project, &a.User, &a.Name, &a.SKU, &a.Region, &a.GPUs, &a.Node, &a.PriceMinor, &a.Currency,
		&a.Login, &a.HostUID, &a.State, &a.Reason, &a.Message, &a.Labels, &a.CorrelationID, &a.Trace, &a.Version, &a.CreatedAt, &a.StatusAt, &a.UpdatedAt, &a.ActiveAt, &a.EndedAt, &a.ExpiresAt, &a.Paused, &a.QueueUntil,
		&a.EvictAt, &a.EvictFor, &a.EvictReason, &a.IdleReleaseAt, &a.Mounts,
	}, more...)...)
	if err != nil {
		return Allocation{}, fmt.Errorf("scanning allocation: %w", err)
	}
	return a, nil
}
