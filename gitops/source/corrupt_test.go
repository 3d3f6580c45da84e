package source

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// cutting answers with no more than so many bytes of a pack.
type cutting struct {
	http.ResponseWriter
	left *int64
}

func (c cutting) Write(b []byte) (int, error) {
	if *c.left -= int64(len(b)); *c.left < 0 {
		panic(http.ErrAbortHandler) // the line breaks
	}
	return c.ResponseWriter.Write(b)
}

// A line that breaks after any kilobyte leaves no half of a commit: the tree is
// whole or there is none, and the store goes on.
func TestINV10TornOnTheLine(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.noise(30)
	b.commit()
	var left atomic.Int64
	f := b.forge(func(inner http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				n := left.Load()
				w = cutting{w, &n}
			}
			inner.ServeHTTP(w, r)
		})
	})
	left.Store(1 << 40)
	s := b.storedIn(t.TempDir(), b.over(f))
	first := snapshot(t, s, "")
	b.noise(40)
	b.commit()
	torn, whole := 0, false
	for n := int64(0); !whole; n += 1 << 10 {
		left.Store(n)
		tree, err := s.Snapshot(t.Context(), first.TreeHash)
		switch {
		case err == nil && len(tree.Files) == 40:
			whole = true
		case errs.CodeOf(err) != errs.Unavailable:
			t.Fatalf("cut at %d: %d files, %v", n, len(tree.Files), err)
		default:
			torn++
		}
	}
	if torn < 30 {
		t.Errorf("only %d cuts", torn)
	}
}

// noise writes files that do not deflate.
func (b bundle) noise(n int) {
	b.t.Helper()
	random, err := os.Open("/dev/urandom")
	if err != nil {
		b.t.Fatal(err)
	}
	defer random.Close()
	body := make([]byte, 700)
	for i := range n {
		if _, err := io.ReadFull(random, body); err != nil {
			b.t.Fatal(err)
		}
		b.write(fmt.Sprintf("fleet/n%02d.yaml", i), fmt.Sprintf("%x", body))
	}
}

// A store that was cut at any kilobyte, by a crash or a full disk, is found to be
// so and fetched again.
func TestINV10TornOnDisk(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.noise(30)
	b.commit()
	dir := t.TempDir()
	want := snapshot(t, b.storedIn(dir, Spec{}), "")
	for _, kind := range []string{"pack", "idx"} {
		for n := int64(0); ; n += 1 << 10 {
			found, err := filepath.Glob(filepath.Join(dir, "objects/pack/*."+kind))
			if err != nil || len(found) != 1 {
				t.Fatal(found, err)
			}
			if info, err := os.Stat(found[0]); err != nil || info.Size() <= n {
				break
			}
			if err := os.Truncate(found[0], n); err != nil {
				t.Fatal(err)
			}
			tree := snapshot(t, b.storedIn(dir, Spec{}), "")
			if tree.TreeHash != want.TreeHash || len(tree.Files) != 30 {
				t.Fatalf("%s cut at %d: %d files", kind, n, len(tree.Files))
			}
		}
	}
}

// A store with flipped bits is fetched again, whether or not a process has it open.
func TestINV10BitsThatTurn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.noise(10)
	b.commit()
	dir := t.TempDir()
	open := b.storedIn(dir, Spec{})
	want := snapshot(t, open, "")
	for _, name := range []string{"pack", "idx", "json"} {
		for at := 0.1; at < 1; at += 0.2 {
			for _, s := range []*Source{open, b.storedIn(dir, Spec{})} {
				found, err := filepath.Glob(filepath.Join(dir, map[string]string{"pack": "objects/pack/*.pack", "idx": "objects/pack/*.idx", "json": stateFile}[name]))
				if err != nil || len(found) != 1 {
					t.Fatal(found, err)
				}
				body, err := os.ReadFile(found[0])
				if err != nil {
					t.Fatal(err)
				}
				body[int(at*float64(len(body)))] ^= 0x41
				if err := os.WriteFile(found[0], body, 0o600); err != nil {
					t.Fatal(err)
				}
				tree := snapshot(t, s, "")
				if tree.TreeHash != want.TreeHash || fmt.Sprint(tree.Files) != fmt.Sprint(want.Files) {
					t.Errorf("%s at %.1f: %d files", name, at, len(tree.Files))
				}
			}
		}
	}
}

