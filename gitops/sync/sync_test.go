package sync_test

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/api/asyncapi"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/change"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/gitops/sync"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

// A commit is applied once, with who wrote it; another of the same tree, and the
// same again, write no revision.
func TestCommitIsApplied(t *testing.T) {
	t.Parallel()
	h := setup(t)
	first := h.repo.commit(skus(3, 35))
	rev := h.sync()
	if statusOf(rev) != "applied +4 ~0 -0" || rev.Commit != first || rev.Author != "Ada" || rev.AuthorEmail != "ada@example.com" || rev.Message != "declare the fleet" {
		t.Errorf("%s %+v", statusOf(rev), rev)
	}
	diff := pgtest.Diff(t, h.db, pgtest.Without("git_sources"))
	h.repo.git("commit", "-q", "--allow-empty", "-m", "nothing of ours")
	for range 2 {
		if rev := h.sync(); rev.Status != "" || diff() != "" {
			t.Errorf("%+v wrote\n%s", rev, diff())
		}
	}
	state := h.source("fleet")
	if c := state.Conditions(h.Clock.Now())[0]; c.Status != "True" || state.Head != h.repo.git("rev-parse", "HEAD") || state.Applied.Commit != first {
		t.Errorf("%+v %+v", c, state)
	}
	h.repo.commit(with(skus(3, 35), "s001.yaml", sku("s001", 36)))
	if rev := h.sync(); statusOf(rev) != "applied +0 ~1 -0" || rev.Parent != first {
		t.Errorf("%s %+v", statusOf(rev), rev)
	}
}

// INV-11: one invalid file among 500 applies nothing, is validated once, also after a restart of
// the server, and is reported with its position.
func TestINV11OneBadFileOf500(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.repo.commit(skus(499, 35))
	h.sync()
	diff := pgtest.Diff(t, h.db, pgtest.Without("git_sources"), pgtest.Without("desired_revisions"), pgtest.Without("audit_logs"), pgtest.Without("outbox_events"))
	h.repo.commit(with(skus(499, 99), "s250.yaml", strings.Replace(sku("s250", 99), "memoryGiB", "memoryGb", 1)))
	rev := h.sync()
	if rev.Status != revision.StatusInvalid || !strings.HasPrefix(rev.Findings[0].String(), "fleet/s250.yaml:4:") || diff() != "" {
		t.Errorf("%s %v\n%s", rev.Status, rev.Findings, diff())
	}
	all := pgtest.Diff(t, h.db, pgtest.Without("git_sources"))
	for range 2 {
		if again, err := h.replica().Sync(t.Context()); err != nil || again.Revision != rev.Revision || all() != "" {
			t.Errorf("%+v, %v\n%s", again, err, all())
		}
	}
	state := h.source("fleet")
	if c := state.Conditions(h.Clock.Now())[0]; c.Status != "False" || c.Reason != "ValidationFailed" || !strings.Contains(c.Message, "s250.yaml") || state.Lag(h.Clock.Now()) <= 0 {
		t.Errorf("%+v, lag %s", c, state.Lag(h.Clock.Now()))
	}
	// After the reset the source is up to date again, and nothing lags.
	h.repo.git("reset", "-q", "--hard", "HEAD~1")
	h.sync()
	state = h.source("fleet")
	if c := state.Conditions(h.Clock.Now())[0]; c.Status != "True" || state.Lag(h.Clock.Now()) != 0 {
		t.Errorf("%+v", c)
	}
}

// INV-13: an empty tree, a renamed folder and a lost one are accidents.
func TestINV13EmptyTree(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.repo.commit(skus(5, 35))
	h.sync()
	before := h.declared()
	for name, files := range map[string]map[string]string{"empty": {"README.md": "nothing"}, "gone": {}, "renamed": {"../elsewhere/s.yaml": sku("s", 1)}} {
		h.repo.commit(files)
		if rev := h.sync(); rev.Status != revision.StatusInvalid || codes(rev) != desired.CodeSourceEmpty || h.declared() != before {
			t.Errorf("%s: %s %v, %s", name, rev.Status, rev.Findings, h.declared())
		}
	}
}

