package revision_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

const repo = "git://fleet"

// caps let a tenth go, and always one.
func caps(_ context.Context, _ pgx.Tx, d revision.Difference) (v revision.Verdict, err error) {
	if allowed := max(1, d.Had()/10); len(d.Deleted) > allowed {
		v.Waits = append(v.Waits, revision.Wait{Reason: "prune_cap", Message: fmt.Sprintf("removes %d of %d objects", len(d.Deleted), d.Had())})
	}
	return v, nil
}

func at(o desired.Object, path string, line, column int) desired.Object {
	o.Source = desired.Source{Owner: desired.OwnerGit, Name: repo, Repository: repo, Path: path, Line: line, Column: column}
	return o
}

func snapshot(commit string, objects ...desired.Object) revision.Snapshot {
	s := revision.Snapshot{Source: repo, Repository: repo, Commit: commit, TreeHash: "tree-" + commit}
	for _, o := range objects {
		if o.Source.Path == "" {
			o = at(o, o.Name+".cue", 1, 1)
		}
		s.Objects = append(s.Objects, o)
	}
	return s
}

func (b *bundle) apply(s revision.Snapshot) revision.Revision {
	b.t.Helper()
	rev, err := b.Apply(b.ctx, s, caps)
	if err != nil {
		b.t.Fatal(err)
	}
	return rev
}

func counts(r revision.Revision) string {
	return fmt.Sprintf("%s %d: +%d ~%d -%d", r.Status, r.Objects, r.Created, r.Changed, r.Deleted)
}

// many is n objects, of which the spec of some differs.
func many(n int, change map[int]string) (list []desired.Object) {
	for i := range n {
		spec := `{"n":1}`
		if s, ok := change[i]; ok {
			spec = s
		}
		list = append(list, sku(fmt.Sprintf("s%02d", i), spec))
	}
	return list
}

// A source's life: what each revision counts, and what it marks.
func TestApply(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct {
		snap      revision.Snapshot
		want, due string
	}{
		{snapshot("c1", many(3, nil)...), "applied 3: +3 ~0 -0", "SKU revision applied, SKU revision applied, SKU revision applied"},
		{snapshot("c2", many(3, map[int]string{1: `{"n":2}`})...), "applied 3: +0 ~1 -0", "SKU revision applied"},
		{snapshot("c3", many(2, map[int]string{1: `{"n":2}`})...), "applied 2: +0 ~0 -1", "SKU removed by a revision"},
		{snapshot("c4", many(2, map[int]string{1: `{"n":2}`})...), "applied 2: +0 ~0 -0", ""},
		{snapshot("c5", many(3, map[int]string{1: `{"n":2}`})...), "applied 3: +1 ~0 -0", "SKU revision applied"},
	} {
		b.unmark()
		rev := b.apply(c.snap)
		if got := counts(rev); got != c.want || b.due() != c.due {
			t.Errorf("%s: %s, due %s", c.snap.Commit, got, b.due())
		}
		p, err := b.Pointer(b.ctx, repo)
		if err != nil || p.Commit != c.snap.Commit || p.TreeHash != c.snap.TreeHash || p.Revision != rev.Revision {
			t.Errorf("%s: the pointer is at %+v, %v", c.snap.Commit, p, err)
		}
	}
	// Declared, removed, declared again: the same object, higher than before.
	o, err := b.Get(b.ctx, desired.KindSKU, "", "s02")
	if err != nil || o.Generation != 3 || o.DeletedAt != nil {
		t.Errorf("revived: %+v, %v", o, err)
	}
	revisions, err := b.Revisions(b.ctx, revision.RevisionFilter{}, 0, 3)
	if err != nil || len(revisions) != 3 || revisions[0].Commit != "c5" {
		t.Errorf("%+v, %v", revisions, err)
	}
	if older, err := b.Revisions(b.ctx, revision.RevisionFilter{}, revisions[2].Revision, 10); err != nil || len(older) != 2 || older[1].Commit != "c1" {
		t.Errorf("%+v, %v", older, err)
	}
}

