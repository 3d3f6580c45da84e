package source

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// bundle is a repository made with the real git.
type bundle struct {
	t    *testing.T
	path string
}

func setup(t *testing.T) bundle {
	t.Helper()
	b := bundle{t, t.TempDir()}
	b.git("init", "-q", "-b", "main")
	return b
}

func (b bundle) git(args ...string) string {
	b.t.Helper()
	return b.gitIn("", args...)
}

func (b bundle) gitIn(stdin string, args ...string) string {
	b.t.Helper()
	cmd := exec.CommandContext(b.t.Context(), "git", args...)
	cmd.Dir = b.path
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t",
		"GIT_COMMITTER_EMAIL=t@example.com", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_TERMINAL_PROMPT=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (b bundle) write(name, body string) {
	b.t.Helper()
	full := filepath.Join(b.path, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(body), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b bundle) commit() string {
	b.t.Helper()
	b.git("add", "-A")
	b.git("commit", "-q", "--allow-empty", "-m", "x")
	return b.git("rev-parse", "HEAD")
}

func (b bundle) open(ref string) *Source {
	b.t.Helper()
	s, err := Open(b.path, ref, "fleet")
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func snapshot(t *testing.T, s *Source, known string) Tree {
	t.Helper()
	tree, err := s.Snapshot(t.Context(), known)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestSnapshotIsOneCommit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("fleet/a.cue", "a")
	b.write("fleet/sub/b.yaml", "b")
	b.write("fleet/README.md", "no declaration")
	b.write("fleet/.hidden.yaml", "neither")
	b.write("other/c.cue", "elsewhere")
	first := b.commit()
	b.write("fleet/a.cue", "uncommitted")

	tree := snapshot(t, b.open("main"), "")
	if tree.Commit != first || tree.Dirty || len(tree.Findings) > 0 {
		t.Errorf("tree is %+v", tree)
	}
	if len(tree.Files) != 2 || string(tree.Files["fleet/a.cue"]) != "a" || string(tree.Files["fleet/sub/b.yaml"]) != "b" {
		t.Errorf("files are %q", tree.Files)
	}
}

func TestUnchangedTreeReadsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("fleet/a.cue", "a")
	b.commit()
	s := b.open("main")
	before := snapshot(t, s, "")

	b.write("docs/x.md", "elsewhere")
	moved := b.commit()
	// Without its blob the commit can only be read by not reading it.
	b.removeObject(b.git("rev-parse", "HEAD:fleet/a.cue"))
	after := snapshot(t, s, before.TreeHash)
	if !after.Unchanged || after.Commit != moved || after.TreeHash != before.TreeHash || after.Files != nil {
		t.Errorf("tree is %+v", after)
	}
}

func (b bundle) removeObject(hash string) {
	b.t.Helper()
	if err := os.Remove(filepath.Join(b.path, ".git/objects", hash[:2], hash[2:])); err != nil {
		b.t.Fatal(err)
	}
}

func TestTornCommitIsUnavailable(t *testing.T) {
	t.Parallel()
	for name, object := range map[string]string{"blob": "HEAD:fleet/a.cue", "tree": "HEAD:fleet", "root": "HEAD^{tree}", "commit": "HEAD"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write("fleet/a.cue", "a")
			b.commit()
			b.removeObject(b.git("rev-parse", object))

			tree, err := b.open("main").Snapshot(t.Context(), "")
			if errs.CodeOf(err) != errs.Unavailable && errs.CodeOf(err) != errs.NotFound {
				t.Errorf("tree %+v, error %v", tree, err)
			}
		})
	}
}

