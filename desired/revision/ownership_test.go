package revision_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

// part returns a snapshot that contains only the difference from a tree.
func part(commit, base string, total int, removed []string, objects ...desired.Object) revision.Snapshot {
	s := snapshot(commit, objects...)
	s.Base, s.Total = base, total
	for _, n := range removed {
		s.Removed = append(s.Removed, desired.Name{Kind: desired.KindSKU, Name: n})
	}
	return s
}

// Applying a difference from the applied tree has the same result, the same counts and the same
// gate input as applying the whole tree.
func TestPartEqualsWhole(t *testing.T) {
	t.Parallel()
	whole, parts := setup(t), on(t, pgtest.Clone(t))
	var had [2]int
	gate := func(i int) revision.Gate {
		return func(_ context.Context, _ pgx.Tx, d revision.Difference) (revision.Verdict, error) {
			had[i] = d.Had()
			return revision.Verdict{}, nil
		}
	}
	for _, b := range []*bundle{whole, parts} {
		b.apply(snapshot("c1", many(20, nil)...))
		b.unmark()
	}
	changed := many(21, map[int]string{3: `{"n":3}`})
	changed = append(changed[:7], changed[8:]...)
	one, err := whole.Apply(whole.ctx, snapshot("c2", changed...), gate(0))
	if err != nil {
		t.Fatal(err)
	}
	other, err := parts.Apply(parts.ctx, part("c2", "tree-c1", 20, []string{"s07"}, changed[3], changed[19]), gate(1))
	if err != nil || counts(one) != counts(other) || counts(one) != "applied 20: +1 ~1 -1" || had[0] != 20 || had[1] != 20 || whole.due() != parts.due() {
		t.Errorf("%s and %s of %v, %v\n%s\n%s", counts(one), counts(other), had, err, whole.due(), parts.due())
	}
	// What moved from file to file is in both lists.
	rev, err := parts.Apply(parts.ctx, part("c3", "tree-c2", 20, []string{"s03"}, at(changed[3], "elsewhere.cue", 1, 1)), nil)
	if err != nil || counts(rev) != "applied 20: +0 ~1 -0" {
		t.Errorf("%s, %v", counts(rev), err)
	}
}

// A snapshot that was read before the source moved is rejected, complete or partial, and writes
// nothing.
func TestSlowerReaderIsRejected(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.apply(snapshot("c1", many(3, nil)...))
	b.apply(snapshot("c2", many(4, nil)...))
	b.unmark()
	diff := pgtest.Diff(t, b.db)
	late := snapshot("c3", many(2, nil)...)
	late.Since = &first.Revision
	for _, snap := range []revision.Snapshot{late, part("c3", "tree-c1", 3, nil, many(1, nil)...)} {
		if _, err := b.Apply(b.ctx, snap, nil); errs.CodeOf(err) != errs.Conflict || diff() != "" {
			t.Errorf("%v\n%s", err, diff())
		}
		if _, err := b.Reject(b.ctx, snap, nil); errs.CodeOf(err) != errs.Conflict || diff() != "" {
			t.Errorf("rejected: %v\n%s", err, diff())
		}
	}
}

// Versions are compared, a write to an object of Git is rejected with its file, and an equal write
// changes nothing.
func TestINV14PutVersion(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.apply(snapshot("c1", at(sku("theirs", `{}`), "sku.cue", 12, 5)))
	put := func(name string, version int64, labels map[string]string) (o desired.Object, err error) {
		err = pgx.BeginFunc(b.ctx, b.db, func(tx pgx.Tx) error {
			o = sku(name, `{"n":1}`)
			o.Labels = labels
			o, err = b.PutVersion(b.ctx, tx, o, version)
			return err
		})
		return o, err
	}
	for _, c := range []struct {
		name    string
		version int64
		labels  string
		want    string
	}{
		{"theirs", 0, "", "managed_by_git"},
		{"mine", 3, "", "version_mismatch"},
		{"mine", 0, "", "1/1"},
		{"mine", 2, "", "version_mismatch"},
		{"mine", 1, "", "1/1"},
		{"mine", 1, "a", "1/2"},
		{"mine", 0, "a", "1/2"},
	} {
		var labels map[string]string
		if c.labels != "" {
			labels = map[string]string{"team": c.labels}
		}
		o, err := put(c.name, c.version, labels)
		got := string(errs.CodeOf(err))
		if err == nil {
			got = fmt.Sprintf("%d/%d", o.Generation, o.ResourceVersion)
		}
		if got != c.want {
			t.Errorf("%s at %d with %q: %s, want %s", c.name, c.version, c.labels, got, c.want)
		}
	}
	name := desired.Name{Kind: desired.KindSKU, Name: "mine"}
	b.unmark()
	b.do(func(tx pgx.Tx) error {
		if _, err := b.Delete(b.ctx, tx, name, 1); errs.CodeOf(err) != errs.VersionMismatch {
			t.Error(err)
		}
		o, err := b.Delete(b.ctx, tx, name, 2)
		if o.DeletedAt == nil {
			t.Errorf("%+v", o)
		}
		return err
	})
	if b.due() != "SKU removed" {
		t.Error(b.due())
	}
}

