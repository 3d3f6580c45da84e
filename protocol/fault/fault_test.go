package fault_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/protocol/fault"
)

// Every line can be acted on: it has a meaning, an end, and a text for the tenant if it is visible to one.
func TestEveryLineIsWhole(t *testing.T) {
	t.Parallel()
	all := fault.All()
	if len(all) < 70 || fault.Version < 1 {
		t.Fatalf("%d lines, version %d", len(all), fault.Version)
	}
	ends := []fault.Clears{fault.ClearsItself, fault.ClearsTime, fault.ClearsReset, fault.ClearsRestart, fault.ClearsPerson}
	for _, f := range all {
		switch {
		case f.Meaning == "" || f.Rule.Operator == "" || f.Rule.Action == "":
			t.Errorf("%s has no meaning or end", f.ID)
		case f.Visible && f.TenantText() == "":
			t.Errorf("%s is visible to tenants without a text", f.ID)
		case !slices.Contains(ends, f.Clears) || f.Clears == fault.ClearsTime && f.ClearAfter == 0:
			t.Errorf("%s never ends", f.ID)
		case protocol.HealthOrder(f.Rule.Level) < 0:
			t.Errorf("%s has level %q", f.ID, f.Rule.Level)
		case (f.Rule.Holds != fault.HoldsNothing) != slices.Contains(f.Rule.Classes, protocol.PreventAllocations):
			t.Errorf("%s blocks %s with classes %v", f.ID, f.Rule.Holds, f.Rule.Classes)
		}
	}
}

// An XID without a row has no consequence until the driver requests a recovery: a tenant may have caused it.
func TestAnUnknownXIDNeedsTheDriver(t *testing.T) {
	t.Parallel()
	if f, ok := fault.Of("xid_31337"); !ok || f.ID != "xid_31337" || f.Rule.Action != fault.Confirm || f.Rule.Holds != fault.HoldsNothing {
		t.Errorf("%+v, %v", f, ok)
	}
	if f, ok := fault.Of("noise"); ok {
		t.Errorf("%+v", f)
	}
}

// INV-72. Threat: a tenant causes an XID with its own program, and its meter stops while it has the GPU.
func TestWhatATenantCanCauseHasNoConsequence(t *testing.T) {
	t.Parallel()
	for _, check := range []string{"xid_13", "xid_31", "xid_43", "xid_45", "xid_46", "xid_68", "xid_69", "xid_94", "xid_109", "xid_119", "xid_31337"} {
		f, _ := fault.Reported(protocol.HealthReport{Check: check, Evidence: protocol.FromDriver})
		if f.Rule.Level == protocol.Unhealthy || f.Rule.Level == protocol.Unknown || f.Rule.Holds != fault.HoldsNothing || len(f.Rule.Classes) > 0 {
			t.Errorf("%+v", f)
		}
	}
	for _, f := range fault.All() {
		for _, evidence := range []protocol.Evidence{"", protocol.FromLog} {
			hint, _ := fault.Reported(protocol.HealthReport{Check: f.ID, Evidence: evidence})
			if strings.HasPrefix(f.ID, "xid_") && (hint.Rule.Action != fault.Hint || hint.TenantText() != "") {
				t.Errorf("%q: %+v", evidence, hint)
			}
		}
	}
}
