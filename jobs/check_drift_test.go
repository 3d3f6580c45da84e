package jobs_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/reconciler"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// loop returns a control loop that plans for the workers of the bundle.
func (b *bundle) loop() *reconciler.Loop {
	limits := reconciler.Limits{
		Limits:  plan.Limits{Deadlines: plan.Deadlines{Provision: time.Hour, Release: time.Hour}, ProvisionAttempts: 3, ReleaseAttempts: 3, RetryAfter: time.Minute, Drift: b.deps.DriftRules()},
		Enabled: true, SweepEvery: time.Hour, MassReleases: 10, MassNodes: 2, MassPercent: 5,
	}
	return &reconciler.Loop{
		DB: b.DB, Jobs: b.client, Desired: b.deps.Desired.Store, Hints: b.deps.Hints, Limits: func() reconciler.Limits { return limits }, Naming: ids.DefaultNaming,
		Log: slog.New(slog.DiscardHandler),
	}
}

// finish plans, and waits for the work of the plan to be done.
func (b *bundle) finish() {
	b.t.Helper()
	if _, err := b.loop().Pass(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if b.count(`SELECT count(*) FROM river.river_job WHERE finalized_at IS NULL`) == 0 {
			return
		}
	}
	b.t.Fatal("the jobs of a plan do not end")
}

// drifts lists open drift: field, both values, status, and the responsible actor.
func (b *bundle) drifts() string {
	b.t.Helper()
	list, err := (&reconciler.History{DB: b.DB}).Drifts(b.t.Context(), reconciler.DriftFilter{Limit: 100})
	if err != nil {
		b.t.Fatal(err)
	}
	text := ""
	for _, d := range list {
		text += fmt.Sprintf("%s %s: %s, not %s; %s, %s\n", d.Kind, d.Field, d.Observed, d.Desired, d.Status, d.Owner)
	}
	return text
}

var driftCases = map[desired.Kind]struct{ spec, edit, back, drift string }{
	desired.KindSKU: {
		`{"displayName":"A","gpuModel":"A100","memoryGiB":40,"isolation":"host_user","maxGPUs":4,"active":true,"price":{"currency":"EUR","amountMinor":5}}`,
		`UPDATE sku_prices SET amount_minor = 1 WHERE sku = 'o'`, `SELECT count(*) FROM (SELECT amount_minor FROM sku_prices WHERE sku = 'o' ORDER BY valid_from DESC LIMIT 1) p WHERE amount_minor = 5`,
		"SKU spec.price.amountMinor: 1, not 5",
	},
	desired.KindOSImage: {
		`{"displayName":"U","digest":"sha256:00","default":false}`,
		`UPDATE os_images SET spec = spec || '{"digest": "sha256:66"}' WHERE name = 'o'`, `SELECT count(*) FROM os_images WHERE spec->>'digest' = 'sha256:00'`, "OSImage spec.digest: sha256:66, not sha256:00",
	},
	desired.KindStorageClass: {
		`{"displayName":"S","price":{"currency":"EUR","amountMinor":3},"freeGiB":5,"retentionDays":14,"default":false}`,
		`UPDATE storage_classes SET spec = spec || '{"freeGiB": 9}' WHERE name = 'o'`, `SELECT count(*) FROM storage_classes WHERE (spec->>'freeGiB')::int = 5`, "StorageClass spec.freeGiB: 9, not 5",
	},
	desired.KindNode: {
		`{"sku":"h100","region":"eu1","onboarding":"manual","gpus":2,"cordoned":true}`,
		`UPDATE nodes SET spec = spec || '{"cordoned": false}' WHERE name = 'o'`, `SELECT count(*) FROM nodes WHERE name = 'o' AND cordoned`, "Node spec.cordoned: false, not true",
	},
	desired.KindPolicy: {
		`{"key":"allocation.max_concurrent_per_user","scope":"platform","value":3}`,
		`UPDATE policy_values SET value = '300' WHERE key = 'allocation.max_concurrent_per_user'`, `SELECT count(*) FROM policy_values WHERE value = '3'`, "Policy spec.value: 300, not 3",
	},
}

