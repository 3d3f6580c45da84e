package source

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// stored follows the repository with a store of its own.
func (b bundle) stored() *Source {
	b.t.Helper()
	return b.storedIn(b.t.TempDir(), Spec{})
}

func (b bundle) storedIn(dir string, spec Spec) *Source {
	b.t.Helper()
	if spec.Location == "" {
		spec.Location, spec.AllowFile = b.path, true
	}
	if spec.Ref == "" {
		spec.Ref = "main"
	}
	spec.Dirs = []string{"fleet"}
	s, err := OpenStore(dir, spec)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// fleet writes a hundred files in ten folders.
func (b bundle) fleet() {
	b.t.Helper()
	for i := range 100 {
		b.write(fmt.Sprintf("fleet/f%d/n%02d.yaml", i%10, i), fmt.Sprintf("name: n%d\n%s", i, strings.Repeat("x: y\n", 20)))
	}
}

func TestOnlyWhatChangedIsRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fleet()
	b.commit()
	for name, s := range map[string]*Source{"store": b.stored(), "checkout": b.open("main")} {
		first := snapshot(t, s, "")
		if len(first.Files) != 100 || first.Base != "" || first.Changed != nil {
			t.Fatalf("%s: the first read is whole: %d files, base %q", name, len(first.Files), first.Base)
		}
		b.write("fleet/f3/n03.yaml", "name: other")
		b.write("fleet/f3/new.yaml", "name: new")
		b.write("fleet/f4/README.md", "no declaration")
		b.git("rm", "-q", "fleet/f5/n05.yaml")
		b.git("mv", "fleet/f6/n06.yaml", "fleet/f7/moved.yaml")
		b.commit()
		before := s.Reads()
		tree := snapshot(t, s, first.TreeHash)
		want := []string{"fleet/f3/n03.yaml", "fleet/f3/new.yaml", "fleet/f7/moved.yaml"}
		gone := []string{"fleet/f5/n05.yaml", "fleet/f6/n06.yaml"}
		if tree.Base != first.TreeHash || !slices.Equal(tree.Changed, want) || !slices.Equal(tree.Removed, gone) || len(tree.Files) != 3 || len(tree.Findings) > 0 {
			t.Errorf("%s: changed %v, removed %v, base %q, findings %v", name, tree.Changed, tree.Removed, tree.Base, tree.Findings)
		}
		// fleet and five folders, before and after; the other five are not opened.
		if now := s.Reads(); now.Blobs-before.Blobs != 3 || now.Trees-before.Trees != 12 {
			t.Errorf("%s: read %+v after %+v", name, now, before)
		}
		whole := snapshot(t, s, "")
		if whole.TreeHash != tree.TreeHash || len(whole.Files) != 100 {
			t.Errorf("%s: a whole read differs: %d files", name, len(whole.Files))
		}
		b.git("reset", "-q", "--hard", "HEAD~1")
	}
}

// Whatever two trees are, the difference leads from one to the other.
func TestDifferenceLeadsFromOneTreeToTheOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	layouts := []map[string]string{
		{"a.yaml": "1"},
		{"a.yaml": "1", "b/c.yaml": "2", "b/d/e.yaml": "3"},
		{"a.yaml/c.yaml": "1", "b/d.yaml": "2"},
		{"b/c.yaml": "2", "b/d/e.yaml": "3", "b/.hidden/x.yaml": "4"},
		{"b": "no declaration", "a.yaml": "1"},
		{"b/d/e.yaml": "9", "z/a.yaml": "1"},
	}
	var commits []string
	for _, files := range layouts {
		b.git("rm", "-rq", "--ignore-unmatch", ".")
		for name, body := range files {
			b.write("fleet/"+name, body)
		}
		commits = append(commits, b.commit())
	}
	s := b.stored()
	for _, from := range commits {
		for _, to := range commits {
			old, err := s.At(t.Context(), from, "")
			if err != nil {
				t.Fatal(err)
			}
			diff, err := s.At(t.Context(), to, old.TreeHash)
			if err != nil {
				t.Fatal(err)
			}
			whole, err := s.At(t.Context(), to, "")
			if err != nil {
				t.Fatal(err)
			}
			if from == to {
				if !diff.Unchanged {
					t.Errorf("%s is not itself", from)
				}
				continue
			}
			for _, name := range diff.Removed {
				delete(old.Files, name)
			}
			maps.Copy(old.Files, diff.Files)
			if diff.Base == "" || fmt.Sprint(old.Files) != fmt.Sprint(whole.Files) {
				t.Errorf("%s → %s: %s, want %s", from, to, old.Files, whole.Files)
			}
		}
	}
}

