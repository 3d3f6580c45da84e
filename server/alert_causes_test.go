package server

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/notification/mail"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/product/storage/blob"
	"github.com/gpuaas/gpuaas/product/storage/blob/observed"
	"github.com/gpuaas/gpuaas/product/terminal"
	"github.com/gpuaas/gpuaas/protocol"
)

// alarmed is a running server whose alerts a test causes.
type alarmed struct {
	*Server

	t    *testing.T
	db   *pgxpool.Pool
	node ids.Node
}

// failingStore has no space and finds nothing.
type failingStore struct{ blob.Store }

func (failingStore) Stat(context.Context, uuid.UUID) (blob.Info, error) {
	return blob.Info{}, errors.New("broken")
}

func (failingStore) Space(context.Context) (blob.Space, bool, error) {
	return blob.Space{Used: 9}, true, nil
}

// sqlCause causes the condition of an alert by statements.
func sqlCause(statements ...string) func(*alarmed) {
	return func(a *alarmed) {
		for _, sql := range statements {
			a.exec(strings.ReplaceAll(sql, "$node", "'"+a.node.String()+"'"))
		}
	}
}

// causes has a row for each alert. A row changes the database as the fault would, or calls what the server calls.
var causes = map[string]func(*alarmed){
	"GPUaaSAgentSilent": sqlCause(`
		INSERT INTO observed_nodes (node_id, boot, boot_id, sequence, complete, agent, capability, inventory, content_hash, observed_at, stale_at)
		VALUES ($node, 1, 'b', 1, true, '1.0.0', 1, '{}', 'h', now() - interval '10 minutes', now() - interval '9 minutes')`),
	"GPUaaSNodeReportRejected": func(a *alarmed) {
		in := a.intake(nil, &periods{policies: a.policies})
		if err := in.Report(a.t.Context(), a.node, protocol.Report{Boot: time.Now().AddDate(1, 0, 0).Unix()}); err == nil {
			a.t.Error("a boot number of next year was accepted")
		}
	},
	"GPUaaSNodeTaskTimeouts": func(a *alarmed) {
		for range 5 {
			a.do(func(tx pgx.Tx) error {
				return a.tasks[RoleWork].Put(a.t.Context(), tx, nodetask.Task{Node: a.node, Type: protocol.Probe, Params: protocol.ProbeParams{}})
			})
			a.exec(`UPDATE node_tasks SET expires_at = now() - interval '1 minute'`)
		}
	},
	"GPUaaSStorageErrors": func(a *alarmed) {
		store := a.storage.Store.(*observed.Store)
		healthy := store.Store
		store.Store = failingStore{healthy}
		for range 6 {
			_, _ = store.Stat(a.t.Context(), uuid.New())
		}
		store.Store = healthy
	},
	"GPUaaSStorageNearlyFull": func(a *alarmed) { store := a.storage.Store.(*observed.Store); store.Store = failingStore{store.Store} },
	"GPUaaSStorageMismatch": sqlCause(`
		INSERT INTO storage_faults (object_key, org_id, project_id, fault) VALUES (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'missing')`),
	"GPUaaSWebhookBacklog": sqlCause(`
		INSERT INTO webhook_endpoints (id, org_id, name, url, patterns, format, signature, secret_enc, created_by)
		VALUES ($node, gen_random_uuid(), 'w', 'https://hooks.example.com/', '{billing.*}', 'standard', 'v1', '', 'user:u')`, `
		INSERT INTO webhook_deliveries (id, endpoint_id, org_id, event_id, event_type, body, status, next_at)
		VALUES (gen_random_uuid(), $node, gen_random_uuid(), gen_random_uuid(), 'billing.refunded', '{}', 'pending', now() - interval '10 minutes')`),
	"GPUaaSEvidenceMissing": sqlCause(`
		INSERT INTO evidence_bundles (id, kind, about, subject, cause, requested_by, status, failure_code)
		VALUES (gen_random_uuid(), 'revision', 'u', '7', 'revision/7', 'ada@example.org', 'failed', 'internal')`),
	// The age that the other alert compares is negative.
	"GPUaaSBackupStale": sqlCause(`DELETE FROM backups`, `
		INSERT INTO backups (id, started_at, ended_at, size_bytes, verified_at) VALUES ('b', now(), now() - interval '2 days', 1, now() + interval '1 day')`),
	"GPUaaSBackupUnverified": sqlCause(`DELETE FROM backups`, `
		INSERT INTO backups (id, started_at, ended_at, size_bytes, verified_at) VALUES ('b', now(), now() + interval '1 day', 1, now() - interval '4 days')`),
	"GPUaaSCertExpiring": sqlCause(`INSERT INTO certificates (serial, node_id, status, not_after) VALUES ('0a', $node, 'active', now() + interval '1 hour')`),
	"GPUaaSDriftUnresolved": sqlCause(`
		INSERT INTO drift (kind, object_id, field, deadline_at) VALUES ('Node', $node, 'gpus', now() - interval '1 hour')`),
	"GPUaaSGpuUnhealthy":      sqlCause(`INSERT INTO gpus (uuid, node_id, index, model, memory_mib, health) VALUES ('GPU-1', $node, 0, 'T4', 15360, 'unhealthy')`),
	"GPUaaSMassActionBreaker": sqlCause(`INSERT INTO breaker_trips SELECT gen_random_uuid(), now(), 3, 2, 10, 'xid 79', ARRAY[$node::uuid]`),
	"GPUaaSReconcileStalled": sqlCause(`
		INSERT INTO reconcile_due (kind, object_id, due_at, reason) VALUES ('SKU', gen_random_uuid(), now() - interval '10 minutes', 'x')`),
	"GPUaaSGitSyncLag": sqlCause(`
		INSERT INTO git_sources (name, repository, ref, dirs, declared_by, checked_at, error_code, error, error_since)
		VALUES ('fleet', 'https://git.example/x', 'main', '{}', 'environment', now(), 'unreachable', 'no route', now() - interval '1 hour')`),
	"GPUaaSAccrualLag": sqlCause(`
		INSERT INTO usage_records (id, allocation_id, org_id, project_id, sku, gpus, price_minor, currency, account_id, start_s)
		SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 't4', 1, 1, 'EUR', gen_random_uuid(), metering_clock() - 3600`,
		`DELETE FROM usage_passes`),
	"GPUaaSLedgerMismatch": func(a *alarmed) {
		ledger, tenant := a.services[RoleWork].Ledger, ids.New[ids.Tenant]()
		a.exec(`INSERT INTO tenants (id, name) VALUES ('` + tenant.String() + `', 'books')`)
		a.do(func(tx pgx.Tx) error {
			if _, err := ledger.EnsureAccounts(a.t.Context(), tx, tenant, "EUR"); err != nil {
				return err
			}
			return ledger.TestCredit(a.t.Context(), tx, tenant, 100, "x")
		})
		a.exec(`UPDATE ledger_entries SET amount_minor = amount_minor + 1 WHERE id = (SELECT min(id) FROM ledger_entries)`)
		if _, err := a.services[RoleWork].Billing.Examine(a.t.Context()); err != nil {
			a.t.Error(err)
		}
	},
	"GPUaaSStripeWebhookFailing": func(a *alarmed) {
		a.exec(`INSERT INTO payment_sessions (id, org_id, principal, amount_minor, currency, status, provider_session, livemode, created_at, expires_at)
			VALUES (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 500, 'EUR', 'initiated', 'cs_1', false, now() - interval '1 hour', now())`)
		if _, err := a.services[RoleWork].Payments.Sweep(a.t.Context()); err != nil {
			a.t.Error(err)
		}
	},
	"GPUaaSAutoTopupFailing": func(a *alarmed) {
		charge := payment.Session{ID: ids.New[ids.PaymentSession](), Mandate: ids.New[ids.Mandate](), State: payment.Initiated, Amount: 500, Currency: "EUR", ExpiresAt: time.Now().Add(time.Hour), CreatedAt: time.Now()}
		for range 4 {
			err := a.services[RoleWork].Payments.SendCharge(a.t.Context(), charge, "pm_1", func(context.Context) (bool, error) { return true, nil })
			if errs.CodeOf(err) != errs.ProviderFailed {
				a.t.Error(err)
			}
		}
	},
	"GPUaaSPartitionMissing": sqlCause(`DO $$ BEGIN
		EXECUTE format('DROP TABLE plan_actions_%s', to_char(now() AT TIME ZONE 'UTC' + interval '1 month', 'YYYYMM')); END $$`),
	"GPUaaSPartitionOverdue": sqlCause(`SELECT make_partition('plan_actions', '2020-01-01Z')`),
	"GPUaaSTableBloat": sqlCause(`DO $$ BEGIN
		CREATE TABLE bloated (n int) WITH (autovacuum_enabled = false);
		INSERT INTO bloated SELECT generate_series(1, 20000);
		DELETE FROM bloated;
		PERFORM pg_stat_force_next_flush(); END $$`),
	// The relay does not reach an event above the horizon.
	"GPUaaSOutboxLag": sqlCause(`
		INSERT INTO outbox_events (event_id, stream, subject, aggregate, sequence, xid, payload, occurred_at)
		VALUES (gen_random_uuid(), 'PAYMENTS', 'payments.x', 'a', 1, '9000000000000000', '{}', now() - interval '10 minutes')`),
	"GPUaaSDeadLetters": sqlCause(`
		INSERT INTO dead_letters (id, consumer, event_id, stream, subject, error, dead_at) VALUES (gen_random_uuid(), 'relay', gen_random_uuid(), 'PAYMENTS', 'payments.x', 'x', now())`),
	"GPUaaSConsumerLag": sqlCause(`
		INSERT INTO event_consumers (name, stream, epoch, pending, redelivered, oldest_at) VALUES ('c', 'PAYMENTS', 'e', 1, 0, now() - interval '10 minutes')`),
	"GPUaaSMailFailing": func(a *alarmed) {
		for range 6 {
			a.services[RoleWork].Notifications.GaveUp(mail.SendMail{Source: mail.FromNotification})
		}
	},
	"GPUaaSTerminalRejects": func(a *alarmed) {
		for range 21 {
			a.get("/ws/terminal/" + a.node.String())
		}
	},
	"GPUaaSRelayFailing": func(a *alarmed) { a.terminalMetrics.ConnectFailed(terminal.Shell) },
	"GPUaaSReleaseFailed": sqlCause(`
		INSERT INTO allocations (id, org_id, project_id, user_id, name, sku, region, gpus, price_minor, currency, login, host_uid, node_id, status)
		SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'f', 't4', 'eu1', 1, 1, 'EUR', 'u', 1, $node, 'release_failed'`),
	"GPUaaSAllocationSlow": func(a *alarmed) { a.drift.Provisioned("t4", "active", 10*time.Minute) },
	"GPUaaSJobsDiscarded": sqlCause(`
		INSERT INTO river.river_job (kind, state, max_attempts, args, finalized_at) VALUES ('x', 'discarded', 1, '{}', now())`),
	"GPUaaSQueueLatency": sqlCause(`
		INSERT INTO river.river_job (kind, queue, state, max_attempts, args, scheduled_at) VALUES ('y', 'unread', 'available', 1, '{}', now() - interval '10 minutes')`),
	"GPUaaSLimiterDown": func(a *alarmed) {
		failed := regexp.MustCompile(`gpuaas_ratelimit_decisions_total{[^}]*result="fail_[a-z]+"} [1-9]`)
		a.renamed("rate_limits", func() {
			for deadline := time.Now().Add(time.Minute); !failed.MatchString(a.exported()) && time.Now().Before(deadline); {
				a.anonymous()
				time.Sleep(100 * time.Millisecond) // below the limit of callers without a token
			}
		})
	},
	// It stays open until the end of the test. The second scrape is an hour later than the first one.
	"GPUaaSTransactionOpen": func(a *alarmed) {
		tx, err := a.db.Begin(a.t.Context())
		if err != nil {
			a.t.Fatal(err)
		}
		a.t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(a.t.Context())) })
		if _, err := tx.Exec(a.t.Context(), `SET LOCAL idle_in_transaction_session_timeout = 0`); err != nil {
			a.t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); !strings.Contains(a.exported(), "\ngpuaas_db_oldest_transaction_seconds "); {
			if time.Now().After(deadline) {
				a.t.Fatal("locks of PostgreSQL were not read")
			}
		}
		a.database.Clock = clock.At(func() time.Time { return time.Now().Add(time.Hour) })
	},
	// Ids and WAL that a test cannot use up. The rest of the statement is the real one.
	"GPUaaSReplicationLag": func(a *alarmed) {
		a.database.DB = edited{a.database.DB, `max(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn))::float8 FROM pg_replication_slots`, `pg_wal_lsn_diff('5/0', '0/0')::float8`}
	},
	"GPUaaSWraparound": func(a *alarmed) {
		a.database.DB = edited{a.database.DB, `max(age(datfrozenxid))`, `max(age(datfrozenxid)) + 1000000000`}
	},
	"GPUaaSNatsDisconnected":   func(a *alarmed) { a.bus.nats = &nats.Conn{} },
	"GPUaaSRestoreUnconfirmed": sqlCause(`INSERT INTO restores (id, restored_to, by) VALUES (gen_random_uuid(), now() - interval '1 hour', 'x')`),
	"GPUaaSSecretOpenFailed": func(a *alarmed) {
		at := envelope.Place{Table: "sessions", Column: "provider_token", Row: "1"}
		sealed := a.keys.Fields.Seal([]byte("x"), at)
		if _, err := a.keys.Fields.Open(a.t.Context(), sealed, envelope.Place{Table: at.Table, Column: at.Column, Row: "2"}); err == nil {
			a.t.Error("a secret of another row was opened")
		}
	},
}

