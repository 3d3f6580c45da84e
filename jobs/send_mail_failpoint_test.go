//go:build failpoint

package jobs_test

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/failpoint/killtest"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/jobs/mails"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/platform/notification"
	"github.com/gpuaas/gpuaas/platform/notification/mail"
	"github.com/gpuaas/gpuaas/platform/notification/smtp"
	"github.com/gpuaas/gpuaas/platform/notification/smtp/smtptest"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
)

// sendMails works until no e-mail waits.
func sendMails(ctx context.Context, _ string) error {
	db, err := pg.Open(ctx, os.Getenv("PAYMENT_TEST_DB"), "test", 4)
	if err != nil {
		return err
	}
	defer db.Close()
	n, err := strconv.Atoi(os.Getenv("MAIL_TEST_PORT"))
	if err != nil {
		return err
	}
	mailer := smtp.New(smtp.Config{Host: "127.0.0.1", Port: n})
	defer mailer.Close()
	policy := policies.Snapshot{}.For().With(string(policies.NotificationEmailEnabled), policies.Platform, true).
		With(string(policies.NotificationLowBalanceEnabled), policies.Platform, true)
	workers := river.NewWorkers()
	mails.AddWorkers(workers, &notification.Service{
		DB: db, Policy: func(ids.Tenant, ids.Project, ids.User) policies.View { return policy },
		Mail: notification.MailConfig{Mailer: mailer, From: "GPUaaS <noreply@gpuaas.test>", PublicURL: func() string { return "https://gpuaas.test" }},
	})
	client, err := river.NewClient(riverpgxv5.New(db), &river.Config{
		Schema: migrations.RiverSchema, Logger: slog.New(slog.DiscardHandler), FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond, TestOnly: true,
		Workers: workers, Queues: map[string]river.QueueConfig{riverjob.QueueNotify: {MaxWorkers: 1}},
	})
	if err != nil {
		return err
	}
	if _, err := db.Exec(ctx, `UPDATE river.river_job SET state = 'available' WHERE state = 'running'`); err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	for left := 1; left > 0; time.Sleep(5 * time.Millisecond) {
		if err := db.QueryRow(ctx, `SELECT count(*) FROM river.river_job WHERE kind = 'send_mail' AND finalized_at IS NULL`).Scan(&left); err != nil {
			return err
		}
	}
	return client.Stop(ctx)
}

// A worker that is killed before the mail server has the e-mail, or between its response and the commit that ends the job.
// The e-mail arrives, and at most once more, with the same id.
func TestMailsKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	n := 0
	for _, point := range failpoint.Points {
		if !strings.HasPrefix(point, "mail.") {
			continue
		}
		n++
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w, server := allocationtest.New(t, 0), smtptest.Start(t, smtptest.Config{})
			id := uuid.Must(uuid.NewV7())
			for _, q := range []struct {
				sql  string
				args []any
			}{
				{`UPDATE users SET oidc_issuer = 'https://idp.test', email = 'a@example.test' WHERE id = $1`, []any{w.Caller.User}},
				{`INSERT INTO notifications (id, user_id, org_id, kind, severity, urn, title, message) VALUES ($1, $2, $3, 'low_balance', 'warning', 'u', 't', 'm')`, []any{id, w.Caller.User, w.Caller.Tenant}},
			} {
				if _, err := w.DB.Exec(t.Context(), q.sql, q.args...); err != nil {
					t.Fatal(err)
				}
			}
			client, err := river.NewClient(riverpgxv5.New(w.DB), &river.Config{Schema: migrations.RiverSchema})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.Insert(t.Context(), mail.SendMail{Source: mail.FromNotification, ID: id}, nil); err != nil {
				t.Fatal(err)
			}
			child, killed := killtest.New(t, point, "PAYMENT_TEST_STEP=mail", "PAYMENT_TEST_DB="+w.DB.Config().ConnString(), "MAIL_TEST_PORT="+strconv.Itoa(server.Port)), 0
			for {
				if _, dead := child.Run(t.Context(), t); !dead {
					break
				}
				killed++
			}
			want := map[string]int{"mail.before_send": 1, "mail.after_send": 2}[point]
			messages, _ := server.Received()
			if killed != 1 || len(messages) != want {
				t.Fatalf("killed %d times: %d messages, expected %d", killed, len(messages), want)
			}
			for _, m := range messages {
				if got := m.Header.Get("Message-ID"); got != "<"+id.String()+"@gpuaas.test>" {
					t.Errorf("the id is %s", got)
				}
			}
		})
	}
	if n != 2 {
		t.Errorf("%d points", n)
	}
}
