package revision_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func declare(kind desired.Kind, name, spec string) desired.Object {
	return desired.Object{Kind: kind, Name: name, Spec: []byte(spec), Source: desired.Source{Owner: desired.OwnerAPI}}
}

// claims are pairs of which only one may be declared, with the code and the field.
var claims = []struct {
	kind              desired.Kind
	spec, code, field string
}{
	{desired.KindPolicy, `{"key":"gitops.poll_seconds","scope":"platform","value":30}`, "policy_invalid", "spec.key"},
	{desired.KindOSImage, `{"default":true}`, "only_one", "spec.default"},
	{desired.KindStorageClass, `{"default":true}`, "only_one", "spec.default"},
	{desired.KindEnvironment, `{}`, "only_one", "kind"},
}

func from(source string, snap revision.Snapshot) revision.Snapshot {
	snap.Source, snap.Repository, snap.Objects = source, source, slices.Clone(snap.Objects)
	for i := range snap.Objects {
		snap.Objects[i].Source.Name, snap.Objects[i].Source.Repository = source, source
	}
	return snap
}

// A value that only one object may have is rejected the second time for every writer. The error has
// the place in the file, if there is one, and names the first object and its owner.
func TestOnlyOneSaysIt(t *testing.T) {
	t.Parallel()
	for _, c := range claims {
		t.Run(string(c.kind), func(t *testing.T) {
			t.Parallel()
			second := snapshot("c1", at(declare(c.kind, "second", c.spec), "second.cue", 7, 3))
			refused := func(b *bundle, holder string) {
				t.Helper()
				snap := from("other", second)
				rev := b.apply(snap)
				if rev.Status != revision.StatusInvalid || len(rev.Findings) != 1 {
					t.Fatalf("%s: %+v", rev.Status, rev.Findings)
				}
				f := rev.Findings[0]
				if f.Code != c.code || f.Field != c.field || f.Path != "second.cue" || f.Line != 7 || !strings.Contains(f.Message, string(c.kind)+"/first already, which "+holder) {
					t.Errorf("%+v", f)
				}
				d, err := b.Preview(b.ctx, b.db, snap)
				if err != nil || len(d.Foreign) != 1 || d.Foreign[0] != f {
					t.Errorf("previewed as %+v, %v", d.Foreign, err)
				}
			}
			b := on(t, pgtest.Clone(t)) // of its own: every claim acquires a global lock
			if err := b.put(declare(c.kind, "first", c.spec)); err != nil {
				t.Fatal(err)
			}
			refused(b, "the API owns")
			if err := b.put(declare(c.kind, "second", c.spec)); errs.CodeOf(err) != errs.SpecInvalid || !strings.Contains(err.Error(), "/first already, which the API owns") {
				t.Errorf("%v", err)
			}
			b = on(t, pgtest.Clone(t))
			b.apply(snapshot("c1", at(declare(c.kind, "first", c.spec), "first.cue", 2, 1)))
			refused(b, "the source "+repo+" declares at first.cue:2:1")
			err := pgx.BeginFunc(b.ctx, b.db, func(tx pgx.Tx) error {
				return b.PutAll(b.ctx, tx, []desired.Object{declare(c.kind, "second", c.spec)})
			})
			if errs.CodeOf(err) != errs.ManagedByGit {
				t.Errorf("%v", err)
			}
			// The same source may move it to another name at once.
			if rev := b.apply(snapshot("c2", second.Objects...)); counts(rev) != "applied 1: +1 ~0 -1" {
				t.Errorf("%s %+v", counts(rev), rev.Findings)
			}
		})
	}
}

// Of two transactions that write the value at the same time, one is rejected.
func TestOnlyOneOfTwoAtOnce(t *testing.T) {
	t.Parallel()
	b := on(t, pgtest.Clone(t))
	var all sync.WaitGroup
	refused := make(chan error, 2)
	for _, name := range []string{"a", "b"} {
		all.Go(func() {
			err := b.put(declare(desired.KindPolicy, name, claims[0].spec))
			refused <- err
		})
	}
	all.Wait()
	if one, other := <-refused, <-refused; (one == nil) == (other == nil) {
		t.Errorf("%v and %v", one, other)
	}
}