// stopping is the alert whose cause stops the workers and rejects what other causes do.
const stopping = "GPUaaSRestoreUnconfirmed"

// edited replaces a part of each statement.
type edited struct {
	pg.Queryer

	old, changed string
}

func (e edited) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return e.Queryer.QueryRow(ctx, strings.Replace(sql, e.old, e.changed, 1), args...)
}

// serverError causes a response with a status of 5xx.
func serverError(a *alarmed) {
	a.renamed("api_keys", func() {
		a.getAs("/api/v1/allocations", identity.KeyPrefix+strings.Repeat("x", identity.TokenLength-len(identity.KeyPrefix)))
	})
}

// runJob runs a job that finds nothing to do.
func runJob(a *alarmed) {
	if _, err := a.jobs.Insert(a.t.Context(), jobs.PlaceQueued{}, nil); err != nil {
		a.t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !strings.Contains(a.exported(), `gpuaas_job_duration_seconds_count{kind="place_queued",result="completed"}`); {
		if time.Now().After(deadline) {
			a.t.Fatal("the job was not measured")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// renamed runs work while a table is missing.
func (a *alarmed) renamed(table string, work func()) {
	a.t.Helper()
	a.exec(`ALTER TABLE ` + table + ` RENAME TO missing`)
	defer a.exec(`ALTER TABLE missing RENAME TO ` + table)
	work()
}