func TestRefMovesAndPacksChange(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("fleet/a.cue", "one")
	one := b.commit()
	s := b.open("main")
	if tree := snapshot(t, s, ""); tree.Commit != one {
		t.Errorf("commit is %s", tree.Commit)
	}
	b.write("fleet/a.cue", "two")
	two := b.commit()
	b.git("gc", "-q", "--prune=now")
	if tree := snapshot(t, s, ""); tree.Commit != two || string(tree.Files["fleet/a.cue"]) != "two" {
		t.Errorf("tree is %+v", tree)
	}
	b.git("reset", "-q", "--hard", one) // forced back
	if tree := snapshot(t, s, ""); tree.Commit != one || string(tree.Files["fleet/a.cue"]) != "one" {
		t.Errorf("tree is %+v", tree)
	}
	if tree := snapshot(t, b.open(two), ""); tree.Commit != two {
		t.Errorf("a hash names its commit: %+v", tree)
	}
}

// A hostile tree is rejected before any content is read: each of these blobs is missing in the
// repository, or huge.
func TestHostileTreesAreRejected(t *testing.T) {
	t.Parallel()
	const ok = "100644 blob %s\tgood.cue\n"
	for name, c := range map[string]struct {
		entries string // of the folder fleet, as git mktree reads them
		want    string
	}{
		"symlink":         {"120000 blob %s\ta.cue\n", "symbolic link"},
		"executable":      {"100755 blob %s\ta.cue\n", "executable"},
		"submodule":       {"160000 commit 1234567890123456789012345678901234567890\tsub\n", "submodule"},
		"control":         {"100644 blob %s\ta\x1b[2J.cue\n", "invisible or control"},
		"right to left":   {"100644 blob %s\ta\u202eeuc.cue\n", "invisible or control"},
		"case twins":      {"100644 blob %s\tA.cue\n100644 blob %[1]s\ta.cue\n", "differs from"},
		"folded twins":    {"100644 blob %s\tmass.cue\n100644 blob %[1]s\tmaß.cue\n", "differs from"},
		"decomposed":      {"100644 blob %s\te\u0301.cue\n", "normal form C"},
		"dot git":         {"100644 blob %s\t.GIT\n", "Git's own folder"},
		"short dot git":   {"100644 blob %s\tgit~1\n", "Git's own folder"},
		"hidden dot git":  {"100644 blob %s\t.g\u200cit\n", "Git's own folder"},
		"dot git stream":  {"100644 blob %s\t.git::$INDEX_ALLOCATION\n", "Git's own folder"},
		"backslash":       {"100644 blob %s\t..\\a.cue\n", "points elsewhere"},
		"up":              {"100644 blob %s\t..\n", "points elsewhere"},
		"not utf-8":       {"100644 blob %s\ta\xff.cue\n", "not UTF-8"},
		"control for all": {ok + "100644 blob %[1]s\ta\x01.md\n", "invisible or control"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write("x", "x")
			b.commit()
			blob := b.gitIn("content", "hash-object", "-w", "--stdin")
			entries := strings.ReplaceAll(strings.ReplaceAll(c.entries, "%[1]s", blob), "%s", blob)
			fleet := b.gitIn(strings.ReplaceAll(entries, "\n", "\x00"), "mktree", "--missing", "-z")
			b.point(fleet)

			tree := snapshot(t, b.open("main"), "")
			if len(tree.Files) > 0 || len(tree.Findings) != 1 || !strings.Contains(tree.Findings[0].Message, c.want) {
				t.Fatalf("files %q, findings %v, want %q", tree.Files, tree.Findings, c.want)
			}
			if strings.ContainsFunc(tree.Findings[0].String(), func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("the finding repaints terminals: %q", tree.Findings[0])
			}
		})
	}
}

// point makes main a commit whose folder fleet is the tree.
func (b bundle) point(fleet string) {
	b.t.Helper()
	root := b.gitIn("040000 tree "+fleet+"\tfleet\n", "mktree", "--missing")
	b.git("update-ref", "refs/heads/main", b.git("commit-tree", "-m", "x", root))
}

