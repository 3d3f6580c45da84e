//go:build e2e

package host

import (
	"testing"

	"github.com/gpuaas/gpuaas/e2e/rig"
)

// TestRestart cuts the power of a node while a tenant has a login.
func TestRestart(t *testing.T) {
	t.Parallel()
	const pkg = "github.com/gpuaas/gpuaas/agent/linux"
	h := rig.New(t, rig.Options{Profile: "t4-4"})
	h.RunInside(t, pkg, "-test.run=TestBeforeRestart")
	h.Sh(t, "sync")
	h.Kill()
	if err := h.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.RunInside(t, pkg, "-test.run=TestAfterRestart")
}
