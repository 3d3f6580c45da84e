package change_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/change"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
)

func TestProposeAndApply(t *testing.T) {
	t.Parallel()
	b := setup(t)
	files := docs(sku("h100", 249), node("n1", "h100"))
	p := b.proposed(b.ada, files)
	if p.Status != change.StatusProposed || p.Plan.Creates != 2 || p.Author != "ada@example.com" || p.Plan.Hash != p.Hash || p.Hash == "" {
		t.Errorf("%+v", p)
	}
	if again := b.proposed(b.bob, files); again.ID != p.ID || again.Author != p.Author {
		t.Errorf("the same change is %s and %s", p.ID, again.ID)
	}
	if n := b.text(`SELECT count(*)::text FROM desired_objects`); n != "0" {
		t.Errorf("proposing declared %s objects", n)
	}
	wantCode(t, "another hash", second(b.Apply(b.ctx, by[change.Stored](b.ada), p.ID, "0000")), errs.PlanStale)
	applied, err := b.Apply(b.ctx, by[change.Stored](b.ada), p.ID, p.Hash)
	if err != nil || applied.Status != change.StatusApplied || applied.AppliedAt == nil {
		t.Fatalf("%+v, %v", applied, err)
	}
	wantCode(t, "applied twice", second(b.Apply(b.ctx, by[change.Stored](b.ada), p.ID, p.Hash)), errs.Conflict)
	if got := b.text(`SELECT string_agg(kind || '/' || name || ' ' || owner || ' ' || generation, ', ' ORDER BY kind) FROM desired_objects`); got != "Node/n1 api 1, SKU/h100 api 1" {
		t.Error(got)
	}
	if due := b.text(`SELECT count(*)::text FROM reconcile_due`); due != "2" {
		t.Errorf("%s are due", due)
	}
	// One that names what is declared already, and one that changes nothing else.
	p = b.proposed(b.ada, docs(node("n2", "h100"), node("n1", "h100")))
	if p.Plan.Creates != 1 || p.Plan.Changes != 0 || p.Plan.Objects != 2 {
		t.Errorf("%+v", p.Plan)
	}
	if b.audited() != "plan.propose, plan.propose, plan.apply, plan.propose" {
		t.Error(b.audited())
	}
	list, err := b.Plans(b.ctx, change.Filter{Limit: 10})
	if err != nil || len(list) != 2 || list[0].ID != p.ID || list[1].Status != change.StatusApplied {
		t.Errorf("%+v, %v", list, err)
	}
	if older, err := b.Plans(b.ctx, change.Filter{Before: p.ID, Status: change.StatusApplied, Limit: 10}); err != nil || len(older) != 1 {
		t.Errorf("%+v, %v", older, err)
	}
	wantCode(t, "an unknown plan", second(b.Plan(b.ctx, ids.New[ids.Plan]())), errs.NotFound)
}

func second[T any](_ T, err error) error { return err }

