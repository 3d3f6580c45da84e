package sweep_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaas/agent/linux/sweep"
)

// The tenant that leaves, and one that stays.
const leaving, staying = 2000000001, 2000000002

// needsRoot skips a test that gives files to tenants. It changes its own folder only.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// deep makes a tree of one folder per level, and a file at its end.
func deep(t *testing.T, top string, levels, uid int) {
	t.Helper()
	at, err := unix.Open(top, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	check(t, err)
	for range levels {
		check(t, unix.Mkdirat(at, "d", 0o700))
		check(t, unix.Fchownat(at, "d", uid, uid, 0))
		next, err := unix.Openat(at, "d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		check(t, err)
		check(t, unix.Close(at))
		at = next
	}
	fd, err := unix.Openat(at, "end", unix.O_CREAT|unix.O_WRONLY, 0o600)
	check(t, err)
	check(t, unix.Fchown(fd, uid, uid))
	check(t, unix.Close(fd))
	check(t, unix.Close(at))
}

func give(t *testing.T, uid int, paths ...string) {
	t.Helper()
	for _, path := range paths {
		check(t, os.Lchown(path, uid, uid))
	}
}

// few limits the descriptors of this process. A walk with one open folder needs no more.
func few(t *testing.T) {
	t.Helper()
	var was unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 200, Max: was.Max}))
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &was) })
}

// uproot removes a tree that is too deep for the tools.
func uproot(t *testing.T, top string) {
	t.Helper()
	for _, uid := range []int{leaving, staying} {
		_ = sweep.Tenant{UID: uid}.SweepBelow(context.Background(), top)
	}
}

// Threat: another tenant's tree has more levels than this process may have descriptors, and its path is
// longer than a path may be. The release removes what is below it all the same, and does not fail.
func TestTreesDeeperThanDescriptors(t *testing.T) { //nolint:paralleltest // it limits descriptors
	needsRoot(t)
	top := t.TempDir()
	defer uproot(t, top)
	own, other := filepath.Join(top, "own"), filepath.Join(top, "other")
	for _, dir := range []string{own, other} {
		check(t, os.Mkdir(dir, 0o755))
	}
	const levels = 20000
	deep(t, own, levels, leaving)
	deep(t, other, levels, staying)
	few(t)
	began := time.Now()
	check(t, sweep.Tenant{UID: leaving}.SweepBelow(t.Context(), top))
	t.Logf("%d levels twice: %s", levels, time.Since(began).Round(time.Millisecond))
	if left, err := os.ReadDir(own); err != nil || len(left) > 0 {
		t.Errorf("left of the own tree: %v, %v", left, err)
	}
	if left, err := os.ReadDir(other); err != nil || len(left) != 1 {
		t.Errorf("the tree of another tenant: %v, %v", left, err)
	}
}

