package jobs_test

import (
	"testing"

	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/jobs"
)

// A job seals every account with entries, however few, and a second job seals nothing more. While a
// posting stays open, the job runs again later.
func TestSealLedger(t *testing.T) {
	t.Parallel()
	b := setup(t)
	post, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = post.Rollback(t.Context()) }()
	if err := b.Ledger.TestCredit(t.Context(), post, b.Caller.Tenant, 5, "slow"); err != nil {
		t.Fatal(err)
	}
	later, stop := b.client.Subscribe(river.EventKindJobSnoozed)
	defer stop()
	if _, err := b.client.Insert(t.Context(), jobs.SealLedger{}, nil); err != nil {
		t.Fatal(err)
	}
	if e := <-later; e.Job.Kind != "seal_ledger" || b.count(`SELECT count(*) FROM ledger_checkpoints`) != 0 {
		t.Errorf("with an open posting: %+v", e.Job)
	}
	if err := post.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.exec(`DELETE FROM river.river_job`)
	b.done(jobs.SealLedger{})
	b.nothing("all is sealed", jobs.SealLedger{})
	r, err := b.Ledger.Verify(t.Context(), ids.Tenant{})
	if n, _ := r.Unsealed(); err != nil || !r.OK() || n != 0 || b.count(`SELECT count(*) FROM ledger_checkpoints`) != 2 {
		t.Errorf("%d not sealed, %+v, %v", n, r, err)
	}
}