func TestProposeRejects(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.source()
	for name, c := range map[string]struct {
		source, files string
		want          errs.Code
	}{
		"a fault":                        {files: sku("h100", -1), want: errs.SpecInvalid},
		"nothing":                        {files: "", want: errs.SpecInvalid},
		"a SKU that is nowhere":          {files: node("n1", "nowhere"), want: errs.SpecInvalid},
		"a source that is nowhere":       {source: "nowhere", files: sku("h100", 1), want: errs.NotFound},
		"a source is a whole of its own": {source: "fleet", files: node("n1", "nowhere"), want: errs.SpecInvalid},
	} {
		_, err := b.Propose(b.ctx, by[change.Stored](b.ada), change.Request{Source: c.source, Files: map[string][]byte{"a.yaml": []byte(c.files)}})
		wantCode(t, name, err, c.want)
	}
	b.exec(`UPDATE git_sources SET dirs = '{environments/dev}'`)
	for name, c := range map[string]struct{ source, file, want string }{
		"out of the tree":          {file: "../../x.yaml", want: "points elsewhere"},
		"from the root":            {file: "/etc/x.yaml", want: "points elsewhere"},
		"repaints a terminal":      {file: "a/\x1b[31m.yaml", want: "control characters"},
		"not where the source is":  {source: "fleet", file: "elsewhere/a.yaml", want: "is in environments/dev, the folder of source fleet"},
		"called as the other ones": {file: `declared\beside.json`, want: "points elsewhere"},
	} {
		_, err := b.Propose(b.ctx, by[change.Stored](b.ada), change.Request{Source: c.source, Files: map[string][]byte{c.file: []byte(sku("h100", 1))}})
		wantCode(t, name, err, errs.SpecInvalid)
		if err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b.audited() != "" {
		t.Error(b.audited())
	}
}

// INV-14: a plan for objects of Git can be previewed, and is never applied here.
func TestINV14GitOwns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.source()
	b.git(skuObject("h100", 249))
	p := b.proposed(b.ada, docs(sku("h100", 250), sku("a100", 1)))
	if len(p.Plan.Findings) != 1 || !strings.Contains(p.Plan.Findings[0].Message, "fleet.yaml:1:1") {
		t.Errorf("%+v", p.Plan.Findings)
	}
	diff := pgtest.Diff(t, b.db)
	wantCode(t, "applied", second(b.Apply(b.ctx, by[change.Stored](b.bob), p.ID, p.Hash)), errs.ManagedByGit)
	wantCode(t, "approved", second(b.Approve(b.ctx, by[change.Stored](b.bob), p.ID, p.Hash, "")), errs.Conflict)
	if left := diff(); left != "" {
		t.Error(left)
	}
	// What prevented those files prevents no others.
	if p := b.proposed(b.ada, sku("a100", 1)); len(p.Plan.Findings) != 0 || second(b.Apply(b.ctx, by[change.Stored](b.bob), p.ID, p.Hash)) != nil {
		t.Errorf("%+v", p.Plan)
	}
	// The same as what Git declares is no write.
	if p := b.proposed(b.ada, sku("h100", 249)); !p.Plan.Empty() || len(p.Plan.Findings) != 0 {
		t.Errorf("%+v", p.Plan)
	}
	// A plan of the source is merged, and not applied.
	p, err := b.Propose(b.ctx, by[change.Stored](b.ada), change.Request{Source: "fleet", Commit: "c2c2c2c", Files: map[string][]byte{"fleet.yaml": []byte(sku("h100", 250))}})
	if err != nil || p.Plan.Changes != 1 || p.Plan.Base != "c1" {
		t.Fatalf("%+v, %v", p.Plan, err)
	}
	wantCode(t, "applied outside Git", second(b.Apply(b.ctx, by[change.Stored](b.bob), p.ID, p.Hash)), errs.Conflict)
}

// A plan that was applied or rejected once may be requested again.
func TestProposedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	files := sku("h100", 249)
	first := b.proposed(b.ada, files)
	if err := second(b.Apply(b.ctx, by[change.Stored](b.ada), first.ID, first.Hash)); err != nil {
		t.Fatal(err)
	}
	if err := second(b.Delete(b.ctx, by[desired.Object](b.ada), desired.Name{Kind: desired.KindSKU, Name: "h100"}, 0)); err != nil {
		t.Fatal(err)
	}
	again := b.proposed(b.ada, files)
	if again.ID == first.ID || again.Status != change.StatusProposed {
		t.Errorf("%+v", again)
	}
	if err := second(b.Reject(b.ctx, by[change.Stored](b.bob), again.ID, again.Hash, "not now")); err != nil {
		t.Fatal(err)
	}
	third := b.proposed(b.ada, files)
	if err := second(b.Apply(b.ctx, by[change.Stored](b.ada), third.ID, third.Hash)); err != nil {
		t.Error(err)
	}
}