// Threat: another tenant has so many files that a release does not end within its limit. What exceeds the
// budget counts against its owner, and the release succeeds.
func TestManyFilesOfAnotherTenant(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	top := t.TempDir()
	theirs := filepath.Join(top, "theirs")
	check(t, os.Mkdir(theirs, 0o755))
	give(t, staying, theirs)
	for i := range 102 {
		dir := filepath.Join(theirs, fmt.Sprint(i))
		check(t, os.Mkdir(dir, 0o755))
		give(t, staying, dir)
		check(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
		for j := range 999 {
			check(t, os.Link(filepath.Join(dir, "x"), filepath.Join(dir, fmt.Sprint(j))))
		}
	}
	mine := filepath.Join(top, "mine")
	check(t, os.WriteFile(mine, nil, 0o600))
	give(t, leaving, mine)
	var skipped []int
	check(t, sweep.Tenant{UID: leaving, Skipped: func(uid int) { skipped = append(skipped, uid) }}.SweepBelow(t.Context(), top))
	if !slices.Equal(skipped, []int{staying}) {
		t.Errorf("skipped %v", skipped)
	}
	if _, err := os.Lstat(mine); err == nil {
		t.Error("the own file is left")
	}
}

// Threat: another tenant moves its folders while the release walks in them.
func TestFoldersThatMove(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	top := t.TempDir()
	a, b := filepath.Join(top, "a"), filepath.Join(top, "b")
	for _, dir := range []string{a, b} {
		check(t, os.Mkdir(dir, 0o755))
		give(t, staying, dir)
	}
	for i := range 200 {
		at := a
		for range 4 {
			at = filepath.Join(at, fmt.Sprint(i))
			check(t, os.Mkdir(at, 0o755))
			give(t, staying, at)
		}
	}
	mine := filepath.Join(top, "mine")
	check(t, os.MkdirAll(mine, 0o755))
	give(t, leaving, mine)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			name := fmt.Sprint(i % 200)
			_ = os.Rename(filepath.Join(a, name, name), filepath.Join(b, name))
			_ = os.Rename(filepath.Join(b, name), filepath.Join(a, name, name))
		}
	}()
	for range 50 {
		if err := (sweep.Tenant{UID: leaving}).SweepBelow(t.Context(), top); err != nil {
			t.Error(err)
		}
	}
	close(done)
	<-ended
	if _, err := os.Lstat(mine); err == nil {
		t.Error("the own folder is left")
	}
}

// What a release removes and what it leaves in folders of several owners.
func TestMixedFolders(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	top := t.TempDir()
	check(t, os.MkdirAll(filepath.Join(top, "mine/of-other"), 0o755))
	check(t, os.MkdirAll(filepath.Join(top, "mine/of-root/deeper"), 0o755))
	check(t, os.MkdirAll(filepath.Join(top, "gone/of-root"), 0o755))
	for name, uid := range map[string]int{"mine": leaving, "mine/of-other": staying, "gone": leaving} {
		give(t, uid, filepath.Join(top, name))
	}
	for name, uid := range map[string]int{"mine/x": leaving, "mine/of-other/mine": leaving, "mine/of-other/theirs": staying, "gone/of-root/x": 0, "roots": 0, "group": 0} {
		check(t, os.WriteFile(filepath.Join(top, name), nil, 0o600))
		give(t, uid, filepath.Join(top, name))
	}
	check(t, unix.Mkfifo(filepath.Join(top, "gone/fifo"), 0o600))
	check(t, os.Lchown(filepath.Join(top, "group"), 0, leaving))
	check(t, sweep.Tenant{UID: leaving}.SweepBelow(t.Context(), top))
	var left []string
	check(t, filepath.WalkDir(top, func(path string, _ os.DirEntry, err error) error {
		var stat unix.Stat_t
		check(t, unix.Lstat(path, &stat))
		left = append(left, fmt.Sprintf("%s %d %d", path[len(top):], stat.Uid, stat.Gid))
		return err
	}))
	other := fmt.Sprintf(" %d %[1]d", staying)
	want := []string{" 0 0", "/group 0 0", "/mine 0 0", "/mine/of-other" + other, "/mine/of-other/theirs" + other, "/roots 0 0"}
	if !slices.Equal(left, want) {
		t.Errorf("left\n%q\nwant\n%q", left, want)
	}
}

// Threat: a tenant puts a link into the world-writable /tmp, where root expands a pattern and removes what
// it finds.
func TestLinksInTmpAreNotFollowed(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	const name = "t-sweep-named"
	victim := t.TempDir()
	check(t, os.MkdirAll(filepath.Join(victim, name, "precious"), 0o755))
	link := filepath.Join(os.TempDir(), "gpuaas-"+name+".inst")
	check(t, os.Symlink(victim, link))
	t.Cleanup(func() { _ = os.Remove(link) })
	check(t, sweep.Tenant{Name: name, UID: leaving}.SweepNamed(t.Context()))
	if _, err := os.Stat(filepath.Join(victim, name, "precious")); err != nil {
		t.Errorf("root removed the folder of another user: %v", err)
	}
}