// A file that was checked once is not checked again, but it counts for the limits.
func TestINV15LimitsHoldForDifferences(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits Limits
		change map[string]string
		want   string
	}{
		"files":      {Limits{Files: 112, FileBytes: 1 << 20, TreeBytes: 1 << 20}, map[string]string{"n/a.yaml": "a", "n/b.yaml": "b", "n/c.yaml": "c"}, "too_many_files"},
		"tree bytes": {Limits{Files: 1000, FileBytes: 1 << 20, TreeBytes: 15_000}, map[string]string{"f0/big.yaml": strings.Repeat("x", 5000)}, "tree_too_large"},
		"file bytes": {Limits{Files: 1000, FileBytes: 4000, TreeBytes: 1 << 20}, map[string]string{"f0/big.yaml": strings.Repeat("x", 5000)}, "file_too_large"},
		"twin":       {DefaultLimits(), map[string]string{"f0/N00.yaml": "twin"}, "name_collision"},
		"twins":      {DefaultLimits(), map[string]string{"F0/x.yaml": "twin"}, "name_collision"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.fleet()
			b.commit()
			s := b.storedIn(t.TempDir(), Spec{Limits: c.limits})
			first := snapshot(t, s, "")
			if len(first.Findings) > 0 {
				t.Fatal(first.Findings)
			}
			for file, body := range c.change {
				b.write("fleet/"+file, body)
			}
			b.commit()
			if tree := snapshot(t, s, first.TreeHash); len(tree.Findings) != 1 || tree.Findings[0].Code != c.want || tree.Files != nil {
				t.Errorf("findings %v, want %s", tree.Findings, c.want)
			}
		})
	}
}

// A restarted server reads differences, too.
func TestStoreOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fleet()
	b.commit()
	dir := t.TempDir()
	first := snapshot(t, b.storedIn(dir, Spec{}), "")
	b.write("fleet/f1/n01.yaml", "name: other")
	b.commit()
	again := b.storedIn(dir, Spec{})
	if tree := snapshot(t, again, first.TreeHash); tree.Base != first.TreeHash || len(tree.Files) != 1 || again.Reads().Blobs != 1 {
		t.Errorf("read %+v, %d files", again.Reads(), len(tree.Files))
	}
	// Git itself finds the store whole.
	b.gitIn("", "-C", dir, "fsck", "--no-dangling", "--connectivity-only")
}

func TestStoreFollowsMovesAndPulls(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("fleet/a.cue", "one")
	one := b.commit()
	s := b.stored()
	at := func(ref, known string) Tree {
		t.Helper()
		tree, err := s.At(t.Context(), ref, known)
		if err != nil {
			t.Fatalf("%s: %v", ref, err)
		}
		return tree
	}
	if tree := at("main", ""); tree.Commit != one || tree.Meta.Author != "t" || tree.Meta.Message != "x" || tree.Meta.At.IsZero() {
		t.Errorf("%+v", tree.Meta)
	}
	b.git("checkout", "-q", "-b", "topic")
	b.write("fleet/b.cue", "pulled")
	pull := b.commit()
	b.git("update-ref", "refs/pull/7/head", pull)
	b.git("tag", "-a", "-m", "t", "v1", pull)
	b.git("tag", "-a", "-m", "t", "v2", "v1")
	b.git("checkout", "-q", "main")
	b.write("fleet/a.cue", "two")
	two := b.commit()
	for ref, want := range map[string]string{"refs/pull/7/head": pull, "v1": pull, "v2": pull, "main": two, two: two, pull: pull, one: one} {
		if tree := at(ref, ""); tree.Commit != want {
			t.Errorf("%s is %s, want %s", ref, tree.Commit, want)
		}
	}
	b.git("reset", "-q", "--hard", one)
	b.git("commit", "-q", "--amend", "--allow-empty", "-m", "rewritten")
	forced := b.git("rev-parse", "HEAD")
	if tree := at("main", ""); tree.Commit != forced {
		t.Errorf("forced: %s", tree.Commit)
	}
	for _, c := range []struct {
		commit, ancestor string
		want             bool
	}{{two, one, true}, {two, two, true}, {pull, one, true}, {one, two, false}, {forced, one, false}, {forced, two, false}, {two, pull, false}} {
		if got, err := s.Descends(t.Context(), c.commit, c.ancestor); err != nil || got != c.want {
			t.Errorf("%s descends from %s: %v, %v", c.commit, c.ancestor, got, err)
		}
	}
	for ref, code := range map[string]errs.Code{"gone": errs.NotFound, "refs/pull/8/head": errs.NotFound, strings.Repeat("1", 40): errs.NotFound, "HEAD^{tree}": errs.ValidationError} {
		if _, err := s.At(t.Context(), ref, ""); errs.CodeOf(err) != code {
			t.Errorf("%s: %v, want %s", ref, err, code)
		}
	}
}

// Beyond the depth nothing is known, and nothing unknown counts as descent.
func TestDescendsWithinDepth(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var commits []string
	for i := range 8 {
		b.write("fleet/a.cue", fmt.Sprint(i))
		commits = append(commits, b.commit())
	}
	s := b.storedIn(t.TempDir(), Spec{CloneDepth: 3})
	snapshot(t, s, "")
	for i, want := range []bool{false, false, false, false, true, true, true, true} /* the last known one names its parent */ {
		if got, err := s.Descends(t.Context(), commits[7], commits[i]); err != nil || got != want {
			t.Errorf("commit %d: %v, %v", i, got, err)
		}
	}
	// What is fetched later is complete.
	for i := range 5 {
		b.write("fleet/a.cue", fmt.Sprint("later", i))
		commits = append(commits, b.commit())
	}
	tree := snapshot(t, s, "")
	for i := 5; i < 13; i++ {
		if got, err := s.Descends(t.Context(), tree.Commit, commits[i]); err != nil || !got {
			t.Errorf("commit %d: %v, %v", i, got, err)
		}
	}
}

func TestStoreIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("fleet/a.cue", "0")
	b.commit()
	dir := t.TempDir()
	s := b.storedIn(dir, Spec{})
	known := snapshot(t, s, "").TreeHash
	most := 0
	for i := range mostPacks + 5 {
		b.write("fleet/a.cue", fmt.Sprint("more", i))
		b.commit()
		tree := snapshot(t, s, known)
		if string(tree.Files["fleet/a.cue"]) != fmt.Sprint("more", i) {
			t.Fatalf("%d: %q", i, tree.Files)
		}
		known = tree.TreeHash
		packs, err := filepath.Glob(filepath.Join(dir, "objects/pack/*.pack"))
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, len(packs))
	}
	if most > mostPacks+1 {
		t.Errorf("%d packs", most)
	}
}

func TestOneProcessAtATime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("fleet/a.cue", "a")
	b.commit()
	dir := t.TempDir()
	st := &store{dir: dir}
	if err := st.open(); err != nil {
		t.Fatal(err)
	}
	s := b.storedIn(dir, Spec{})
	if _, err := s.Snapshot(t.Context(), ""); errs.CodeOf(err) != errs.Unavailable {
		t.Errorf("error is %v", err)
	}
	st.release()
	snapshot(t, s, "")
}

func TestRejectedRepositoryIsNotFetchedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("fleet/a.cue", "a")
	b.commit()
	s := b.stored()
	good := snapshot(t, s, "")
	b.write("movie.bin", strings.Repeat("\x00", 17<<20))
	b.commit()
	dir := s.dir
	for range 2 {
		tree := snapshot(t, s, good.TreeHash)
		if len(tree.Findings) != 1 || tree.Findings[0].Code != "repository_too_large" || tree.Commit != b.git("rev-parse", "HEAD") {
			t.Fatalf("%+v", tree)
		}
		packs, _ := filepath.Glob(filepath.Join(dir, "objects/pack/*"))
		if len(packs) > 0 {
			t.Errorf("retained %v", packs)
		}
	}
	b.git("reset", "-q", "--hard", "HEAD~1")
	if tree := snapshot(t, s, ""); tree.TreeHash != good.TreeHash || len(tree.Findings) > 0 {
		t.Errorf("%+v", tree)
	}
}

func TestRevertTo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("fleet/a.cue", "old")
	b.write("fleet/gone/b.cue", "old")
	b.write("docs/x.md", "old")
	old := b.commit()
	b.git("rm", "-rq", "fleet/gone")
	b.write("fleet/a.cue", "new")
	b.write("fleet/c.cue", "new")
	b.write("docs/x.md", "new")
	head := b.commit()
	b.write("fleet/a.cue", "being edited")
	b.write("fleet/staged.cue", "staged")
	b.git("add", "fleet/staged.cue")
	status := b.git("status", "--porcelain")

	r, err := RevertTo(t.Context(), b.path, old, []string{"fleet"}, "rollback", "Back\n", Author{Name: "o", Email: "o@example.com", At: noon})
	if err != nil {
		t.Fatal(err)
	}
	if b.git("rev-parse", "HEAD") != head || b.git("status", "--porcelain") != status || b.git("rev-parse", "rollback") != r.Commit || r.Base != head {
		t.Errorf("touched more than its branch: %+v", r)
	}
	if b.git("rev-parse", "rollback:fleet") != b.git("rev-parse", old+":fleet") || b.git("rev-parse", "rollback:docs") != b.git("rev-parse", head+":docs") {
		t.Errorf("tree is %s", b.git("ls-tree", "-r", "rollback"))
	}
	if b.git("log", "-1", "--format=%an %ae %s %P", "rollback") != "o o@example.com Back "+head {
		t.Error(b.git("log", "-1", "rollback"))
	}
	b.git("fsck", "--strict")
	for name, c := range map[string]struct {
		branch, to string
		want       errs.Code
	}{
		"twice":     {"rollback", old, errs.AlreadyExists},
		"nothing":   {"other", head, errs.Conflict},
		"no commit": {"other", strings.Repeat("1", 40), errs.NotFound},
		"no branch": {"-x..y", old, errs.ValidationError},
	} {
		if _, err := RevertTo(t.Context(), b.path, c.to, []string{"fleet"}, c.branch, "x", Author{}); errs.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func TestStoreEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("fleet/a.cue", "a")
	b.commit()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := b.stored()
	if _, err := s.Snapshot(ctx, ""); err == nil {
		t.Error("no error")
	}
	if left, _ := os.ReadDir(filepath.Join(s.dir, "objects/pack")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	snapshot(t, s, "")
}
