package lab

import (
	"context"
	"fmt"
)

// perNode is the number of allocations on one node.
const perNode = 8

// LeaseEnd is the expiry of every seeded allocation. It is in the far future, so that each
// allocation has a due row, as in production, and none expires during a measurement.
const LeaseEnd = `'2099-01-01 00:00:00+00'::timestamptz`

// Fleet seeds a database with n active allocations and returns its URL. Each allocation is desired,
// reported ready and waits only for its expiry, so the loop has nothing to do.
func (l *Lab) Fleet(ctx context.Context, n int) (url string, err error) {
	if url, ok := l.fleets[n]; ok {
		return url, nil
	}
	l.Say("seeding %d allocations", n)
	if url, err = l.Database(ctx, fmt.Sprintf("fleet_%d", n)); err != nil {
		return "", err
	}
	all := fmt.Sprintf("generate_series(1, %d) i", n)
	err = l.Exec(ctx, url,
		// The ids ascend by time of creation, as UUIDv7 do.
		`CREATE FUNCTION uid(i bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS
			$$ SELECT (lpad(to_hex(i), 12, '0') || '70008000' || substr(md5(i::text), 1, 12))::uuid $$`,
		`CREATE FUNCTION node(i bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$ SELECT uid(1::bigint << 40 | i / `+fmt.Sprint(perNode)+`) $$`,
		`CREATE FUNCTION hash(i bigint, generation bigint) RETURNS text LANGUAGE sql IMMUTABLE AS
			$$ SELECT encode(sha256((i || ' ' || generation)::bytea), 'hex') $$`,
		`INSERT INTO observed_nodes (node_id, boot, boot_id, sequence, complete, agent, capability, inventory, content_hash, observed_at, stale_at)
			SELECT DISTINCT node(i), 1, 'boot', 1, true, 'bench', 1, '{}'::jsonb, '', now(), `+LeaseEnd+` FROM `+all,
		`INSERT INTO desired_objects (uid, kind, scope, name, spec, spec_hash, owner, fence)
			SELECT uid(i), 'Allocation', uid(7)::text, 'a-' || i, jsonb_build_object('tenant', uid(8), 'project', uid(7), 'user', uid(9),
				'sku', 'h100-sxm', 'gpus', 1, 'node', node(i), 'slots', jsonb_build_array(uid(i)), 'gpuUUIDs', jsonb_build_array('GPU-' || uid(i)),
				'login', 'u' || i, 'uid', 200000 + i, 'keys', '[]'::jsonb, 'released', false), hash(i, 1), 'api', 1 FROM `+all,
		`INSERT INTO observed_allocations (allocation_id, node_id, phase, fence, observed_generation, spec_hash, observed_at)
			SELECT uid(i), node(i), 'ready', 1, 1, hash(i, 1), now() FROM `+all,
		`INSERT INTO allocations (id, org_id, project_id, user_id, name, sku, region, gpus, node_id, price_minor, currency, login, host_uid, status, active_at, expires_at, created_at)
			SELECT uid(i), uid(8), uid(7), uid(9), 'a-' || i, 'h100-sxm', 'eu', 1, node(i), 200, 'EUR', 'u' || i, 200000 + i, 'active', now(), `+LeaseEnd+`, now() - (`+fmt.Sprint(n)+` - i) * interval '1 second' FROM `+all,
		`INSERT INTO reconcile_due (kind, object_id, due_at, reason)
			SELECT 'Allocation', uid(i), `+LeaseEnd+`, 'deadline of active' FROM `+all,
		`VACUUM ANALYZE`, `CHECKPOINT`)
	if err != nil {
		return "", err
	}
	l.fleets[n] = url
	return url, nil
}
