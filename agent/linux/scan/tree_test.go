package scan_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaas/agent/linux/scan"
)

// The tenant that leaves, and one that stays.
const leaving, staying = 2000000003, 2000000004

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

// chain makes a folder per level below top, owned by uid, and returns the last one.
func chain(t *testing.T, top string, levels, uid int) (last int) {
	t.Helper()
	at, err := unix.Open(top, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	check(t, err)
	for range levels {
		check(t, unix.Mkdirat(at, "deep", 0o700))
		check(t, unix.Fchownat(at, "deep", uid, uid, 0))
		next, err := unix.Openat(at, "deep", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		check(t, err)
		check(t, unix.Close(at))
		at = next
	}
	return at
}

// unchain removes a chain from its end.
func unchain(t *testing.T, last, levels int) {
	t.Helper()
	for range levels {
		above, err := unix.Openat(last, "..", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		check(t, err)
		check(t, unix.Close(last))
		check(t, unix.Unlinkat(above, "deep", unix.AT_REMOVEDIR))
		last = above
	}
	check(t, unix.Close(last))
}

// Threat: what a tenant leaves below the longest path is not found, and the proof confirms that nothing is left.
func TestFilesBelowTheLongestPath(t *testing.T) { //nolint:paralleltest // it limits descriptors
	needsRoot(t)
	top := t.TempDir()
	const levels = 20000
	last := chain(t, top, levels, staying)
	defer unchain(t, last, levels)
	fd, err := unix.Openat(last, "left", unix.O_CREAT|unix.O_WRONLY, 0o600)
	check(t, err)
	check(t, unix.Fchown(fd, leaving, leaving))
	check(t, unix.Close(fd))
	defer func() { check(t, unix.Unlinkat(last, "left", 0)) }()
	var was unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 200, Max: was.Max}))
	defer func() { check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was)) }()
	found, over, err := scan.Below(t.Context(), "t-leaving", leaving, top)
	if err != nil || len(over) > 0 || len(found) != 1 || !strings.HasSuffix(found[0], "left") {
		t.Errorf("%.300q, over %v, %v", found, over, err)
	}
}

// Threat: the files, and the names, of one tenant make the release of another fail.
func TestAnotherTenantFailsNoRelease(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	top := t.TempDir()
	theirs := filepath.Join(top, "theirs")
	for i := range 102 {
		dir := filepath.Join(theirs, fmt.Sprint(i))
		check(t, os.MkdirAll(dir, 0o755))
		check(t, os.WriteFile(filepath.Join(dir, "t-leaving"), nil, 0o600))
		check(t, os.Lchown(filepath.Join(dir, "t-leaving"), staying, staying))
		for j := range 999 {
			check(t, os.Link(filepath.Join(dir, "t-leaving"), filepath.Join(dir, fmt.Sprint(j))))
		}
		check(t, os.Lchown(dir, staying, staying))
	}
	check(t, os.Lchown(theirs, staying, staying))
	check(t, os.WriteFile(filepath.Join(top, "mine"), nil, 0o600))
	check(t, os.Lchown(filepath.Join(top, "mine"), leaving, 0))
	check(t, unix.Mkfifo(filepath.Join(top, "fifo"), 0o600))
	check(t, os.WriteFile(filepath.Join(top, "group"), nil, 0o600))
	check(t, os.Lchown(filepath.Join(top, "group"), 0, leaving))
	found, over, err := scan.Below(t.Context(), "t-leaving", leaving, top)
	want := []string{"file " + top + "/group of the tenant's group", "file " + top + "/mine"}
	if err != nil || !slices.Equal(over, []int{staying}) || !slices.Equal(found, want) {
		t.Errorf("%q, over %v, %v", found, over, err)
	}
}

// INV-72. Threat: a neighbour's processes show so many descriptors that a release does not end.
func TestDescriptorsOfAnotherTenant(t *testing.T) {
	t.Parallel()
	table := t.TempDir()
	for i := range 102_000 {
		check(t, os.Symlink("x", filepath.Join(table, fmt.Sprint(i))))
	}
	for owner, want := range map[int][]int{staying: {staying}, leaving: {}, 0: {}} {
		if _, over, err := scan.UsesOf(t.Context(), leaving, table, owner); err != nil || !slices.Equal(over, want) {
			t.Errorf("owner %d: over %v, %v", owner, over, err)
		}
	}
}
