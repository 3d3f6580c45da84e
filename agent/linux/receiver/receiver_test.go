package receiver_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaas/agent/linux/receiver"
)

// group makes a control group, or skips where the tests may not.
func group(t *testing.T) string {
	t.Helper()
	for _, top := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(top, "cgroup.procs")); err != nil {
			continue
		}
		dir, err := os.MkdirTemp(top, "gpuaas-test-") //nolint:usetesting // a control group, which is not below a folder of files
		if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EROFS) {
			t.Skip(err)
		} else if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
		return dir
	}
	t.Skip("no control groups of version 2 are mounted")
	return ""
}

func TestAttachIsALevel(t *testing.T) {
	t.Parallel()
	dir := group(t)
	is := func(want bool) {
		t.Helper()
		if got, err := receiver.IsAttached(dir); err != nil || got != want {
			t.Errorf("attached %v, %v, want %v", got, err, want)
		}
	}
	if _, err := receiver.IsAttached(dir); errors.Is(err, unix.EPERM) {
		t.Skip(err)
	}
	is(false)
	for range 2 {
		if err := receiver.Attach(dir); err != nil {
			t.Fatal(err)
		}
		is(true)
	}
	if err := receiver.AttachOther(dir); err != nil {
		t.Fatal(err)
	}
	if n, err := receiver.Count(dir); err != nil || n != 2 {
		t.Fatalf("%d programs, %v", n, err)
	}
	if err := receiver.Attach(dir); err != nil {
		t.Fatal(err)
	}
	is(true)
	if n, err := receiver.Count(dir); err != nil || n != 1 {
		t.Errorf("%d programs after an older one was replaced, %v", n, err)
	}
	for range 2 {
		if err := receiver.Detach(dir); err != nil {
			t.Fatal(err)
		}
		is(false)
	}
	if n := receiver.Loads(); n != 1 {
		t.Errorf("the program was loaded %d times to compare it", n)
	}
}

// The test of the kernel runs the program with a socket of root.
func TestWhatTheHostReceives(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what           string
		mark, priority uint32
		want           uint32
	}{
		{"a packet of the network", 0, 0, 1},
		{"a packet with a mark of the site", 200001, 0, 1},
		{"a packet with a priority of the site", 200001, 6, 1},
		{"a packet of a tenant", 200001, receiver.Priority, 0},
		{"a packet of a tenant whose mark another program has removed", 0, receiver.Priority, 0},
		{"a packet of a tenant whose mark another program has changed", 1000, receiver.Priority, 0},
		{"a packet of an unknown tenant", receiver.Unknown, receiver.Priority, 0},
		{"a packet of a tenant to what is open", receiver.Host | 200001, receiver.Priority, 1},
		{"a packet of a tenant to what is open, highest uid", receiver.Host | (1<<31 - 2), receiver.Priority, 1},
	} {
		got, err := receiver.Try(c.mark, c.priority)
		if errors.Is(err, unix.EPERM) {
			t.Skip(err)
		}
		if err != nil || got != c.want {
			t.Errorf("%s: %d, %v, want %d", c.what, got, err, c.want)
		}
	}
}
