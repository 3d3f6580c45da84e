package scrub_test

import (
	"errors"
	"testing"

	"github.com/gpuaas/gpuaas/agent/scrub"
)

const gpuA = "GPU-0000aaaa-0000-0000-0000-000000000001"

// A scrub that did not happen is none.
func TestABuildWithoutCUDASaysSo(t *testing.T) {
	t.Parallel()
	if r, err := scrub.GPU(gpuA); err == nil || r.Samples != 0 {
		t.Errorf("%+v", r)
	}
	if _, err := scrub.GPU("all"); err == nil || errors.Is(err, scrub.ErrUnable) {
		t.Errorf("%v", err)
	}
}
