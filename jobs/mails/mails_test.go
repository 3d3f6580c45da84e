package mails

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/internal/race"
	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/platform/notification"
	"github.com/gpuaas/gpuaas/platform/notification/mail"
	"github.com/gpuaas/gpuaas/policies"
)

// outcomes is a Mailer that returns errors in turn, and nil after the last.
type outcomes chan error

func (o outcomes) Send(context.Context, mail.Message) error {
	select {
	case err := <-o:
		return err
	default:
		return nil
	}
}

// bundle runs the workers over a notification of a user with a verified address.
type bundle struct {
	t        *testing.T
	db       *pgxpool.Pool
	client   *river.Client[pgx.Tx]
	notified *notification.Service
	mailer   outcomes
	id       uuid.UUID
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, db: pgtest.Clone(t), mailer: make(outcomes, 10), id: uuid.Must(uuid.NewV7())}
	work := pgtest.As(t, b.db, "gpuaas_work")
	b.notified = &notification.Service{
		DB: work, Metrics: notification.NewMetrics(),
		Policy: func(ids.Tenant, ids.Project, ids.User) policies.View {
			return policies.Snapshot{}.For().With(string(policies.NotificationEmailEnabled), policies.Platform, true)
		},
		Mail: notification.MailConfig{Mailer: b.mailer, From: "noreply@gpuaas.test", PublicURL: func() string { return "https://gpuaas.test" }},
	}
	user := uuid.Must(uuid.NewV7())
	b.exec(`INSERT INTO users (id, oidc_issuer, oidc_subject, email, name, role) VALUES ($1, 'https://idp.test', 's', 'dev@example.test', 'n', 'user')`, user)
	tenant := uuid.Must(uuid.NewV7())
	b.exec(`INSERT INTO tenants (id, name, currency) VALUES ($1, 'acme', 'EUR')`, tenant)
	b.exec(`INSERT INTO tenant_memberships (org_id, user_id, role) VALUES ($1, $2, 'owner')`, tenant, user)
	b.exec(`INSERT INTO notifications (id, user_id, org_id, kind, severity, urn, title, message) VALUES ($1, $2, $3, 'low_balance', 'warning', 'u', 't', 'm')`, b.id, user, tenant)
	workers := river.NewWorkers()
	AddWorkers(workers, b.notified)
	var err error
	if b.client, err = river.NewClient(riverpgxv5.New(work), &river.Config{
		Schema: migrations.RiverSchema, Workers: workers, Queues: map[string]river.QueueConfig{riverjob.QueueNotify: {MaxWorkers: 2}},
		FetchCooldown: time.Millisecond, FetchPollInterval: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler), ReindexerSchedule: river.NeverSchedule(),
	}); err != nil {
		t.Fatal(err)
	}
	if err := b.client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.client.StopAndCancel(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.db.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
}

// send queues the e-mail, and returns its job in one of the states.
func (b *bundle) send(states ...rivertype.JobState) *rivertype.JobRow {
	b.t.Helper()
	inserted, err := b.client.Insert(b.t.Context(), mail.SendMail{Source: mail.FromNotification, ID: b.id}, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.await(inserted.Job.ID, 0, states...)
}

func (b *bundle) await(id int64, attempt int, states ...rivertype.JobState) *rivertype.JobRow {
	b.t.Helper()
	for deadline := time.Now().Add(race.Slower * 15 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		job, err := b.client.JobGet(b.t.Context(), id)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, s := range states {
			if job.State == s && job.Attempt >= attempt {
				return job
			}
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("the job is %s after %d attempts: %v", job.State, job.Attempt, job.Errors)
		}
	}
}

func (b *bundle) counted(kind, result string) (n int) {
	b.t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(b.notified.Metrics)
	families, err := registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["kind"] == kind && labels["channel"] == "email" && labels["result"] == result {
				n += int(m.GetCounter().GetValue())
			}
		}
	}
	return n
}

// A temporary error is repeated after the delay of its attempt, and the tenth attempt is the last.
func TestTheTenthAttemptIsTheLast(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mailer <- errors.New("450 try later")
	job := b.send(rivertype.JobStateRetryable)
	if wait := time.Until(job.ScheduledAt); wait < 30*time.Second || wait > 90*time.Second {
		t.Errorf("the second attempt is in %s", wait)
	}
	b.mailer <- errors.New("450 try later")
	b.exec(`UPDATE river.river_job SET attempt = 9, state = 'available', scheduled_at = now()`)
	if job = b.await(job.ID, 10, rivertype.JobStateDiscarded); job.Attempt != 10 {
		t.Errorf("%d attempts", job.Attempt)
	}
	if b.counted("low_balance", "deferred") != 2 || b.counted("notification", "failed") != 1 {
		t.Errorf("%d deferred, %d failed", b.counted("low_balance", "deferred"), b.counted("notification", "failed"))
	}
}

// A job ends at once where another attempt would fail, waits where the domain must, and is not repeated after success.
func TestResultsOfAnEmail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err        error
		state      rivertype.JobState
		suppressed int
	}{
		"sent":     {nil, rivertype.JobStateCompleted, 0},
		"rejected": {&mail.RejectedError{Code: 550, Text: "no such user"}, rivertype.JobStateCancelled, 1},
		"busy":     {&mail.BusyError{After: time.Hour}, rivertype.JobStateScheduled, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.mailer <- c.err
			first := b.send(c.state)
			var n int
			if err := b.db.QueryRow(t.Context(), `SELECT count(*) FROM suppressed_addresses WHERE address = 'dev@example.test'`).Scan(&n); err != nil || n != c.suppressed {
				t.Errorf("%d addresses are suppressed, %v", n, err)
			}
			if c.err != nil {
				return
			}
			again, err := b.client.Insert(t.Context(), mail.SendMail{Source: mail.FromNotification, ID: b.id}, nil)
			if err != nil || !again.UniqueSkippedAsDuplicate || again.Job.ID != first.ID || b.counted("low_balance", "sent") != 1 {
				t.Errorf("%+v, %v", again, err)
			}
		})
	}
}
