//go:build failpoint

package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	devstripe "github.com/gpuaas/gpuaas/dev/stripe"
	"github.com/gpuaas/gpuaas/dev/stripe/control"
	"github.com/gpuaas/gpuaas/dev/stripe/stripetest"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/platform/payment/stripe"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
	"github.com/gpuaas/gpuaas/services"
)

// TestMain runs this binary as a server with one job if it was started as one: only a process of
// its own can be killed.
func TestMain(m *testing.M) {
	step := os.Getenv("PAYMENT_TEST_STEP")
	if step == "" {
		os.Exit(m.Run())
	}
	if err := serveStep(context.Background(), step); err != nil {
		fmt.Fprintln(os.Stderr, step, err)
		os.Exit(1)
	}
}

func serveStep(ctx context.Context, step string) error {
	db, err := pg.Open(ctx, os.Getenv("PAYMENT_TEST_DB"), "test", 6)
	if err != nil {
		return err
	}
	defer db.Close()
	provider, err := stripe.New(stripe.Config{Key: stripetest.SecretKey, WebhookSecret: stripetest.WebhookSecret, URL: os.Getenv("PAYMENT_TEST_PROVIDER")})
	if err != nil {
		return err
	}
	people := &identity.Service{DB: db}
	payments := &payment.Service{
		DB: db, Provider: provider, Identity: people, Ledger: &ledger.Service{DB: db}, Naming: ids.DefaultNaming, Hints: &hint.Bus{},
		Limits: func(identity.Caller) payment.Limits {
			return payment.Limits{Min: 500, Max: 500_000, SessionTTL: time.Hour, RefundWindow: time.Hour}
		},
		PublicURL: func() string { return "https://gpuaas.example" },
	}
	quiet := slog.New(slog.DiscardHandler)
	client, err := river.NewClient(riverpgxv5.New(db), &river.Config{
		Schema: migrations.RiverSchema, Logger: quiet, FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond, TestOnly: true,
		Workers: jobs.Workers(&jobs.Deps{Services: &services.Services{DB: db, Payments: payments, Hints: payments.Hints}, Log: quiet}), Queues: map[string]river.QueueConfig{"billing": {MaxWorkers: 1}},
	})
	if err != nil {
		return err
	}
	payments.Jobs = client
	caller := identity.Caller{Tenant: ids.From[ids.Tenant](uuid.MustParse(os.Getenv("PAYMENT_TEST_TENANT"))), User: ids.From[ids.User](uuid.MustParse(os.Getenv("PAYMENT_TEST_USER")))}
	switch step {
	case "begin":
		return doOnce(ctx, people, caller, "begin", func(k identity.Key) error {
			_, err := payments.Begin(ctx, identity.Change[payment.Session]{Caller: caller, Key: k, Answer: func(s payment.Session) identity.Reply {
				body, _ := json.Marshal(s)
				return identity.Reply{Status: http.StatusCreated, Body: body}
			}}, topUp)
			return err
		})
	case "receive":
		return receiveAll(ctx, payments)
	case "refund":
		return doOnce(ctx, people, caller, "refund", func(k identity.Key) error {
			_, err := payments.Refund(ctx, identity.Change[payment.Refund]{Caller: caller, Key: k, Answer: func(payment.Refund) identity.Reply {
				return identity.Reply{Status: http.StatusCreated}
			}}, payment.RefundRequest{User: caller.User, Kind: payment.Unspent, Amount: 1000, Reason: "not needed"})
			return err
		})
	case "sweep":
		_, err := payments.Sweep(ctx)
		return err
	}
	return workAll(ctx, db, client)
}

// doOnce runs a repeated request through the idempotency keys, as the middleware does.
func doOnce(ctx context.Context, people *identity.Service, c identity.Caller, route string, do func(identity.Key) error) error {
	key := identity.Key{Principal: c.Principal(), Method: http.MethodPost, Route: route, Key: "k"}
	_, found, err := people.Replay(ctx, key)
	if err == nil && !found {
		if err = do(key); err != nil {
			return err
		}
	}
	reply, _, again := people.Replay(ctx, key)
	fmt.Println(string(reply.Body))
	return errors.Join(err, again)
}

func receiveAll(ctx context.Context, payments *payment.Service) error {
	files, err := filepath.Glob(os.Getenv("PAYMENT_TEST_EVENTS") + "/*")
	if err != nil {
		return err
	}
	for _, f := range files {
		body, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if err := payments.Receive(ctx, body, devstripe.Sign(body, stripetest.WebhookSecret, time.Now())); err != nil {
			return err
		}
	}
	return nil
}

const waiting = `SELECT count(*) FROM river.river_job WHERE kind LIKE 'payment_%' AND state NOT IN ('completed', 'cancelled', 'discarded')`

// workAll works until nothing waits. What a killed worker has left running River
// would rescue after minutes; here it is made available again at once.
func workAll(ctx context.Context, db *pgxpool.Pool, client *river.Client[pgx.Tx]) error {
	if _, err := db.Exec(ctx, `UPDATE river.river_job SET state = 'available' WHERE kind LIKE 'payment_%' AND state = 'running'`); err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	for left := 1; left > 0; time.Sleep(5 * time.Millisecond) {
		if err := db.QueryRow(ctx, waiting).Scan(&left); err != nil {
			return err
		}
	}
	return client.Stop(ctx)
}

