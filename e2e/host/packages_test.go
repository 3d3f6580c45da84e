//go:build e2e

package host

import (
	"os"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/e2e/rig"
)

// packages lists the packages whose tests change the host OS.
var packages = []string{"github.com/gpuaas/gpuaas/agent/linux", "github.com/gpuaas/gpuaas/agent/linux/sweep"}

// TestInside runs the tests of each package in its own booted container. GPUAAS_INSIDE_RUN is a pattern
// for the names of the tests.
func TestInside(t *testing.T) {
	t.Parallel()
	for _, pkg := range packages {
		t.Run(strings.TrimPrefix(pkg, "github.com/gpuaas/gpuaas/agent/"), func(t *testing.T) {
			t.Parallel()
			h := rig.New(t, rig.Options{Profile: "l40s-4"})
			h.RunInside(t, pkg, "-test.run="+os.Getenv("GPUAAS_INSIDE_RUN"), "-test.timeout=15m")
		})
	}
}