// A suspended object is not due before the end of its suspension, which marks it due, or before an
// operator resumes it. Expired offers and suspensions have no effect.
func TestSuspendAndOfferEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.apply(snapshot("c1", sku("theirs", `{}`)))
	if err := b.DeclareSources(b.ctx, revision.DeclaredByServer, []revision.SourceSpec{{Name: "fleet", Repository: repo, Ref: "main", Dirs: []string{"."}, Settings: []byte(`{}`)}}); err != nil {
		t.Fatal(err)
	}
	name := desired.Name{Kind: desired.KindSKU, Name: "theirs"}
	if o, err := b.Get(b.ctx, name.Kind, "", name.Name); err != nil || o.Source.Name != "fleet" {
		t.Errorf("the name was not adopted: %+v, %v", o.Source, err)
	}
	until := time.Now().Add(time.Hour)
	b.unmark()
	b.do(func(tx pgx.Tx) error {
		o, err := b.Suspend(b.ctx, tx, name, desired.Suspension{By: "user:bo", Reason: "fans", Until: &until})
		if err == nil && (o.Suspended == nil || o.Suspended.By != "user:bo" || o.Suspended.At.IsZero()) {
			t.Errorf("%+v", o.Suspended)
		}
		return err
	})
	b.exec(`UPDATE desired_objects SET suspended_until = now() - interval '1 s'`)
	if o, err := b.Get(b.ctx, name.Kind, "", name.Name); err != nil || o.Suspended != nil {
		t.Errorf("%+v, %v", o.Suspended, err)
	}
	b.do(func(tx pgx.Tx) error {
		_, err := b.OfferAdoption(b.ctx, tx, name, "fleet", 0)
		if errs.CodeOf(err) != errs.Conflict {
			t.Errorf("offered to whom it belongs: %v", err)
		}
		_, err = b.OfferAdoption(b.ctx, tx, name, "nowhere", 0)
		if errs.CodeOf(err) != errs.NotFound {
			t.Errorf("offered without an adopter: %v", err)
		}
		o, err := b.AdoptToAPI(b.ctx, tx, name, 0)
		if err == nil {
			_, again := b.AdoptToAPI(b.ctx, tx, name, o.ResourceVersion)
			if errs.CodeOf(again) != errs.Conflict {
				t.Errorf("adopted twice: %v", again)
			}
			o, err = b.OfferAdoption(b.ctx, tx, name, "fleet", o.ResourceVersion)
		}
		if err == nil && (o.Adopt == nil || o.Adopt.Source != "fleet" || o.Adopt.Until.Before(time.Now().Add(23*time.Hour))) {
			t.Errorf("%+v", o.Adopt)
		}
		return err
	})
	b.exec(`UPDATE desired_objects SET adopt_until = now()`)
	late := snapshot("c2", sku("theirs", `{}`))
	late.Source = "fleet"
	if rev, err := b.Apply(b.ctx, late, nil); err != nil || rev.Status != revision.StatusInvalid || rev.Findings[0].Code != desired.CodeManagedByAPI {
		t.Errorf("an offer that ran out: %+v, %v", rev, err)
	}
}

// The record of a commit is called once within the transaction. If it fails, the transaction fails.
func TestRecordIsPartOfIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var told []string
	b.Record = func(_ context.Context, _ pgx.Tx, r revision.Revision) error {
		told = append(told, fmt.Sprintf("%s %d/%d", r.Status, r.Revision, r.Version))
		return nil
	}
	b.apply(snapshot("c1", many(20, nil)...))
	waits := snapshot("c2", many(10, nil)...)
	first := b.apply(waits)
	b.apply(waits)
	if _, err := b.Apply(b.ctx, waits, nil); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("applied %d/1, waiting_approval %d/1, applied %d/2", first.Revision-1, first.Revision, first.Revision)
	if got := strings.Join(told, ", "); got != want {
		t.Errorf("recorded %s, want %s", got, want)
	}
	b.Record = func(context.Context, pgx.Tx, revision.Revision) error { return errors.New("broken") }
	b.unmark()
	diff := pgtest.Diff(t, b.db)
	if _, err := b.Apply(b.ctx, snapshot("c3", many(11, nil)...), nil); err == nil || diff() != "" {
		t.Errorf("%v\n%s", err, diff())
	}
}