func TestLimits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, size := range map[string]int{"a.cue": 100, "b.cue": 100, "c.cue": 101, "big.bin": 5000} {
		b.write("fleet/"+name, strings.Repeat("x", size))
	}
	b.commit()
	for name, c := range map[string]struct {
		limits Limits
		want   string
	}{
		"fits":       {Limits{5, 101, 301}, ""},
		"files":      {Limits{3, 1000, 1000}, "more than 3 files"},
		"file bytes": {Limits{10, 100, 1000}, "has 101 bytes"},
		"tree bytes": {Limits{10, 1000, 300}, "has 301 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := b.open("main")
			s.Limits = c.limits
			committed := snapshot(t, s, "")
			uncommitted, err := s.WorkTree(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for where, tree := range map[string]Tree{"commit": committed, "checkout": uncommitted} {
				switch {
				case c.want == "" && (len(tree.Findings) > 0 || len(tree.Files) != 3):
					t.Errorf("%s: %+v", where, tree)
				case c.want != "" && (len(tree.Findings) != 1 || !strings.Contains(tree.Findings[0].Message, c.want)):
					t.Errorf("%s: findings %v, want %q", where, tree.Findings, c.want)
				}
			}
		})
	}
}

func TestWorkTree(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("fleet/a.cue", "a")
	s := b.open("HEAD")
	tree, err := s.WorkTree(t.Context())
	if err != nil || !tree.Dirty || tree.Commit != WorkTreeCommit || string(tree.Files["fleet/a.cue"]) != "a" {
		t.Errorf("nothing committed yet: %+v, %v", tree, err)
	}
	commit := b.commit()
	if tree, err = s.WorkTree(t.Context()); err != nil || tree.Dirty || tree.Commit != commit {
		t.Errorf("clean: %+v, %v", tree, err)
	}
	clean := tree.TreeHash
	b.write("fleet/new.yaml", "b")
	if tree, err = s.WorkTree(t.Context()); err != nil || !tree.Dirty || tree.Commit != WorkTreeCommit || len(tree.Files) != 2 || tree.TreeHash == clean {
		t.Errorf("dirty: %+v, %v", tree, err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(b.path, "fleet/link.cue")); err != nil {
		t.Fatal(err)
	}
	if tree, err = s.WorkTree(t.Context()); err != nil || len(tree.Findings) != 1 || len(tree.Files) > 0 {
		t.Errorf("symlink: %+v, %v", tree, err)
	}
}

func TestLinkedAndBareAndSubfolder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("fleet/a.cue", "a")
	commit := b.commit()
	linked, bare := t.TempDir(), t.TempDir()
	b.git("worktree", "add", "-q", "-b", "other", filepath.Join(linked, "w"))
	b.git("clone", "-q", "--bare", b.path, filepath.Join(bare, "r.git"))

	for name, path := range map[string]string{"linked": filepath.Join(linked, "w"), "bare": filepath.Join(bare, "r.git"), "subfolder": filepath.Join(b.path, "fleet"), "url": "file://" + b.path} {
		s, err := Open(path, "", "fleet")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if tree := snapshot(t, s, ""); tree.Commit != commit || string(tree.Files["fleet/a.cue"]) != "a" {
			t.Errorf("%s: %+v", name, tree)
		}
	}
	if s, err := Open(filepath.Join(bare, "r.git"), "", "fleet"); err != nil {
		t.Error(err)
	} else if _, err := s.WorkTree(t.Context()); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("a bare repository has no checkout: %v", err)
	}
}

func TestRemoteRefs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("fleet/a.cue", "one")
	one := b.commit()
	b.git("tag", "v1")
	b.write("fleet/a.cue", "two")
	two := b.commit()

	for ref, want := range map[string]string{"": two, "main": two, "v1": one, "refs/heads/main": two} {
		s, err := Open("file://"+b.path, ref, "fleet")
		if err != nil {
			t.Fatal(err)
		}
		if tree := snapshot(t, s, ""); tree.Commit != want {
			t.Errorf("%q: commit is %s, want %s", ref, tree.Commit, want)
		}
	}
	for ref, at := range map[string]string{"gone": "file://" + b.path, "main": "file://" + b.path + "-nowhere"} {
		s, err := Open(at, ref, "fleet")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Snapshot(t.Context(), ""); errs.CodeOf(err) != errs.NotFound && errs.CodeOf(err) != errs.Unavailable {
			t.Errorf("%s %s: %v", at, ref, err)
		}
	}
}

