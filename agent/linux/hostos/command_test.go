package hostos_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
)

func TestMountUnits(t *testing.T) {
	t.Parallel()
	if got := hostos.MountUnit("/var/lib/gpuaas/homes/u-1"); got != `var-lib-gpuaas-homes-u\x2d1.mount` {
		t.Error(got)
	}
}

// A child that hangs is left behind, and what it prints is bounded.
func TestChildren(t *testing.T) {
	t.Parallel()
	out, err := hostos.Child(t.Context(), "/bin/cat", []byte("in"))
	if err != nil || string(out) != "in" {
		t.Errorf("%q %v", out, err)
	}
	if _, err := hostos.Child(t.Context(), "/bin/sh", nil, "-c", "head -c 2000000 /dev/zero"); err == nil {
		t.Error("two megabytes were stored")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 1)
	defer cancel()
	if _, err := hostos.Child(ctx, "/bin/sh", nil, "-c", "sleep 100"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}
