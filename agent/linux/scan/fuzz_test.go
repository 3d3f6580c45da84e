package scan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/agent/linux/scan"
)

// FuzzOwnerOf: the owner of a process is the uid that the kernel prints, whatever the name of the process is.
func FuzzOwnerOf(f *testing.F) {
	for _, name := range []string{"sleep", "Uid:\t0\t0\t0\t0", "\r", ""} {
		f.Add(name, 200001)
	}
	f.Fuzz(func(t *testing.T, name string, uid int) {
		if uid < 0 || uid > 1<<31 {
			return
		}
		name = strings.NewReplacer("\n", "\\n").Replace(name)
		if got := scan.OwnerOf(fmt.Appendf(nil, "Name:\t%s\nUid:\t%d\t%[2]d\t%[2]d\t%[2]d\n", name, uid)); got != uid {
			t.Errorf("%q: %d, want %d", name, got, uid)
		}
	})
}