// A stale plan is rejected with its differences and stays stale.
func TestStalePlans(t *testing.T) {
	t.Parallel()
	lives := preview.Allocation{ID: ids.Allocation{UUID: uuid.UUID{15: 9}}, SKU: "h100"}
	for name, c := range map[string]struct {
		meanwhile func(*bundle)
		want      []string
	}{
		"another write": {func(b *bundle) {
			b.exec(`UPDATE desired_objects SET generation = 2, resource_version = 2, spec_hash = 'x' WHERE kind = 'Node'`)
		}, []string{"Node/n1: generation 2, was 1"}},
		"a label": {func(b *bundle) {
			b.exec(`UPDATE desired_objects SET resource_version = 2, labels = '{"a": "b"}' WHERE kind = 'Node'`)
		}, []string{"Node/n1: version 2, was 1"}},
		"an allocation starts on it": {func(b *bundle) {
			id := ids.Node{UUID: uuid.MustParse(b.text(`SELECT uid::text FROM desired_objects WHERE kind = 'Node'`))}
			here := lives
			here.Node = id
			b.setInputs(preview.Inputs{Nodes: []preview.Node{{ID: id, Name: "n1"}}, Allocations: []preview.Allocation{here}})
		}, []string{"allocation " + lives.ID.String() + " started on n1"}},
		"another operator deletes it": {func(b *bundle) { b.exec(`UPDATE desired_objects SET deleted_at = now() WHERE kind = 'Node'`) }, []string{"Node/n1 was at generation 1, and is not changed by this any more"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			first := b.proposed(b.ada, docs(sku("h100", 249), sku("a100", 99), node("n1", "h100")))
			if _, err := b.Apply(b.ctx, by[change.Stored](b.ada), first.ID, first.Hash); err != nil {
				t.Fatal(err)
			}
			p := b.proposed(b.ada, docs(sku("h100", 249), sku("a100", 99), node("n1", "a100")))
			c.meanwhile(b)
			for what, do := range map[string]func() error{
				"apply":   func() error { return second(b.Apply(b.ctx, by[change.Stored](b.bob), p.ID, p.Hash)) },
				"approve": func() error { return second(b.Approve(b.ctx, by[change.Stored](b.bob), p.ID, p.Hash, "")) },
			} {
				b.exec(`UPDATE plans SET status = 'proposed' WHERE id = $1`, p.ID)
				err := do()
				if got := moved(err); !slices.Equal(got, c.want) {
					t.Errorf("%s: %q, %v", what, got, err)
				}
				if now, err := b.Plan(b.ctx, p.ID); err != nil || now.Status != change.StatusStale {
					t.Errorf("after %s it is %s, %v", what, now.Status, err)
				}
			}
			wantCode(t, "stale already", second(b.Apply(b.ctx, by[change.Stored](b.bob), p.ID, p.Hash)), errs.Conflict)
			if sku := b.text(`SELECT spec->>'sku' FROM desired_objects WHERE kind = 'Node'`); sku != "h100" {
				t.Errorf("it was applied: %s", sku)
			}
		})
	}
}

// What moved back is the same plan again.
func TestStaleAndBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.proposed(b.ada, sku("h100", 249))
	b.exec(`UPDATE plans SET status = 'stale'`)
	if again := b.proposed(b.ada, sku("h100", 249)); again.ID != p.ID || again.Status != change.StatusProposed {
		t.Errorf("%+v", again)
	}
}

// waiting returns a plan that reslices a node with live allocations.
func (b *bundle) waiting() change.Stored {
	b.t.Helper()
	first := b.proposed(b.ada, docs(sku("h100", 249), sku("a100", 99), node("n1", "h100")))
	if _, err := b.Apply(b.ctx, by[change.Stored](b.ada), first.ID, first.Hash); err != nil {
		b.t.Fatal(err)
	}
	id := ids.Node{UUID: uuid.MustParse(b.text(`SELECT uid::text FROM desired_objects WHERE kind = 'Node'`))}
	b.setInputs(preview.Inputs{Nodes: []preview.Node{{ID: id, Name: "n1", Held: 1}}})
	return b.proposed(b.ada, docs(sku("h100", 249), sku("a100", 99), node("n1", "a100")))
}

func TestAnotherPersonApproves(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.waiting()
	wantCode(t, "applied without approval", second(b.Apply(b.ctx, by[change.Stored](b.bob), p.ID, p.Hash)), errs.ApprovalRequired)
	shouting := b.ada
	shouting.Email, shouting.User = "ADA@example.com", ids.User{UUID: uuid.UUID{15: 77}}
	moved := b.ada
	moved.Email = "other@example.com"
	for name, who := range map[string]identity.Caller{"the author": b.ada, "the author's address": shouting, "the requester": moved} {
		wantCode(t, name, second(b.Approve(b.ctx, by[change.Stored](who), p.ID, p.Hash, "mine")), errs.PolicyDenied)
	}
	approved, err := b.Approve(b.ctx, by[change.Stored](b.bob), p.ID, p.Hash, "agreed with ops")
	if err != nil || approved.Status != change.StatusApproved || approved.DecidedBy != b.bob.Actor() || approved.Decision != "agreed with ops" {
		t.Fatalf("%+v, %v", approved, err)
	}
	wantCode(t, "approved twice", second(b.Approve(b.ctx, by[change.Stored](b.bob), p.ID, p.Hash, "")), errs.Conflict)
	if _, err := b.Apply(b.ctx, by[change.Stored](b.ada), p.ID, p.Hash); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(b.audited(), "plan.propose, plan.approve, plan.apply") {
		t.Error(b.audited())
	}
	if got := b.events(); got != "fleet.plan_decided applied 2, fleet.plan_decided approved 1, fleet.plan_decided applied 2" {
		t.Error(got)
	}
}