// INV-17: a row that was edited by hand is drift with both values. Under the rule "heal" it is
// corrected, and the finding closes with the action that corrected it.
func TestINV17EditedRowsAreHealed(t *testing.T) {
	t.Parallel()
	for kind, c := range driftCases {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.done(b.declare(kind, "o", c.spec))
			b.finish()
			rest := pgtest.Diff(t, b.DB, pgtest.Without("river.river_job"))
			b.done(jobs.CheckDrift{})
			if left := rest(); left != "" {
				t.Fatalf("INV-16: nothing differs, and it wrote\n%s", left)
			}
			b.exec(c.edit)
			b.twice(jobs.CheckDrift{})
			if got := b.drifts(); got != c.drift+"; open, platform\n" {
				t.Fatalf("found %q", got)
			}
			b.finish()
			if b.count(c.back) != 1 {
				t.Errorf("is not as desired again")
			}
			if got := b.drifts(); got != c.drift+"; healed, platform\n" {
				t.Errorf("healed %q", got)
			}
			b.done(jobs.CheckDrift{})
			b.finish()
			if got := b.count(`SELECT count(*) FROM outbox_events WHERE subject LIKE 'fleet.drift%'`); got != 2 {
				t.Errorf("%d facts", got)
			}
		})
	}
}

// Under warn it stays, and is written down once; a person who edits it back closes it.
func TestEditedRowsAreReported(t *testing.T) {
	t.Parallel()
	for kind, c := range driftCases {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.deps.DriftRules = func() map[desired.Kind]plan.Rule { return map[desired.Kind]plan.Rule{kind: plan.Warn} }
			args := b.declare(kind, "o", c.spec)
			b.done(args)
			b.finish()
			b.exec(c.edit)
			b.done(jobs.CheckDrift{})
			b.finish()
			rest := pgtest.Diff(t, b.DB, pgtest.Without("river.river_job"))
			b.done(jobs.CheckDrift{})
			b.finish()
			if left := rest(); left != "" {
				t.Errorf("INV-16: it is written already, and more came\n%s", left)
			}
			if got := b.drifts(); got != c.drift+"; open, operator\n" {
				t.Errorf("found %q", got)
			}
			b.done(args) // the job that applied it again has closed it
			if got := b.drifts(); got != c.drift+"; healed, operator\n" {
				t.Errorf("closed %q", got)
			}
		})
	}
}

// A deleted row is created again.
func TestINV17DeletedRowsAreHealed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.done(b.declare(desired.KindPolicy, "o", driftCases[desired.KindPolicy].spec))
	b.done(b.declare(desired.KindOSImage, "o", driftCases[desired.KindOSImage].spec))
	b.finish()
	b.exec(`DELETE FROM policy_values`)
	b.exec(`UPDATE os_images SET retired_at = now()`)
	b.done(jobs.CheckDrift{})
	if got := b.drifts(); strings.Count(got, "spec: absent, not as desired; open") != 2 {
		t.Errorf("found %q", got)
	}
	b.finish()
	if b.count(`SELECT count(*) FROM policy_values`) != 1 || b.count(`SELECT count(*) FROM os_images WHERE retired_at IS NULL AND name = 'o'`) != 1 {
		t.Errorf("not there again: %s", b.drifts())
	}
}

// Two objects that define one setting would heal each other for ever. Validation rejects such a
// pair now; the test inserts the rows of an older database.
func TestTwoDeclarationsOfOnePolicy(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.done(b.declare(desired.KindPolicy, "one", `{"key":"allocation.max_concurrent_per_user","scope":"platform","value":3}`))
	b.done(b.declare(desired.KindPolicy, "two", `{"key":"allocation.max_concurrent_per_project","scope":"platform","value":4}`))
	b.exec(`UPDATE desired_objects SET spec = spec || '{"key":"allocation.max_concurrent_per_user"}' WHERE name = 'two'`)
	b.done(b.declare(desired.KindOSImage, "one", `{"displayName":"U","digest":"sha256:00","default":true}`))
	b.done(b.declare(desired.KindOSImage, "two", `{"displayName":"U","digest":"sha256:01","default":false}`))
	b.exec(`UPDATE desired_objects SET spec = spec || '{"default":true}' WHERE kind = 'OSImage' AND name = 'two'`)
	b.done(jobs.CheckDrift{})
	if got := b.drifts(); got != "" {
		t.Errorf("found %q", got)
	}
}

// An object that is not applied yet is no drift.
func TestWhatIsOnItsWayIsNoDrift(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.done(b.declare(desired.KindOSImage, "o", `{"displayName":"U","digest":"sha256:00","default":false}`))
	b.exec(`UPDATE desired_objects SET spec = '{"displayName":"V","digest":"sha256:00","default":false}', spec_hash = 'x', generation = 2 WHERE kind = 'OSImage'`)
	b.declare(desired.KindOSImage, "never", `{"displayName":"U","digest":"sha256:01","default":false}`)
	b.done(jobs.CheckDrift{})
	if got := b.drifts(); got != "" {
		t.Errorf("found %q", got)
	}
}
