//go:build failpoint

package consume

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/failpoint/killtest"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/natsd"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/event"
)

// TestMain runs this binary as a worker if it was started as one: only a process of its own can be killed.
func TestMain(m *testing.M) { killtest.Main(m, "CONSUME_TEST_DB", work) }

// work consumes until the process is killed.
func work(ctx context.Context, url string) error {
	db, err := pg.Open(ctx, url, "test", 4)
	if err != nil {
		return err
	}
	defer db.Close()
	nc, err := natsd.Dial(os.Getenv("CONSUME_TEST_NATS"), "test")
	if err != nil {
		return err
	}
	js, err := natsd.JetStream(nc)
	if err != nil {
		return err
	}
	all := []Consumer{consumer()}
	r := &Runner{DB: db, JS: js, Hints: &hint.Bus{}, Environment: "test", Consumers: all, Metrics: NewMetrics(db, all), Log: slog.New(slog.DiscardHandler)}
	return r.Run(ctx)
}

// INV-26: a worker that is killed before the commit, after it, or before the acknowledgement. The next worker
// processes the event, and it has one effect.
func TestINV26KilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	n := 0
	for _, point := range failpoint.Points {
		if !strings.HasPrefix(point, "consume.") {
			continue
		}
		n++
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.publish(b.emit("a", 1, 2, 3)...)
			log := filepath.Join(t.TempDir(), "hits")
			killed := b.worker("GPUAAS_FAILPOINT="+point+":2", "GPUAAS_FAILPOINT_LOG="+log)
			if err := killed.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Fatalf("the worker ended with %v", err)
			}
			if text, err := os.ReadFile(log); err != nil || strings.TrimSpace(string(text)) != point {
				t.Fatalf("killed at %q, %v", text, err)
			}
			committed := map[string]int{"consume.before_commit": 1}[point]
			if committed == 0 {
				committed = 2
			}
			if got := b.count(`SELECT count(*) FROM effects`); got != committed {
				t.Errorf("%d effects before the next worker, expected %d", got, committed)
			}
			b.worker()
			b.eventually("all effects", func() bool { return b.count(`SELECT count(*) FROM effects`) == 3 })
			b.idle("notification_relay_test", event.StreamProvisioning) // NATS delivers unacknowledged messages again after ackWait
			if got := b.count(`SELECT count(DISTINCT event_id) FROM effects`); got != 3 || b.count(`SELECT count(*) FROM effects`) != 3 {
				t.Errorf("effects of %d events", got)
			}
		})
	}
	if n != 3 {
		t.Errorf("%d points", n)
	}
}

// worker starts a process that consumes.
func (b *bundle) worker(env ...string) *exec.Cmd {
	b.t.Helper()
	cmd := killtest.Command(b.t.Context(), append(env, "CONSUME_TEST_DB="+b.db.Config().ConnString(), "CONSUME_TEST_NATS="+b.nats.URL())...)
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	return cmd
}