// Pushes and forced pushes while it is read: each read is one of the commits, whole.
func TestINV10RefMovesWhileRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	trees := map[string]string{}
	for i := range 6 {
		for j := range 5 {
			b.write(fmt.Sprintf("fleet/n%d.yaml", j), fmt.Sprint(i))
		}
		trees[b.commit()] = fmt.Sprint(i)
	}
	var commits []string
	for c := range trees {
		commits = append(commits, c)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			_ = exec.Command("git", "-C", b.path, "update-ref", "refs/heads/main", commits[i%len(commits)]).Run()
		}
	}()
	s := b.stored()
	known := ""
	for range 40 {
		tree, err := s.Snapshot(t.Context(), known)
		if errs.CodeOf(err) == errs.Unavailable || errs.CodeOf(err) == errs.NotFound {
			continue // between the answer and the question
		}
		if err != nil {
			t.Fatal(err)
		}
		for name, body := range tree.Files {
			if string(body) != trees[tree.Commit] {
				t.Errorf("%s of %s is %s", name, tree.Commit, body)
			}
		}
		known = tree.TreeHash
	}
	cancel()
	<-done
}

// Repositories that are shallow themselves, or lack what they promise.
func TestINV10ShallowAndPartialRepositories(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 5 {
		b.write("fleet/a.cue", fmt.Sprint(i))
		b.commit()
	}
	to := t.TempDir()
	b.git("clone", "-q", "--bare", "--depth", "2", "file://"+b.path, to+"/shallow.git")
	b.git("config", "uploadpack.allowFilter", "true")
	b.git("clone", "-q", "--bare", "--filter=blob:none", "file://"+b.path, to+"/partial.git")
	shallow := b.storedIn(t.TempDir(), Spec{Location: to + "/shallow.git", AllowFile: true})
	tree := snapshot(t, shallow, "")
	if len(tree.Files) != 1 {
		t.Errorf("shallow: %+v", tree)
	}
	if yes, err := shallow.Descends(t.Context(), tree.Commit, b.git("rev-parse", "HEAD~4")); yes || err != nil {
		t.Errorf("beyond a shallow repository: %v, %v", yes, err)
	}
	// The blobs are in another repository, and no lazy fetch is made.
	partial := b.storedIn(t.TempDir(), Spec{Location: to + "/partial.git", AllowFile: true})
	if tree, err := partial.Snapshot(t.Context(), ""); err == nil || len(tree.Files) > 0 {
		t.Errorf("partial: %+v", tree)
	}
}

// A full disk changes nothing: stored commits can be read, and a later poll succeeds.
func TestINV10FullDisk(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root mounts a small disk")
	}
	small := t.TempDir()
	if err := syscall.Mount("none", small, "tmpfs", 0, "size=96k"); err != nil {
		t.Skip("cannot mount a small disk: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(small, syscall.MNT_DETACH) })
	b := setup(t)
	b.noise(5)
	b.commit()
	s := b.storedIn(filepath.Join(small, "store"), Spec{})
	first := snapshot(t, s, "")
	b.noise(300)
	b.commit()
	_, err := s.Snapshot(t.Context(), first.TreeHash)
	if errs.CodeOf(err) != errs.Unavailable || !strings.Contains(err.Error(), "cannot be written") {
		t.Fatalf("error is %v", err)
	}
	tree, err := s.At(t.Context(), first.Commit, "")
	if err != nil || len(tree.Files) != 5 {
		t.Errorf("what was there: %d files, %v", len(tree.Files), err)
	}
	b.git("reset", "-q", "--hard", "HEAD~1")
	b.write("fleet/n00.yaml", "small")
	b.commit()
	if tree := snapshot(t, s, first.TreeHash); string(tree.Files["fleet/n00.yaml"]) != "small" {
		t.Errorf("%d files", len(tree.Files))
	}
}
