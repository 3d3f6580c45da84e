package server_test

import (
	"testing"

	"github.com/gpuaas/gpuaas/server"
)

func TestWithoutPortalFromEnv(t *testing.T) {
	t.Parallel()

	for value, want := range map[string][2]bool{"": {false, true}, "on": {false, true}, "off": {true, true}, "false": {false, false}} {
		got, err := server.WithoutPortalFromEnv(func(string) string { return value })
		if got != want[0] || (err == nil) != want[1] {
			t.Errorf("%q: %v, %v", value, got, err)
		}
	}
}
