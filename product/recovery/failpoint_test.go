//go:build failpoint

package recovery_test

import (
	"context"
	"os"
	"testing"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/failpoint/killtest"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/recovery"
)

// TestMain runs this binary as an operator who confirms, if it was started as one: only a process of its own can be killed.
func TestMain(m *testing.M) {
	killtest.Main(m, "RECOVERY_TEST_DB", func(ctx context.Context, url string) error {
		db, err := pg.Open(ctx, url, "test", 2)
		if err != nil {
			return err
		}
		defer db.Close()
		hints := &hint.Bus{}
		s := &recovery.Service{DB: db, Allocations: &allocation.Service{DB: db, Desired: &desired.Store{DB: db, Hints: hints}, Naming: ids.DefaultNaming, Hints: hints}}
		_, err = s.Confirm(ctx, recovery.Confirmation{By: "ada", WithoutNodes: []string{os.Getenv("RECOVERY_TEST_WITHOUT")}})
		return err
	})
}

// The command is killed before and after its commit. Before it nothing has changed; after it everything has, and a repetition has no
// effect.
func TestKilledConfirmation(t *testing.T) {
	t.Parallel()
	for point, confirmed := range map[string]int{"recovery.confirm.before_commit": 0, "recovery.confirm.after_commit": 1} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			r.reportFirst()
			child := killtest.New(t, point, "RECOVERY_TEST_DB="+r.after.DB.Config().ConnString(), "RECOVERY_TEST_WITHOUT=gpu-02")
			if out, killed := child.Run(t.Context(), t); !killed {
				t.Fatalf("not killed: %s", out)
			}
			for _, sql := range []string{
				`SELECT count(*) FROM restores WHERE confirmed_at IS NOT NULL`, `SELECT count(*) FROM restore_allocations`,
				`SELECT count(*) FROM allocations WHERE status = 'releasing'`, `SELECT count(*) FROM audit_logs WHERE action = 'restore.confirm'`,
			} {
				if n := r.count(sql); n != confirmed {
					t.Errorf("%d, want %d: %s", n, confirmed, sql)
				}
			}
			done, err := r.confirm("gpu-02")
			must(t, err)
			if done.Already != (confirmed == 1) {
				t.Errorf("confirmed again: %+v", done)
			}
			r.checkConfirmed()
		})
	}
}