// The conditions of a source in each of its states: the summary, the steps (fetched, validated,
// applied), and the conditions that exist only while they are true.
func TestConditions(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	before := now.Add(-time.Minute)
	good := revision.SourceState{
		SourceSpec: revision.SourceSpec{Name: "fleet"}, Head: "c1", TreeHash: "t1", CheckedAt: &now, FetchedAt: &now,
		Applied: revision.Pointer{Revision: 7, Commit: "c1", TreeHash: "t1", AppliedAt: before},
	}
	judged := func(status, code string) func(*revision.SourceState) {
		return func(s *revision.SourceState) {
			s.Head, s.TreeHash = "c2", "t2"
			s.Latest = revision.Revision{Revision: 8, Commit: "c2", TreeHash: "t2", Status: status, UpdatedAt: before, Waits: []revision.Wait{{Message: "removes much"}}, Findings: []desired.Finding{{Code: code, Path: "a.cue", Line: 3, Column: 1, Message: "no"}}}
		}
	}
	const fetched, valid, stands = "SourceFetched True Succeeded", "Validated True Succeeded", "Applied True Succeeded"
	for name, c := range map[string]struct {
		change func(*revision.SourceState)
		ready  string // with its message
		steps  string
		beside string
		lag    time.Duration
	}{
		"applied": {func(*revision.SourceState) {}, "Ready True Succeeded: revision 7 is applied", fetched + ", " + valid + ", " + stands, "", 0},
		"unseen": {
			func(s *revision.SourceState) { *s = revision.SourceState{} }, "Ready Unknown Progressing: the source was not fetched yet",
			"SourceFetched Unknown Progressing, Validated Unknown Progressing, Applied Unknown Progressing", "", 0,
		},
		"nothing": {
			func(s *revision.SourceState) { s.Applied = revision.Pointer{} }, "Ready Unknown Progressing: no revision is applied yet",
			fetched + ", Validated Unknown Progressing, Applied Unknown Progressing", "Reconciling True Progressing", 0,
		},
		"invalid": {
			judged(revision.StatusInvalid, desired.CodeUnknownField), "Ready False ValidationFailed: a.cue:3:1: no",
			fetched + ", Validated False ValidationFailed, Applied False ValidationFailed", "", time.Minute,
		},
		"empty": {
			judged(revision.StatusInvalid, desired.CodeSourceEmpty), "Ready False ValidationFailed: a.cue:3:1: no",
			fetched + ", Validated False SourceEmpty, Applied False SourceEmpty", "", time.Minute,
		},
		"rejected": {
			judged(revision.StatusRejected, desired.CodeRejected), "Ready False Rejected: a.cue:3:1: no", fetched + ", " + valid + ", Applied False Rejected", "", time.Minute,
		},
		"waits": {
			judged(revision.StatusWaiting, ""), "Ready False ApprovalRequired: revision 8 waits: removes much",
			fetched + ", " + valid + ", Applied False ApprovalRequired", "AwaitingApproval True ApprovalRequired", time.Minute,
		},
		"planned": {
			judged(revision.StatusPlanned, ""), "Ready False Suspended: revision 8 waits: removes much", fetched + ", " + valid + ", Applied False Suspended", "", time.Minute,
		},
		"reverted": {func(s *revision.SourceState) {
			judged(revision.StatusInvalid, "")(s)
			s.Head, s.TreeHash = "c1", "t1"
		}, "Ready True Succeeded: revision 7 is applied", fetched + ", " + valid + ", " + stands, "", 0},
		"away": {
			func(s *revision.SourceState) { s.Fault, s.FaultSince = "gives no answer", &before }, "Ready False Unreachable: gives no answer",
			"SourceFetched False Unreachable, " + valid + ", " + stands, "Stalled True Unreachable", time.Minute,
		},
		"gone": {
			func(s *revision.SourceState) { s.GoneAt = &before }, "Ready False SourceRemoved: the source is no longer configured; its objects stay unchanged",
			fetched + ", " + valid + ", " + stands, "", 0,
		},
		"suspended": {func(s *revision.SourceState) {
			s.Suspended = &desired.Suspension{By: "user:bo", Reason: "incident", At: before}
		}, "Ready True Succeeded: revision 7 is applied", fetched + ", " + valid + ", " + stands, "Suspended True Suspended", 0},
	} {
		s := good
		c.change(&s)
		list := s.Conditions(now)
		var said []string
		for _, one := range list {
			said = append(said, fmt.Sprintf("%s %s %s", one.Type, one.Status, one.Reason))
		}
		want := strings.Split(strings.TrimSuffix(c.steps+", "+c.beside, ", "), ", ")
		if ready := said[0] + ": " + list[0].Message; ready != c.ready || !slices.Equal(said[1:], want) || s.Lag(now) != c.lag {
			t.Errorf("%s: %s, then %q, lag %s", name, ready, said[1:], s.Lag(now))
		}
	}
	if text, err := json.Marshal(revision.Wait{Reason: "diverged", Message: "rewritten"}); err != nil || string(text) != `{"reason":"diverged","message":"rewritten","objects":[]}` {
		t.Errorf("a wait that names nothing: %s, %v", text, err)
	}
}