// INV-16: an applied tree writes nothing, not even a row about it.
func TestINV16AppliedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.apply(snapshot("c1", many(3, nil)...))
	diff := pgtest.Diff(t, b.db)
	again := b.apply(snapshot("c1", many(3, nil)...))
	if left := diff(); left != "" || again.Revision != first.Revision {
		t.Errorf("revision %d after %d wrote\n%s", again.Revision, first.Revision, left)
	}
}

// Labels and the position in the file are updated without a new generation.
func TestApplyLabelsOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.apply(snapshot("c1", at(sku("h100", `{}`), "a.cue", 1, 1)))
	o := at(sku("h100", `{}`), "b.cue", 7, 3)
	o.Labels = map[string]string{"team": "a"}
	rev := b.apply(snapshot("c2", o))
	got, err := b.Get(b.ctx, desired.KindSKU, "", "h100")
	if err != nil || counts(rev) != "applied 1: +0 ~1 -0" || got.Generation != 1 || got.ResourceVersion != 2 || got.Labels["team"] != "a" || got.Source.String() != "b.cue:7:3" || got.Source.Commit != "c2" {
		t.Errorf("%s: %+v, %v", counts(rev), got, err)
	}
}

// INV-10 and INV-11: a fault in the last object leaves nothing of the others.
func TestINV11AllOrNothing(t *testing.T) {
	t.Parallel()
	b := on(t, pgtest.Clone(t))
	b.apply(snapshot("c1", many(20, nil)...))
	b.unmark()
	broken := many(500, map[int]string{0: `{"n":9}`})
	broken[499].Spec = []byte(`{"n":`)
	diff := pgtest.Diff(t, b.db)
	if _, err := b.Apply(b.ctx, snapshot("c2", broken...), caps); err == nil || diff() != "" {
		t.Errorf("%v\n%s", err, diff())
	}
	ctx, cancel := context.WithCancel(b.ctx)
	stop := func(context.Context, pgx.Tx, revision.Difference) (revision.Verdict, error) {
		cancel() // the server dies between reading and writing
		return revision.Verdict{}, nil
	}
	if _, err := b.Apply(ctx, snapshot("c2", many(19, map[int]string{0: `{"n":9}`})...), stop); err == nil || diff() != "" {
		t.Errorf("%v\n%s", err, diff())
	}
}

