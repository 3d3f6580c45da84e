// Package fault contains the table of faults: meaning, action, what the fault blocks from sale, and the
// text for tenants. A fault that is not in the table was not expected. The package decides nothing about
// a node: the agent uses the table for provisioning and the control plane for sales.
package fault

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/protocol"
)

//go:generate go run ./gen

// Action is the required response to a fault.
type Action string

// Clears is the event that ends a fault.
type Clears string

// The ends.
const (
	ClearsItself  Clears = "itself"  // its source no longer reports it
	ClearsTime    Clears = "time"    // it was not reported for Fault.ClearAfter
	ClearsReset   Clears = "reset"   // the GPU was reset, or the node has started
	ClearsRestart Clears = "restart" // the node has started
	ClearsPerson  Clears = "person"
)

// Holds is the scope that is not for sale while a fault lasts.
type Holds string

// The holds, from small to large.
const (
	HoldsNothing Holds = "nothing"
	HoldsSlot    Holds = "slot"
	HoldsNode    Holds = "node"
)

// Rule contains the consequences of an action.
type Rule struct {
	Action   Action
	Level    protocol.Health
	Holds    Holds
	Classes  []protocol.Class
	Operator string // what a person does
	Tenant   string // text for the tenant of the GPU
}

// Fault is one line of the table.
type Fault struct {
	ID         string
	Meaning    string
	Rule       Rule
	Visible    bool // to the tenant of the GPU
	Clears     Clears
	RaiseAfter time.Duration // it must last so long before it counts
	ClearAfter time.Duration // and be gone so long before it ends
}

// Of returns the fault with an id. An XID without an entry is xid_other. The caller decides what any
// other unknown id means.
func Of(id string) (Fault, bool) {
	f, ok := table[id]
	if !ok && strings.HasPrefix(id, "xid_") {
		f, ok = table["xid_other"], true
		f.ID = id
	}
	return f, ok
}

// Reported returns the fault of a health report. An XID that the driver itself did not report is a hint:
// a tenant can write one of any GPU to the kernel log, so it has no consequence.
func Reported(r protocol.HealthReport) (Fault, bool) {
	f, ok := Of(r.Check)
	if strings.HasPrefix(r.Check, "xid_") && r.Evidence != protocol.FromDriver {
		f.Rule, f.Visible = rules[Hint], false
	}
	return f, ok
}

// RuleOf returns the consequences of an action.
func RuleOf(a Action) (Rule, bool) {
	r, ok := rules[a]
	return r, ok
}

// TenantText returns the text of the fault for tenants, or an empty string.
func (f Fault) TenantText() string {
	if !f.Visible {
		return ""
	}
	return f.Rule.Tenant
}

// All lists the table by id.
func All() []Fault {
	list := slices.Collect(maps.Values(table))
	slices.SortFunc(list, func(a, b Fault) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// Rules lists what follows from each action, by its name.
func Rules() []Rule {
	list := slices.Collect(maps.Values(rules))
	slices.SortFunc(list, func(a, b Rule) int { return strings.Compare(string(a.Action), string(b.Action)) })
	return list
}