// INV-14: a name that the API owns rejects the whole commit, with the author's file. After the name
// is offered for adoption, the same commit adopts it.
func TestINV14ForeignThenAdopted(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.repo.commit(skus(2, 35))
	h.sync()
	mine := desired.Object{Kind: desired.KindSKU, Name: "mine", Spec: []byte(h.text(`SELECT spec::text FROM desired_objects WHERE name = 's000'`))}
	h.put(mine)
	h.repo.commit(with(skus(2, 35), "zz.yaml", sku("mine", 35)))
	before := h.declared()
	for range 2 {
		if rev := h.sync(); rev.Status != revision.StatusInvalid || codes(rev) != desired.CodeManagedByAPI || rev.Findings[0].Path != "fleet/zz.yaml" || h.declared() != before {
			t.Errorf("%s %v", statusOf(rev), rev.Findings)
		}
	}
	h.offer("mine", "fleet")
	if rev := h.sync(); statusOf(rev) != "applied +0 ~0 -0 adopted 1" {
		t.Errorf("%s %v", statusOf(rev), rev.Findings)
	}
	if owner := h.text(`SELECT owner || ' ' || source || ' ' || path || ' ' || adopt_by FROM desired_objects WHERE name = 'mine'`); owner != "git fleet fleet/zz.yaml " {
		t.Error(owner)
	}
}

// A commit that deletes too much waits under a revision number. It is checked again without being
// read, and is applied under that number after another operator has approved it.
func TestApproval(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.repo.commit(skus(20, 35))
	h.sync()
	before := h.declared()
	h.repo.commit(skus(10, 35))
	rev := h.sync()
	if statusOf(rev) != "waiting_approval +0 ~0 -10 prune_cap" || h.declared() != before {
		t.Fatalf("%s %v", statusOf(rev), rev.Findings)
	}
	diff := pgtest.Diff(t, h.db, pgtest.Without("git_sources"))
	if again := h.sync(); again.Revision != rev.Revision || diff() != "" {
		t.Errorf("%s\n%s", statusOf(again), diff())
	}
	if _, err := h.people.Approve(t.Context(), as("ada@example.com"), rev.Plan, "", "mine"); err == nil {
		t.Error("the author approved it")
	}
	if _, err := h.people.Approve(t.Context(), as("bo@example.com"), rev.Plan, "", "they are gone"); err != nil {
		t.Fatal(err)
	}
	after := h.sync()
	if statusOf(after) != "applied +0 ~0 -10" || after.Revision != rev.Revision || after.Version <= rev.Version {
		t.Errorf("%s %+v", statusOf(after), after)
	}
	if p, err := h.people.Plan(t.Context(), rev.Plan); err != nil || p.Status != change.StatusApplied {
		t.Errorf("%+v, %v", p.Status, err)
	}
}

// An approval covers the displayed plan: if the state has changed, the new plan waits again.
func TestStaleApprovalWaitsAgain(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.repo.commit(skus(20, 35))
	h.sync()
	h.repo.commit(skus(10, 35))
	rev := h.sync()
	if _, err := h.people.Approve(t.Context(), as("bo@example.com"), rev.Plan, "", "ok"); err != nil {
		t.Fatal(err)
	}
	h.db.Exec(t.Context(), `UPDATE desired_objects SET resource_version = resource_version + 1 WHERE name = 's015'`) //nolint:errcheck // the next look tells
	again := h.sync()
	if statusOf(again) != "waiting_approval +0 ~0 -10 prune_cap" || again.Plan == rev.Plan || again.Revision != rev.Revision {
		t.Errorf("%s, plan %s after %s", statusOf(again), again.Plan, rev.Plan)
	}
	if _, err := h.people.Approve(t.Context(), as("bo@example.com"), again.Plan, "", "still ok"); err != nil {
		t.Fatal(err)
	}
	if after := h.sync(); statusOf(after) != "applied +0 ~0 -10" {
		t.Error(statusOf(after))
	}
}

// A rejected commit is not checked again. The next one is, and it supersedes a waiting one.
func TestRejected(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.repo.commit(skus(20, 35))
	h.sync()
	h.repo.commit(skus(10, 35))
	rev := h.sync()
	if _, err := h.people.Reject(t.Context(), as("bo@example.com"), rev.Plan, "", "we need them"); err != nil {
		t.Fatal(err)
	}
	got := h.sync()
	if got.Status != revision.StatusRejected || got.Revision != rev.Revision || !strings.Contains(got.Findings[0].Message, "we need them") {
		t.Fatalf("%s %v", statusOf(got), got.Findings)
	}
	diff := pgtest.Diff(t, h.db, pgtest.Without("git_sources"))
	for _, f := range []*sync.Syncer{h.Syncer, h.replica()} {
		if again, err := f.Sync(t.Context()); err != nil || again.Status != revision.StatusRejected || diff() != "" {
			t.Errorf("%s, %v\n%s", statusOf(again), err, diff())
		}
	}
	h.repo.git("commit", "-q", "--allow-empty", "-m", "again")
	if again := h.sync(); statusOf(again) != "waiting_approval +0 ~0 -10 prune_cap" || again.Revision == rev.Revision {
		t.Error(statusOf(again))
	}
	h.repo.commit(skus(19, 35))
	if next := h.sync(); statusOf(next) != "applied +0 ~0 -1" {
		t.Error(statusOf(next))
	}
	if left := h.text(`SELECT string_agg(status, ' ' ORDER BY revision) FROM desired_revisions`); left != "applied rejected rejected applied" {
		t.Error(left)
	}
}