// If no policy requires another reviewer, the author may approve.
func TestOneMayBeEnough(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.rules.Requires = nil
	p := b.waiting()
	if _, err := b.Approve(b.ctx, by[change.Stored](b.ada), p.ID, p.Hash, ""); err != nil {
		t.Error(err)
	}
}

func TestReject(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.waiting()
	rejected, err := b.Reject(b.ctx, by[change.Stored](b.ada), p.ID, p.Hash, "not now")
	if err != nil || rejected.Status != change.StatusRejected {
		t.Fatalf("%+v, %v", rejected, err)
	}
	for what, err := range map[string]error{
		"applied":  second(b.Apply(b.ctx, by[change.Stored](b.bob), p.ID, p.Hash)),
		"approved": second(b.Approve(b.ctx, by[change.Stored](b.bob), p.ID, p.Hash, "")),
		"rejected": second(b.Reject(b.ctx, by[change.Stored](b.bob), p.ID, p.Hash, "")),
	} {
		wantCode(t, what, err, errs.Conflict)
	}
}

// Of twenty who decide at once, one does.
func TestOneDecisionWins(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.waiting()
	if _, err := b.Approve(b.ctx, by[change.Stored](b.bob), p.ID, p.Hash, ""); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	won := []string{}
	try := func(what string, do func() error) {
		all.Go(func() {
			err := do()
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won = append(won, what)
			} else if errs.CodeOf(err) != errs.Conflict && errs.CodeOf(err) != errs.PlanStale {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	for range 10 {
		try("apply", func() error { return second(b.Apply(b.ctx, by[change.Stored](b.ada), p.ID, p.Hash)) })
		try("reject", func() error { return second(b.Reject(b.ctx, by[change.Stored](b.bob), p.ID, p.Hash, "")) })
	}
	all.Wait()
	sku := b.text(`SELECT spec->>'sku' FROM desired_objects WHERE kind = 'Node'`)
	if len(won) != 1 || (won[0] == "apply") != (sku == "a100") {
		t.Errorf("%v won, and the node is sold as %s", won, sku)
	}
}

// Twenty who propose the same at once get one plan.
func TestOnePlanForOneChange(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := preview.Change{Commit: "c", Diff: revision.Difference{Created: []desired.Object{skuObject("h100", 1)}}}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			p, err := b.Make(b.ctx, b.DB, c)
			if err == nil {
				err = pgx.BeginFunc(b.ctx, b.DB, func(tx pgx.Tx) error {
					return second(b.Store(b.ctx, tx, p, change.Origin{Author: "x"}))
				})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := b.text(`SELECT count(*)::text FROM plans`); n != "1" {
		t.Errorf("%s plans", n)
	}
}

// INV-11: one bad object of five hundred leaves nothing of the others.
func TestINV11NothingHalfApplied(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var files []string
	for i := range 500 {
		files = append(files, sku(fmt.Sprintf("s%03d", i), i+1))
	}
	p := b.proposed(b.ada, docs(files...))
	b.exec(`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''the last one fails''; END';
		CREATE TRIGGER dies AFTER INSERT ON desired_objects FOR EACH ROW WHEN (NEW.name = 's499') EXECUTE FUNCTION fail()`)
	diff := pgtest.Diff(t, b.db)
	if _, err := b.Apply(b.ctx, by[change.Stored](b.ada), p.ID, p.Hash); err == nil {
		t.Error("applied")
	}
	if left := diff(); left != "" {
		t.Error(left)
	}
	b.exec(`DROP TRIGGER dies ON desired_objects`)
	if _, err := b.Apply(b.ctx, by[change.Stored](b.ada), p.ID, p.Hash); err != nil {
		t.Fatal(err)
	}
	if n := b.text(`SELECT count(*)::text FROM desired_objects`); n != "500" {
		t.Errorf("%s are declared", n)
	}
}

// A request that is repeated is answered what it was answered.
func TestRepeatedRequests(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.proposed(b.ada, sku("h100", 249))
	key := identity.Key{Principal: b.ada.Principal(), Method: "POST", Route: "applyPlan", Key: "k"}
	ch := identity.Change[change.Stored]{Caller: b.ada, Key: key, Answer: func(s change.Stored) identity.Reply {
		return identity.Reply{Status: 200, Body: []byte(s.Status)}
	}}
	if _, err := b.Apply(b.ctx, ch, p.ID, p.Hash); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "again", second(b.Apply(b.ctx, ch, p.ID, p.Hash)), errs.IdempotencyInFlight)
	reply, found, err := b.Identity.Replay(b.ctx, key)
	if err != nil || !found || reply.Status != 200 || string(reply.Body) != change.StatusApplied {
		t.Errorf("%+v, %v, %v", reply, found, err)
	}
}

// A revision waits for the approval of its plan, by the API, and is applied by the
// role that follows the source; a rejected one is not.
func TestARevisionWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.source()
	b.rules.PruneObjects, b.rules.PrunePercent = 0, 0
	reconciling := b.as(pgtest.As(t, b.db, "gpuaas_reconcile"), nil)
	gate := func(commit string) revision.Gate {
		return func(ctx context.Context, tx pgx.Tx, d revision.Difference) (revision.Verdict, error) {
			return reconciling.Gate(ctx, tx, preview.Change{Source: "fleet", Repository: "git://fleet", Commit: commit, Base: "c1", Diff: d}, change.Origin{Author: "ada@example.com", Signer: "ada@example.com"})
		}
	}
	b.git(skuObject("h100", 249), skuObject("a100", 99))
	rev, err := b.apply("c2", gate("c2"), skuObject("h100", 249))
	if err != nil || rev.Status != revision.StatusWaiting || len(rev.Waits) != 1 || rev.Waits[0].Reason != preview.WaitPruneCap {
		t.Fatalf("%+v, %v", rev, err)
	}
	wantCode(t, "the author", second(b.Approve(b.ctx, by[change.Stored](b.ada), rev.Plan, "", "")), errs.PolicyDenied)
	if _, err := b.Approve(b.ctx, by[change.Stored](b.bob), rev.Plan, "", "fine"); err != nil {
		t.Fatal(err)
	}
	if asked := b.text(`SELECT (sync_requested_at > now() - interval '1 minute')::text FROM git_sources`); asked != "true" {
		t.Error("the source is not polled again")
	}
	// The approval is of this plan: with one more to go it waits again.
	b.exec(`UPDATE desired_objects SET resource_version = 7 WHERE name = 'a100'`)
	if rev, err = b.apply("c2", gate("c2"), skuObject("h100", 249)); err != nil || rev.Status != revision.StatusWaiting {
		t.Errorf("%+v, %v", rev, err)
	}
	b.exec(`UPDATE desired_objects SET resource_version = 1 WHERE name = 'a100'`)
	if rev, err = b.apply("c2", gate("c2"), skuObject("h100", 249)); err != nil || rev.Status != revision.StatusApplied {
		t.Fatalf("%+v, %v", rev, err)
	}
	rev, err = b.apply("c3", gate("c3"))
	if err != nil || rev.Status != revision.StatusWaiting {
		t.Fatalf("%+v, %v", rev, err)
	}
	if _, err := b.Reject(b.ctx, by[change.Stored](b.bob), rev.Plan, "", "no"); err != nil {
		t.Fatal(err)
	}
	if rev, err = b.apply("c3", gate("c3")); err != nil || rev.Status != revision.StatusRejected {
		t.Errorf("%+v, %v", rev, err)
	}
}

// A user who requests the plan of another author's commit does not become its author. The sync
// determines the author from Git.
func TestTheAuthorIsGits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.source()
	b.rules.PruneObjects, b.rules.PrunePercent = 0, 0
	b.git(skuObject("h100", 249), skuObject("a100", 99))
	p, err := b.Propose(b.ctx, by[change.Stored](b.bob), change.Request{Source: "fleet", Commit: "c2", Author: "nobody@example.com", Files: map[string][]byte{"fleet.yaml": []byte(sku("h100", 249))}})
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, "the requester", second(b.Approve(b.ctx, by[change.Stored](b.bob), p.ID, "", "")), errs.PolicyDenied)
	rev, err := b.apply("c2", func(ctx context.Context, tx pgx.Tx, d revision.Difference) (revision.Verdict, error) {
		return b.as(nil, nil).Gate(ctx, tx, preview.Change{Source: "fleet", Repository: "git://fleet", Commit: "c2", Base: "c1", Diff: d}, change.Origin{Author: "ada@example.com", Pull: 7})
	}, skuObject("h100", 249))
	if err != nil || rev.Plan != p.ID {
		t.Fatalf("the commit is %s, and its files are %s: %v", rev.Plan, p.ID, err)
	}
	if p, err = b.Plan(b.ctx, p.ID); err != nil || p.Author != "ada@example.com" || p.Pull != 7 {
		t.Errorf("%+v, %v", p, err)
	}
	wantCode(t, "the author", second(b.Approve(b.ctx, by[change.Stored](b.ada), p.ID, "", "")), errs.PolicyDenied)
}
