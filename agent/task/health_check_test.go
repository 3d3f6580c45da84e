package task_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/gpuaas/gpuaas/agent/task"
	"github.com/gpuaas/gpuaas/protocol"
)

// A driver that does not answer is what a check is to find, and no fault of the check.
func TestAHealthCheckSaysWhatItSees(t *testing.T) {
	t.Parallel()
	d := &tool{}
	m := machine(t, d)
	check := execute(t, m, protocol.HealthCheck)
	answer, err := check(protocol.HealthCheckParams{Level: 1})
	if c, ok := answer.(task.HealthCheckAnswer); err != nil || !ok || c.Level != 1 || !says(c.Health, "xid_48") {
		t.Errorf("%+v, %v", answer, err)
	}
	d.processes = 1
	if _, err := check(protocol.HealthCheckParams{Level: 3}); protocol.CodeOf(err) != protocol.SlotBusy {
		t.Errorf("a long check while a tenant runs: %v", err)
	}
	d.err = errors.New("hangs")
	answer, err = check(protocol.HealthCheckParams{Level: 0})
	if c, ok := answer.(task.HealthCheckAnswer); err != nil || !ok || !slices.ContainsFunc(c.Health, func(r protocol.HealthReport) bool { return r.Check == "driver_silent" }) {
		t.Errorf("%+v, %v", answer, err)
	}
}