// A suspended source is read and validated, and applied after it is resumed.
func TestSuspendedSource(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.repo.commit(skus(3, 35))
	h.sync()
	before := h.declared()
	by := desired.Suspension{By: "user:bo", Reason: "incident"}
	h.suspend("fleet", &by)
	h.repo.commit(skus(3, 36))
	rev := h.sync()
	if statusOf(rev) != "planned +0 ~3 -0 suspended" || h.declared() != before {
		t.Errorf("%s %v", statusOf(rev), rev.Findings)
	}
	if list := h.source("fleet").Conditions(h.Clock.Now()); list[0].Reason != "Suspended" || list[len(list)-1].Message != "user:bo: incident" {
		t.Errorf("%+v", list)
	}
	h.suspend("fleet", nil)
	if after := h.sync(); statusOf(after) != "applied +0 ~3 -0" || after.Revision != rev.Revision {
		t.Error(statusOf(after))
	}
}

// A rewritten branch waits if the policy requires that commits descend from the applied one. The
// prune cap applies in any case.
func TestINV13ForcePush(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.decide(func(r *sync.Rules, l *preview.Rules) {
		r.Undiverged = true
		l.Requires = []string{preview.RequiresApproved, preview.RequiresUndiverged}
	})
	h.repo.commit(skus(3, 35))
	h.repo.commit(skus(3, 36))
	if rev := h.sync(); statusOf(rev) != "applied +4 ~0 -0" {
		t.Fatal(statusOf(rev))
	}
	h.repo.git("reset", "-q", "--hard", "HEAD~1")
	h.repo.commit(skus(3, 37))
	if rev := h.sync(); statusOf(rev) != "waiting_approval +0 ~3 -0 diverged" {
		t.Error(statusOf(rev))
	}
	h.repo.git("reset", "-q", "--hard", "HEAD@{2}")
	h.repo.commit(skus(3, 38))
	if rev := h.sync(); statusOf(rev) != "applied +0 ~3 -0" {
		t.Error(statusOf(rev))
	}
}

// Each result of a commit emits one valid event, with the author in its audit row and a rising
// version in its aggregate.
func TestResultsAreEvents(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.repo.commit(skus(20, 35))
	h.sync()
	h.repo.commit(with(skus(20, 35), "bad.yaml", "kind: 1"))
	h.sync()
	h.repo.commit(skus(10, 35))
	rev := h.sync()
	if _, err := h.people.Approve(t.Context(), as("bo@example.com"), rev.Plan, "", "ok"); err != nil {
		t.Fatal(err)
	}
	h.sync()
	rows, err := h.db.Query(t.Context(), `SELECT subject, aggregate, sequence, payload FROM outbox_events WHERE subject LIKE 'fleet.revision%' ORDER BY seq`)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for rows.Next() {
		var subject, aggregate string
		var sequence int64
		var payload []byte
		if err := rows.Scan(&subject, &aggregate, &sequence, &payload); err != nil {
			t.Fatal(err)
		}
		if err := asyncapi.Validate(subject, payload); err != nil {
			t.Error(err)
		}
		told = append(told, strings.Join([]string{subject, aggregate, string(rune('0' + sequence))}, " "))
	}
	want := "fleet.revision_applied revision:1 1, fleet.revision_rejected revision:2 1, fleet.revision_waiting revision:3 1, fleet.revision_applied revision:3 2"
	if got := strings.Join(told, ", "); got != want || rows.Err() != nil {
		t.Errorf("%s, %v", got, rows.Err())
	}
	if got := h.text(`SELECT string_agg(actor || ' ' || action, ', ' ORDER BY at, id) FROM audit_logs WHERE action LIKE 'revision.%'`); got !=
		"git:ada@example.com revision.apply, git:ada@example.com revision.reject, git:ada@example.com revision.wait, git:ada@example.com revision.apply" {
		t.Error(got)
	}
	contract, err := asyncapi.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{sync.SubjectApplied, sync.SubjectWaiting, sync.SubjectRejected} {
		if err := contract.Payload(s, []byte(`{}`)); err == nil || strings.Contains(err.Error(), "no such") {
			t.Errorf("%s: %v", s, err)
		}
	}
}
