package jobs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/gpuaas/gpuaas/api/asyncapi"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/jobs/money"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering/meteringtest"
)

const (
	many   = 1000 // tenants
	rich   = 10   // every so many has money enough
	perGPU = 100  // minor units a second and GPU

	opened = int64(1_800_000_000)
	window = int64(300)
	grace  = int64(45) // until all releases are executed
)

// manyTenants inserts the rows directly: the services would need a minute. Each tenant has one
// active allocation, and every other tenant a second one that is not active yet. The next window
// uses up the balance of all tenants but the rich ones, for some of them to the cent.
var manyTenants = []string{
	`CREATE FUNCTION many_id(kind text, n int) RETURNS uuid IMMUTABLE LANGUAGE sql RETURN (kind || lpad(n::text, 31, '0'))::uuid`,
	`CREATE FUNCTION many_gpus(n int) RETURNS int IMMUTABLE LANGUAGE sql RETURN 1 + n % 3`,
	`CREATE VIEW many AS SELECT n, many_id('a', n) AS tenant, n % 10 = 0 AS rich, many_gpus(n) AS gpus FROM generate_series(1, 1000) AS n`,
	`INSERT INTO tenants (id, name) SELECT tenant, 'many-' || n FROM many`,
	`INSERT INTO projects (id, org_id, name) SELECT many_id('b', n), tenant, 'p' FROM many`,
	`INSERT INTO users (id, oidc_subject, email, name, role) SELECT many_id('c', n), 'many-' || n, 'many-' || n, 'many', 'user' FROM many`,
	`INSERT INTO allocations (id, org_id, project_id, user_id, name, sku, region, gpus, node_id, price_minor, currency, login, host_uid, status, active_at, version)
		SELECT many_id(kind, n), tenant, many_id('b', n), many_id('c', n), 'a-' || kind, 'h100', 'eu1', gpus, gen_random_uuid(), 360000, 'EUR', 'u', 1,
			status, CASE WHEN status = 'active' THEN now() END, 1
		FROM many, (VALUES ('d', 'active'), ('e', 'requested'), ('f', 'provisioning')) AS a (kind, status)
		WHERE status = 'active' OR status = 'requested' AND n % 4 = 1 OR status = 'provisioning' AND n % 4 = 3`,
	`INSERT INTO desired_objects (uid, kind, scope, name, spec, spec_hash, owner, fence)
		SELECT id, 'Allocation', project_id::text, name, '{"slots": []}', 'x', 'api', 1 FROM allocations WHERE login = 'u'`,
	`INSERT INTO usage_records (id, allocation_id, org_id, project_id, user_id, sku, gpus, price_minor, currency, account_id, start_s)
		SELECT gen_random_uuid(), many_id('d', n), tenant, many_id('b', n), many_id('c', n), 'h100', gpus, 360000, 'EUR', ledger_ensure_accounts(tenant, 'EUR'), 1800000000 FROM many`,
	`WITH credit AS (
			SELECT gen_random_uuid() AS id, tenant, CASE WHEN rich THEN 1000000000 ELSE (ARRAY[1, 30000 * gpus, 30000 * gpus - 1, 15000])[1 + n % 4] END AS amount FROM many
		), t AS (
			INSERT INTO ledger_transfers (id, kind, reference, org_id, amount_minor) SELECT id, 'test_credit', tenant::text, tenant, amount FROM credit
		)
		INSERT INTO ledger_entries (transfer_id, account_id, amount_minor, currency)
		SELECT c.id, a.id, CASE WHEN a.org_id IS NULL THEN -c.amount ELSE c.amount END, 'EUR'
		FROM credit c JOIN ledger_accounts a ON a.org_id = c.tenant AND a.name = 'balance' OR a.org_id IS NULL AND a.name = 'promotions' AND a.currency = 'EUR'`,
	`ANALYZE`,
}