// INV-31, INV-36: a top-up and a refund of it, killed at every point: one credit,
// one refund, and no more of either in the ledger than at the provider.
func TestINV31KilledAtEveryPointOfAPayment(t *testing.T) {
	t.Parallel()
	n := 0
	for _, point := range failpoint.Points {
		if strings.HasPrefix(point, "payment.") || strings.HasPrefix(point, "job.payment_") {
			n++
			t.Run(point, func(t *testing.T) {
				t.Parallel()
				killedPaying(t, point)
			})
		}
	}
	if n < 15 {
		t.Errorf("only %d points", n)
	}
}

func killedPaying(t *testing.T, point string) {
	t.Helper()
	w := allocationtest.New(t, 0)
	events := t.TempDir()
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_ = os.WriteFile(filepath.Join(events, fmt.Sprint(time.Now().UnixNano())), body, 0o600)
	}))
	t.Cleanup(hook.Close)
	provider := stripetest.Start(t, devstripe.Config{})
	provider.SetWebhook(hook.URL)
	hits := filepath.Join(t.TempDir(), "hits")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	killed := 0
	step := func(name string) string {
		for {
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
			cmd.Env = append(os.Environ(), "PAYMENT_TEST_STEP="+name, "PAYMENT_TEST_DB="+w.DB.Config().ConnString(), "PAYMENT_TEST_PROVIDER="+provider.URL,
				"PAYMENT_TEST_TENANT="+w.Caller.Tenant.String(), "PAYMENT_TEST_USER="+w.Caller.User.String(), "PAYMENT_TEST_EVENTS="+events,
				"GPUAAS_FAILPOINT="+point, "GPUAAS_FAILPOINT_LOG="+hits)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			var ended *exec.ExitError
			switch {
			case err == nil:
				return string(out)
			case errors.As(err, &ended) && ended.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL && ctx.Err() == nil:
				killed++
			default:
				t.Fatalf("%s: %v\n%s", name, err, out)
			}
		}
	}
	told := func(n int) {
		for files := []string{}; len(files) < n && ctx.Err() == nil; time.Sleep(2 * time.Millisecond) {
			files, _ = filepath.Glob(events + "/*")
		}
	}
	var s payment.Session
	if err := json.Unmarshal([]byte(step("begin")), &s); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Pay(ctx, s.URL, devstripe.CardPaid); err != nil {
		t.Fatal(err)
	}
	told(1)
	if point == "payment.sweep.before_commit" { // which has something to commit only where no webhook arrived
		if _, err := w.DB.Exec(ctx, `UPDATE payment_sessions SET created_at = created_at - interval '1 hour'`); err != nil {
			t.Fatal(err)
		}
		step("sweep")
	}
	for _, name := range []string{"receive", "work", "refund", "work"} {
		step(name)
	}
	told(2)
	for _, name := range []string{"receive", "work", "sweep", "work", "refund", "begin"} {
		step(name)
	}
	if text, err := os.ReadFile(hits); err != nil || killed != 1 || strings.TrimSpace(string(text)) != point {
		t.Errorf("killed %d times at %q: %v", killed, text, err)
	}
	balance, _, err := w.Ledger.Balance(ctx, w.DB, w.Caller.Tenant)
	if err != nil || balance != topUp-1000 {
		t.Errorf("balance is %d, %v", balance, err)
	}
	status, err := provider.Status()
	if err != nil || status.Charges != 1 || status.Refunds != 1 {
		t.Errorf("the provider has %d charges and %d refunds, %v", status.Charges, status.Refunds, err)
	}
	for sql, want := range map[string]int{
		"SELECT count(*) FROM ledger_transfers WHERE kind = 'topup'":                             1,
		"SELECT count(*) FROM ledger_transfers WHERE kind = 'refund_card_unspent'":               1,
		"SELECT count(*) FROM outbox_events WHERE subject = 'payments.balance_credited'":         1,
		"SELECT count(*) FROM outbox_events WHERE subject = 'payments.refunded'":                 1,
		"SELECT count(*) FROM payment_sessions WHERE status = 'credited'":                        1,
		"SELECT count(*) FROM payment_sessions":                                                  1,
		"SELECT count(*) FROM refund_requests WHERE status = 'succeeded'":                        1,
		"SELECT count(*) FROM stripe_events WHERE status NOT IN ('processed', 'ignored')":        0,
		"SELECT refunded_minor FROM stripe_payments":                                             1000,
		"SELECT count(*) FROM river.river_job WHERE kind LIKE 'payment_%' AND attempt > 2":       0,
		"SELECT count(*) FROM river.river_job WHERE kind LIKE 'payment_%' AND state = 'running'": 0,
	} {
		var got int
		if err := w.DB.QueryRow(ctx, sql).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %d, want %d, %v", sql, got, want, err)
		}
	}
}
