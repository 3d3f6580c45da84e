package process_test

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/linux/process"
)

// FuzzStatus: a process belongs to the user that the kernel prints, whatever its name is. The kernel escapes a line
// break in a name.
func FuzzStatus(f *testing.F) {
	for _, name := range []string{"sleep", "x) S 1 (", "Uid:\t0\t0\t0\t0", "State: Z", "\xff", ""} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		h := &hostos.OS{Root: t.TempDir()}
		name = strings.NewReplacer("\n", "\\n", "\\", "\\\\").Replace(name)
		write(t, h, "/proc/7/status", "Name:\t"+name+"\nState:\tS (sleeping)\nUid:\t200001\t200001\t200001\t200001\n")
		table, err := process.List(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		found := table.Using(nil)
		if len(found) != 1 || found[0].UID != 200001 || found[0].PID != 7 {
			t.Errorf("%q: %+v", name, found)
		}
	})
}

// FuzzMembers: any list of a control group, and any status.
func FuzzMembers(f *testing.F) {
	f.Add("7\n8\n", "Name:\tx\nUid:\t200001\t200001\t200001\t200001\n")
	f.Add("-7\n99999999999999999999\n\x00", "Uid: 1 2\n")
	f.Fuzz(func(t *testing.T, procs, status string) {
		h := &hostos.OS{Root: t.TempDir()}
		write(t, h, "/proc/7/status", status)
		write(t, h, "/sys/fs/cgroup/user.slice/user-200001.slice/cgroup.procs", procs)
		table, _ := process.List(t.Context(), h)
		if table == nil {
			return
		}
		for _, p := range table.Using(nil) {
			if p.PID != 7 {
				t.Errorf("%q, %q: %+v", procs, status, p)
			}
		}
	})
}