// INV-13: an empty tree is an accident, and so is the loss of many objects.
func TestINV13Prune(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.apply(snapshot("c1", many(40, nil)...))
	b.unmark()
	diff := pgtest.Diff(t, b.db, pgtest.Without("desired_revisions"))
	for name, snap := range map[string]revision.Snapshot{"empty": snapshot("c2"), "empty, other source": {Source: "other", Commit: "c2"}, "emptied": {Source: repo, Commit: "c2", Base: "tree-c1"}} {
		for _, gate := range []revision.Gate{caps, nil} {
			if _, err := b.Apply(b.ctx, snap, gate); errs.CodeOf(err) != errs.SpecInvalid {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	rev := b.apply(snapshot("c2", many(35, map[int]string{0: `{"n":9}`})...))
	if counts(rev) != "waiting_approval 35: +0 ~1 -5" || len(rev.Waits) != 1 || rev.Waits[0].Message != "removes 5 of 40 objects" {
		t.Errorf("%s %+v", counts(rev), rev.Waits)
	}
	if left := diff(); left != "" {
		t.Errorf("rejected, and changed\n%s", left)
	}
	if rev := b.apply(snapshot("c3", many(36, nil)...)); counts(rev) != "applied 36: +0 ~0 -4" {
		t.Errorf("within the cap: %s", counts(rev))
	}
	b.apply(revision.Snapshot{Source: "made up", Commit: "x", Generated: true}) // generated, so no accident
}

// INV-13: the gate decides about the deletions inside the transaction.
func TestINV13Gate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.apply(snapshot("c1", many(20, nil)...))
	b.unmark()
	diff := pgtest.Diff(t, b.db, pgtest.Without("desired_revisions"))
	asked := ""
	gate := func(_ context.Context, _ pgx.Tx, d revision.Difference) (revision.Verdict, error) {
		for _, o := range d.Deleted {
			asked += o.Name
		}
		return revision.Verdict{Waits: []revision.Wait{{Reason: "under_allocations", Message: asked + " is in use"}}}, nil
	}
	rev, err := b.Apply(b.ctx, snapshot("c2", many(19, nil)...), gate)
	if err != nil || rev.Status != "waiting_approval" || asked != "s19" || diff() != "" {
		t.Errorf("%s, requested %q, %v\n%s", counts(rev), asked, err, diff())
	}
	gate = func(context.Context, pgx.Tx, revision.Difference) (revision.Verdict, error) {
		return revision.Verdict{}, errors.New("broken")
	}
	if _, err := b.Apply(b.ctx, snapshot("c2", many(19, nil)...), gate); err == nil || diff() != "" {
		t.Errorf("the gate broke: %v\n%s", err, diff())
	}
}

// INV-14: an object of the API is not adopted without an offer, and the finding is in the author's
// own file.
func TestINV14ManagedByAPI(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if err := b.put(sku("mine", `{}`)); err != nil {
		t.Fatal(err)
	}
	b.unmark()
	diff := pgtest.Diff(t, b.db, pgtest.Without("desired_revisions"))
	rev := b.apply(snapshot("c1", sku("other", `{}`), at(sku("mine", `{"n":1}`), "x.cue", 4, 2)))
	if len(rev.Findings) != 1 || rev.Status != "invalid" || diff() != "" {
		t.Fatalf("%s %+v\n%s", counts(rev), rev.Findings, diff())
	}
	if want := "x.cue:4:2: SKU/mine: is managed by the API (managed_by_api) (expected a name that is free, or the object adopted by this source first)"; rev.Findings[0].String() != want {
		t.Error(rev.Findings[0])
	}
	// The same name of another kind is another object.
	role := at(desired.Object{Kind: desired.KindRole, Name: "mine", Spec: []byte(`{}`)}, "x.cue", 9, 1)
	if rev := b.apply(snapshot("c2", role)); counts(rev) != "applied 1: +1 ~0 -0" {
		t.Errorf("%s %+v", counts(rev), rev.Findings)
	}
}

// Replicas that see one commit at once apply it once.
func TestTwoReplicasApplyOnce(t *testing.T) {
	t.Parallel()
	b := on(t, pgtest.Clone(t))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := b.Apply(b.ctx, snapshot("c1", many(30, nil)...), caps); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	revisions, err := b.Revisions(b.ctx, revision.RevisionFilter{}, 0, 10)
	if err != nil || len(revisions) != 1 || counts(revisions[0]) != "applied 30: +30 ~0 -0" {
		t.Errorf("%+v, %v", revisions, err)
	}
}

// An invalid commit is stored with its findings; the last valid one stays applied.
func TestRejectKeepsThePointer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := b.Pointer(b.ctx, repo); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("before anything was applied: %v", err)
	}
	b.apply(snapshot("c1", many(3, nil)...))
	b.unmark()
	diff := pgtest.Diff(t, b.db, pgtest.Without("desired_revisions"))
	rev, err := b.Reject(b.ctx, revision.Snapshot{Source: repo, Commit: "c2", TreeHash: "t"}, []desired.Finding{{Path: "a.cue", Line: 3, Column: 1, Message: "no"}})
	if err != nil || rev.Status != "invalid" || rev.Revision == 0 || diff() != "" {
		t.Errorf("%+v, %v\n%s", rev, err, diff())
	}
	list, err := b.Revisions(b.ctx, revision.RevisionFilter{}, 0, 1)
	if err != nil || list[0].Findings[0].String() != "a.cue:3:1: no" {
		t.Errorf("%+v, %v", list, err)
	}
}
