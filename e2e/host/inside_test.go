//go:build e2e

package host

import (
	"os"
	"testing"

	"github.com/gpuaas/gpuaas/e2e/rig"
)

// inside are the packages whose tests change the host that they run on.
var inside = []string{"github.com/gpuaas/gpuaas/agent/linux", "github.com/gpuaas/gpuaas/agent/linux/sweep"}

// TestInside runs them on a host of their own each. GPUAAS_INSIDE_RUN is a pattern
// for the tests of the package.
func TestInside(t *testing.T) {
	t.Parallel()
	for _, pkg := range inside {
		t.Run(pkg, func(t *testing.T) {
			t.Parallel()
			h := rig.New(t, rig.Options{Profile: "l40s-4"})
			h.RunInside(t, pkg, "-test.run="+os.Getenv("GPUAAS_INSIDE_RUN"), "-test.timeout=15m")
		})
	}
}