// INV-35: a thousand tenants are depleted in one window, while no event is published and no hint
// reaches another process. Two servers work, and each gets every job twice. Every allocation is
// released once, every tenant is notified once, and the debt is within the cost of the window and
// the release.
func TestINV35AThousandRunOut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, sql := range manyTenants {
		b.exec(sql)
	}
	b.Hints.Forward = func(string) {} // the network is away: what is sent is gone
	b.second(t)
	clock := meteringtest.New(t, b.DB, opened)

	began := time.Now()
	must(t, clock.Set(t.Context(), opened+window))
	b.done(money.Accrue{})
	must(t, clock.Set(t.Context(), opened+window+grace)) // a release from here on is late
	b.enqueue(ledger.CheckRunway{}, ledger.CheckRunway{})
	b.idle(ledger.CheckRunway{}.Kind())
	t.Logf("from the charge to the last release: %s", time.Since(began))

	const released = `status = 'releasing' AND reason = 'balance_depleted' AND version = 2
		AND (SELECT count(*) FROM allocation_transitions t WHERE t.allocation_id = a.id) = 1`
	for why, sql := range map[string]string{
		"not released once":               `SELECT count(*) FROM allocations a JOIN many ON tenant = org_id WHERE NOT rich AND NOT (` + released + `)`,
		"released, though there is money": `SELECT count(*) FROM allocations a JOIN many ON tenant = org_id WHERE rich AND status = 'releasing'`,
		"not notified once, of all of theirs": `SELECT count(*) FROM many WHERE NOT rich AND (
			SELECT count(*) FROM outbox_events e WHERE org_id = tenant AND subject = 'billing.balance_depleted'
				AND jsonb_array_length(payload->'allocation_ids') = (SELECT count(*) FROM allocations a WHERE a.org_id = tenant)) <> 1
			OR (SELECT count(*) FROM outbox_events e WHERE org_id = tenant AND subject LIKE 'billing.%') <> CASE WHEN rich THEN 0 ELSE 2 END`,
		"not forced once": `SELECT count(*) FROM allocations a JOIN many ON tenant = org_id WHERE NOT rich AND (
			SELECT count(*) FROM outbox_events e WHERE e.payload->>'allocation_id' = a.id::text AND subject = 'provisioning.force_release_requested') <> 1`,
		"intervals open": `SELECT count(*) FROM usage_records JOIN many ON tenant = org_id WHERE NOT rich AND end_s IS NULL`,
	} {
		if n := b.count(sql); n != 0 {
			t.Errorf("%s: %d", why, n)
		}
	}
	b.done(money.Accrue{}) // what was used until the release
	b.enqueue(ledger.CheckRunway{})
	b.idle(ledger.CheckRunway{}.Kind())
	if n := b.count(`SELECT count(*) FROM outbox_events WHERE subject = 'billing.balance_depleted'`); n != many-many/rich {
		t.Errorf("%d notices of an empty balance", n)
	}
	over := `SELECT count(*) FROM (SELECT gpus, rich, (SELECT sum(e.amount_minor) FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id
		WHERE a.org_id = tenant AND a.name = 'balance') AS balance FROM many) AS m WHERE NOT rich AND NOT balance BETWEEN $1::bigint * gpus AND 0`
	if n := b.count(over, -perGPU*(window+grace)); n != 0 {
		t.Errorf("%d owe more than the window and the release cost", n)
	}
	b.checkEventContract()
}

// second starts a second server on the same database.
func (b *bundle) second(t *testing.T) {
	t.Helper()
	other, err := river.NewClient(riverpgxv5.New(b.DB), &river.Config{
		Schema: migrations.RiverSchema, Logger: b.deps.Log, Workers: jobs.Workers(b.deps), FetchPollInterval: 20 * time.Millisecond, FetchCooldown: 2 * time.Millisecond,
		TestOnly: true, ID: "beside", Queues: map[string]river.QueueConfig{ledger.QueueBilling: {MaxWorkers: 2}},
	})
	must(t, err)
	must(t, other.Start(t.Context()))
	t.Cleanup(func() { <-other.Stopped() })
}

func (b *bundle) enqueue(all ...river.JobArgs) {
	b.t.Helper()
	for _, args := range all {
		_, err := b.client.Insert(b.t.Context(), args, nil)
		must(b.t, err)
	}
}

// idle waits until no job of a kind is left to be worked, and expects that all went well.
func (b *bundle) idle(kind string) {
	b.t.Helper()
	for until := time.Now().Add(2 * time.Minute); b.count(`SELECT count(*) FROM river.river_job WHERE kind = $1 AND finalized_at IS NULL`, kind) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			b.t.Fatalf("%s goes on", kind)
		}
	}
	if n := b.count(`SELECT count(*) FROM river.river_job WHERE kind = $1 AND state <> 'completed'`, kind); n != 0 {
		b.t.Errorf("%d jobs %s failed", n, kind)
	}
}

// checkEventContract validates all events against their contract and checks that each version
// of an aggregate exists once.
func (b *bundle) checkEventContract() {
	b.t.Helper()
	contract, err := asyncapi.Load()
	must(b.t, err)
	rows, err := b.DB.Query(b.t.Context(), `SELECT DISTINCT ON (subject) subject, payload FROM outbox_events`)
	must(b.t, err)
	defer rows.Close()
	for rows.Next() {
		var subject string
		var payload []byte
		must(b.t, rows.Scan(&subject, &payload))
		if err := contract.Payload(subject, payload); err != nil {
			b.t.Error(fmt.Errorf("%s: %w", subject, err))
		}
	}
	must(b.t, rows.Err())
	if n := b.count(`SELECT count(*) FROM (SELECT FROM outbox_events GROUP BY aggregate, sequence HAVING count(*) > 1) AS twice`); n > 0 {
		b.t.Errorf("%d places of an aggregate are used twice", n)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
