package task_test

import (
	"slices"
	"testing"

	"github.com/gpuaas/gpuaas/agent/task"
	"github.com/gpuaas/gpuaas/protocol"
)

// The table of task types and the list of handlers have the same types, and each handler has what the
// properties of its type need.
func TestHandlersMatchTheTable(t *testing.T) {
	t.Parallel()

	var types []protocol.Type
	for _, h := range task.Handlers() {
		if slices.Contains(types, h.Type) {
			t.Errorf("%s has two handlers", h.Type)
		}
		types = append(types, h.Type)
		if h.Run == nil || h.Resume == nil {
			t.Errorf("%s: Run or Resume is missing", h.Type)
		}
	}
	for _, row := range protocol.TaskTypes() {
		h := task.Of(row.Type)
		if !slices.Contains(types, row.Type) {
			t.Errorf("%s has no handler: add it to Handlers", row.Type)
		}
		types = slices.DeleteFunc(types, func(t protocol.Type) bool { return t == row.Type })
		if isAllocation := row.Scope == protocol.ScopeAllocation; isAllocation != (h.Steps != nil) || isAllocation == (row.Effect == protocol.NoEffect) {
			t.Errorf("%s has the scope %s, the effect %d, and %d steps", row.Type, row.Scope, row.Effect, len(task.Steps(row.Type)))
		}
		if h.Once && !row.ReadOnly || row.ReadOnly && h.Check != nil {
			t.Errorf("%s: only a read-only task is executed once, and the runner does not check it against the journal", row.Type)
		}
		if row.Capability < 1 || row.Capability > protocol.Capability {
			t.Errorf("%s has the capability %d, this build %d", row.Type, row.Capability, protocol.Capability)
		}
	}
	for _, extra := range types {
		t.Errorf("%s has a handler and no row in protocol/tasks.go", extra)
	}
}

// A node that lacks what the handlers act on supports only the types that need nothing.
func TestAnEmptyBackendOnlyReports(t *testing.T) {
	t.Parallel()

	for _, row := range protocol.TaskTypes() {
		err := task.Backend{}.Supported(row.Type)
		if row.Type == protocol.Probe && err != nil || row.Type != protocol.Probe && protocol.CodeOf(err) != protocol.TypeUnknown {
			t.Errorf("%s: %v", row.Type, err)
		}
	}
	if got := (task.Backend{}).Unsupported(protocol.ScopeAllocation); len(got) != 3 {
		t.Errorf("unsupported: %v", got)
	}
	if err := (task.Backend{}).Supported("node.exec"); protocol.CodeOf(err) != protocol.TypeUnknown {
		t.Errorf("a type without a handler: %v", err)
	}
}
