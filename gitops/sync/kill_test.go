//go:build failpoint

package sync_test

import (
	"context"
	"fmt"
	"github.com/gpuaas/gpuaas/policies"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/gitops/change"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/gitops/source"
	"github.com/gpuaas/gpuaas/gitops/sync"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/failpoint/killtest"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

func init() { step = pollOnce }

// pollOnce is a server that polls its source once. It is a process of its own, because only a
// process can be killed.
func pollOnce(ctx context.Context) error {
	db, err := pg.Open(ctx, os.Getenv("FOLLOW_TEST_DB"), "test", 4)
	if err != nil {
		return err
	}
	defer db.Close()
	repository, err := source.Open(os.Getenv("FOLLOW_TEST_REPO"), "main", "fleet")
	if err != nil {
		return err
	}
	hints := &hint.Bus{}
	store := &revision.Store{Store: &desired.Store{DB: db, Hints: hints}}
	changes := &change.Service{
		Roles: func() policies.RoleTable { return policies.RoleTable{} },
		DB:    db, Desired: store, Gather: (&inputs{}).Inputs, Naming: ids.DefaultNaming, Hints: hints, Validate: validate.Run,
		Rules: func() preview.Rules { return preview.Rules{PruneObjects: 100, PrunePercent: 100} },
	}
	f := &sync.Syncer{
		Desired: store, Change: changes, Root: sync.Root{Name: "fleet", Git: repository}, Environment: "prod", Naming: ids.DefaultNaming, Hints: hints,
		Rules: func() sync.Rules { return sync.Rules{Limits: source.DefaultLimits()} }, Log: slog.New(slog.DiscardHandler),
	}
	store.Record = f.Record
	_, err = f.Sync(ctx)
	return err
}

// INV-10: after a kill at any point of an apply, the old or the new revision is complete. The next
// poll applies the new one and emits its event once.
func TestKillAtEveryPointOfAnApply(t *testing.T) {
	t.Parallel()
	n := 0
	for _, point := range failpoint.Points {
		if strings.HasPrefix(point, "git.apply.") {
			n++
			t.Run(point, func(t *testing.T) {
				t.Parallel()
				killed(t, point)
			})
		}
	}
	if n < 6 {
		t.Errorf("only %d points", n)
	}
}

func killed(t *testing.T, point string) {
	t.Helper()
	h := setup(t)
	child := killtest.New(t, "", "FOLLOW_TEST_DB="+h.db.Config().ConnString(), "FOLLOW_TEST_REPO="+h.repo.path)
	look := func(arm bool) (dead bool) {
		if child.Point = ""; arm {
			child.Point = point
		}
		_, dead = child.Run(t.Context(), t)
		return dead
	}
	first := h.repo.commit(skus(10, 1))
	look(false)
	last := h.repo.commit(with(without(skus(10, 2), "s003.yaml"), "new.yaml", sku("new", 2)))
	if look(false); !h.approveSensitive() {
		t.Fatal("a new price did not wait for a second person")
	}
	if !look(true) {
		t.Fatal("it was not killed")
	}
	commit := h.text(`SELECT commit FROM desired_pointer`)
	old := "10 1" // SKUs and price
	if commit == last {
		old = "10 2"
	} else if commit != first {
		t.Errorf("the pointer is at %s", commit)
	}
	const whole = `SELECT count(*) || ' ' || string_agg(DISTINCT spec->>'memoryGiB', ',') FROM desired_objects WHERE kind = 'SKU' AND deleted_at IS NULL`
	if got := h.text(whole); got != old {
		t.Errorf("at commit %s there are %s, want %s", commit, got, old)
	}
	for range 2 {
		if look(true) {
			t.Error("killed twice")
		}
	}
	if got := h.text(whole); got != "10 2" || h.text(`SELECT commit FROM desired_pointer`) != last {
		t.Errorf("in the end there are %s", got)
	}
	for sql, want := range map[string]string{
		`SELECT count(*)::text FROM desired_revisions WHERE status = 'applied'`:                     "2",
		`SELECT count(*)::text FROM outbox_events WHERE subject = 'fleet.revision_applied'`:         "2",
		`SELECT count(*)::text FROM audit_logs WHERE action = 'revision.apply'`:                     "2",
		`SELECT count(*)::text FROM plans WHERE origin = 'change' AND status = 'applied'`:           "2",
		`SELECT count(*)::text FROM desired_objects WHERE name = 's003' AND deleted_at IS NOT NULL`: "1",
	} {
		if got := h.text(sql); got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
	if text, err := os.ReadFile(child.Hits); err != nil || strings.TrimSpace(string(text)) != point {
		t.Error(fmt.Errorf("killed at %q: %w", text, err))
	}
}
