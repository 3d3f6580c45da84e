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
	"path/filepath"
	"strings"
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
	"github.com/gpuaas/gpuaas/internal/failpoint/killtest"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/platform/payment/autotopup"
	"github.com/gpuaas/gpuaas/platform/payment/stripe"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
	"github.com/gpuaas/gpuaas/services"
)

// TestMain runs this binary as a server with one job if it was started as one: only a process of
// its own can be killed.
func TestMain(m *testing.M) {
	killtest.Main(m, "PAYMENT_TEST_STEP", func(ctx context.Context, step string) error {
		switch step {
		case "webhook":
			return serveWebhooks(ctx, step)
		case "mail":
			return sendMails(ctx, step)
		case "evidence":
			return buildEvidence(ctx, step)
		}
		return serveStep(ctx, step)
	})
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
			return payment.Limits{Min: 500, Max: 500_000, SessionTTL: time.Hour, RefundWindow: time.Hour, AutoTopup: true}
		},
		PublicURL: func() string { return "https://gpuaas.example" },
	}
	quiet := slog.New(slog.DiscardHandler)
	client, err := river.NewClient(riverpgxv5.New(db), &river.Config{
		Schema: migrations.RiverSchema, Logger: quiet, FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond, TestOnly: true,
		Workers: jobs.Workers(&jobs.Deps{Services: &services.Services{DB: db, Payments: payments, AutoTopups: autotopup.New(payments), Hints: payments.Hints}, Log: quiet}), Queues: map[string]river.QueueConfig{"billing": {MaxWorkers: 1}},
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
	case "topup":
		if _, err := client.Insert(ctx, autotopup.TopUp{Tenant: caller.Tenant.UUID}, nil); err != nil {
			return err
		}
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

const waiting = `SELECT count(*) FROM river.river_job WHERE (kind LIKE 'payment_%' OR kind = 'auto_topup') AND state NOT IN ('completed', 'cancelled', 'discarded')`

// workAll works until nothing waits. What a killed worker has left running River
// would rescue after minutes; here it is made available again at once.
func workAll(ctx context.Context, db *pgxpool.Pool, client *river.Client[pgx.Tx]) error {
	if _, err := db.Exec(ctx, `UPDATE river.river_job SET state = 'available' WHERE (kind LIKE 'payment_%' OR kind = 'auto_topup') AND state = 'running'`); err != nil {
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

// killing is a tenant at a provider whose webhooks are files. Each step runs in a process that is killed at a point.
type killing struct {
	*allocationtest.Fixture

	t        *testing.T
	provider *stripetest.Provider
	child    *killtest.Child
	events   string
	killed   int
}

func newKilling(t *testing.T, point string) *killing {
	t.Helper()
	k := &killing{Fixture: allocationtest.New(t, 0), t: t, provider: stripetest.Start(t, devstripe.Config{}), child: killtest.New(t, point), events: t.TempDir()}
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_ = os.WriteFile(filepath.Join(k.events, fmt.Sprint(time.Now().UnixNano())), body, 0o600)
	}))
	t.Cleanup(hook.Close)
	k.provider.SetWebhook(hook.URL)
	return k
}

// step runs a step until its process ends by itself, and returns its output.
func (k *killing) step(ctx context.Context, name string) string {
	k.t.Helper()
	k.child.Env = []string{
		"PAYMENT_TEST_STEP=" + name, "PAYMENT_TEST_DB=" + k.DB.Config().ConnString(), "PAYMENT_TEST_PROVIDER=" + k.provider.URL,
		"PAYMENT_TEST_TENANT=" + k.Caller.Tenant.String(), "PAYMENT_TEST_USER=" + k.Caller.User.String(), "PAYMENT_TEST_EVENTS=" + k.events,
	}
	for {
		out, killed := k.child.Run(ctx, k.t)
		if !killed {
			return out
		}
		k.killed++
	}
}

// received waits for n webhooks.
func (k *killing) received(ctx context.Context, n int) {
	for files := []string{}; len(files) < n && ctx.Err() == nil; time.Sleep(2 * time.Millisecond) {
		files, _ = filepath.Glob(k.events + "/*")
	}
}

// counts expects the first column of each statement.
func (k *killing) counts(ctx context.Context, want map[string]int) {
	k.t.Helper()
	for sql, want := range want {
		var got int
		if err := k.DB.QueryRow(ctx, sql).Scan(&got); err != nil || got != want {
			k.t.Errorf("%s: %d, want %d, %v", sql, got, want, err)
		}
	}
}

// killedOnce expects that the point was reached.
func (k *killing) killedOnce() {
	k.t.Helper()
	if text, err := os.ReadFile(k.child.Hits); err != nil || k.killed != 1 || strings.TrimSpace(string(text)) != k.child.Point {
		k.t.Errorf("killed %d times at %q: %v", k.killed, text, err)
	}
}

func killedPaying(t *testing.T, point string) {
	t.Helper()
	w := newKilling(t, point)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	step := func(name string) string { return w.step(ctx, name) }
	var s payment.Session
	if err := json.Unmarshal([]byte(step("begin")), &s); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Pay(ctx, s.URL, devstripe.CardPaid); err != nil {
		t.Fatal(err)
	}
	w.received(ctx, 1)
	if point == "payment.sweep.before_commit" { // which has something to commit only where no webhook arrived
		if _, err := w.DB.Exec(ctx, `UPDATE payment_sessions SET created_at = created_at - interval '1 hour'`); err != nil {
			t.Fatal(err)
		}
		step("sweep")
	}
	for _, name := range []string{"receive", "work", "refund", "work"} {
		step(name)
	}
	w.received(ctx, 2)
	for _, name := range []string{"receive", "work", "sweep", "work", "refund", "begin"} {
		step(name)
	}
	w.killedOnce()
	balance, _, err := w.Ledger.Balance(ctx, w.DB, w.Caller.Tenant)
	if err != nil || balance != topUp-1000 {
		t.Errorf("balance is %d, %v", balance, err)
	}
	status, err := w.provider.Status()
	if err != nil || status.Charges != 1 || status.Refunds != 1 {
		t.Errorf("the provider has %d charges and %d refunds, %v", status.Charges, status.Refunds, err)
	}
	w.counts(ctx, map[string]int{
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
	})
}

// INV-31: the job of an automatic top-up, killed at every point: one charge at the provider, one credit.
func TestINV31KilledAtEveryPointOfATopUp(t *testing.T) {
	t.Parallel()
	n := 0
	for _, point := range failpoint.Points {
		if strings.HasPrefix(point, "topup.") {
			n++
			t.Run(point, func(t *testing.T) {
				t.Parallel()
				killedToppingUp(t, point)
			})
		}
	}
	if n != 5 {
		t.Errorf("%d points", n)
	}
}

func killedToppingUp(t *testing.T, point string) {
	t.Helper()
	k := newKilling(t, point)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := stripe.New(stripe.Config{Key: stripetest.SecretKey, WebhookSecret: stripetest.WebhookSecret, URL: k.provider.URL})
	if err != nil {
		t.Fatal(err)
	}
	mandates := autotopup.New(&payment.Service{
		DB: k.DB, Provider: client, Identity: &identity.Service{DB: k.DB}, Ledger: k.Ledger, Naming: ids.DefaultNaming, Hints: k.Hints,
		Limits:    func(identity.Caller) payment.Limits { return payment.Limits{Min: 500, Max: 500_000, AutoTopup: true} },
		PublicURL: func() string { return "https://gpuaas.example" },
	})
	v, err := mandates.Begin(ctx, identity.Change[autotopup.View]{Caller: k.Caller})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := control.Pay(ctx, v.URL, devstripe.CardPaid); err != nil {
		t.Fatal(err)
	}
	k.received(ctx, 1)
	k.step(ctx, "receive")
	k.step(ctx, "work")
	terms := autotopup.Terms{Threshold: 1, Amount: topUp, Cap: 10 * topUp, Currency: "EUR"}
	if _, err := mandates.Confirm(ctx, identity.Change[autotopup.View]{Caller: k.Caller}, v.ID, terms); err != nil {
		t.Fatal(err)
	}
	k.step(ctx, "topup")
	k.received(ctx, 2)
	for _, name := range []string{"receive", "work", "topup"} {
		k.step(ctx, name)
	}
	k.killedOnce()
	if status, err := k.provider.Status(); err != nil || status.Charges != 1 {
		t.Errorf("the provider has %d charges, %v", status.Charges, err)
	}
	if balance, _, err := k.Ledger.Balance(ctx, k.DB, k.Caller.Tenant); err != nil || balance != topUp {
		t.Errorf("balance is %d, %v", balance, err)
	}
	k.counts(ctx, map[string]int{
		"SELECT count(*) FROM ledger_transfers WHERE kind = 'topup'":                     1,
		"SELECT count(*) FROM outbox_events WHERE subject = 'payments.balance_credited'": 1,
		"SELECT count(*) FROM payment_sessions":                                          1,
		"SELECT count(*) FROM payment_sessions WHERE status = 'credited'":                1,
		"SELECT count(*) FROM payment_mandates WHERE status = 'active' AND failures = 0": 1,
	})
}