func TestMissingFolderIsNoEmptyFleet(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("elsewhere/a.cue", "a")
	b.commit()
	if tree := snapshot(t, b.open("main"), ""); len(tree.Findings) != 1 || !strings.Contains(tree.Findings[0].Message, "SourceEmpty") {
		t.Errorf("commit: %+v", tree)
	}
	if tree, err := b.open("main").WorkTree(t.Context()); err != nil || len(tree.Findings) != 1 {
		t.Errorf("checkout: %+v, %v", tree, err)
	}
}

func TestOpenRejects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		location, ref, dir string
		want               errs.Code
	}{
		"program":          {"ext::sh -c id", "main", "fleet", errs.ValidationError},
		"plain http":       {"http://example.com/r.git", "main", "fleet", errs.ValidationError},
		"git":              {"git://example.com/r.git", "main", "fleet", errs.ValidationError},
		"option as server": {"ssh://-oProxyCommand=id/r.git", "main", "fleet", errs.ValidationError},
		"option path":      {"git@example.com:-x", "main", "fleet", errs.ValidationError},
		"option ref":       {".", "--upload-pack=id", "fleet", errs.ValidationError},
		"dir up":           {".", "main", "../etc", errs.ValidationError},
		"dir root":         {".", "main", "/etc", errs.ValidationError},
		"no such":          {"/nonexistent/x", "main", "fleet", errs.NotFound},
		"no repo":          {os.TempDir(), "main", "fleet", errs.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Open(c.location, c.ref, c.dir); errs.CodeOf(err) != c.want {
				t.Errorf("error is %v, want %s", err, c.want)
			}
		})
	}
}

func TestSnapshotEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("fleet/a.cue", "a")
	b.commit()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.open("main").Snapshot(ctx, ""); err == nil {
		t.Error("no error")
	}
}

func TestReadPathKeepsTheCallersPaths(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write("fleet/a.cue", "a")
	b.write("fleet/.cache/b.cue", "hidden")
	b.write("fleet/cue.mod/module.cue", "not a declaration")
	fleet := filepath.Join(b.path, "fleet")
	for name, path := range map[string]string{"folder": fleet, "folder with slash": fleet + "/", "file": filepath.Join(fleet, "a.cue")} {
		tree, err := ReadPath(t.Context(), path, DefaultLimits())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(tree.Files) != 1 || string(tree.Files[filepath.Join(fleet, "a.cue")]) != "a" {
			t.Errorf("%s: %v, findings %v", name, tree.Files, tree.Findings)
		}
	}
	if _, err := ReadPath(t.Context(), filepath.Join(fleet, "none"), DefaultLimits()); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("error is %v", err)
	}
	b.write("fleet/big.yaml", strings.Repeat("x", 200))
	tree, err := ReadPath(t.Context(), fleet, Limits{10, 100, 1000})
	if err != nil || len(tree.Findings) != 1 || tree.Findings[0].Path != filepath.Join(fleet, "big.yaml") {
		t.Errorf("%+v, %v", tree, err)
	}
}

func TestFolderOfDeclarationsIsAFolder(t *testing.T) {
	t.Parallel()
	for name, entry := range map[string]string{
		"file":      "100644 blob %s\tfleet\n",
		"symlink":   "120000 blob %s\tfleet\n",
		"submodule": "160000 commit 1234567890123456789012345678901234567890\tfleet\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write("x", "x")
			b.commit()
			blob := b.gitIn("/etc", "hash-object", "-w", "--stdin")
			root := b.gitIn(strings.ReplaceAll(entry, "%s", blob), "mktree", "--missing")
			b.git("update-ref", "refs/heads/main", b.git("commit-tree", "-m", "x", root))

			if tree := snapshot(t, b.open("main"), ""); len(tree.Findings) != 1 || len(tree.Files) > 0 || tree.TreeHash == "" {
				t.Errorf("tree is %+v", tree)
			}
		})
	}
}
