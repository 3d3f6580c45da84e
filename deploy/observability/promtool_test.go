package observability_test

import (
	"os"
	"os/exec"
	"testing"
)

// TestRulesInPrometheus runs promtool on all rules and on the tests of each alert. `make test-prometheus` builds promtool.
func TestRulesInPrometheus(t *testing.T) {
	t.Parallel()
	promtool := os.Getenv("GPUAAS_TEST_PROMTOOL")
	if promtool == "" {
		t.Skip("GPUAAS_TEST_PROMTOOL names no promtool: run make test-prometheus")
	}
	for _, arguments := range [][]string{
		{"check", "rules", "--lint=all", "--lint-fatal", "gpuaas.rules.yaml", "gpuaas.slo.rules.yaml"},
		{"test", "rules", "gpuaas_test.yaml", "gpuaas_long_test.yaml"},
		{"check", "config", "--lint=all", "--lint-fatal", "--syntax-only", "../observability/prometheus.yaml"},
	} {
		command := exec.CommandContext(t.Context(), promtool, arguments...)
		command.Dir = "../alerts"
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", arguments, err, out)
		}
	}
}
