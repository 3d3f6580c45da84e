package sync_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gpuaas/gpuaas/gitops/source"
	gitopssync "github.com/gpuaas/gpuaas/gitops/sync"
)

// A remote repository is stored between polls in a bare repository. A restart uses the same one,
// and no poll clones again.
func TestOpenSourceKeepsAStore(t *testing.T) {
	t.Parallel()
	repo, kept := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(repo, "a.yaml"), []byte("a: 1\n"), 0o600))
	for _, args := range [][]string{{"init", "--quiet", "--initial-branch=main"}, {"add", "--all"}, {"-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false", "commit", "--quiet", "--message", "one"}} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", repo}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	head := filepath.Join(kept, "fleet", "HEAD")
	var born os.FileInfo
	for range 2 {
		source, err := gitopssync.OpenSource(func(string) string { return "" }, kept, source.Spec{Name: "fleet", Location: "file://" + repo, Ref: "main", Dirs: []string{"."}, AllowFile: true})
		must(t, err)
		tree, err := source.Snapshot(t.Context(), "")
		if err != nil || len(tree.Files) != 1 {
			t.Fatalf("%+v, %v", tree, err)
		}
		now, err := os.Stat(head)
		must(t, err)
		if born != nil && !os.SameFile(born, now) {
			t.Error("it was cloned again")
		}
		born = now
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
