// Package fault holds the action table: what a fault means, what is done about it,
// what it keeps from sale, and what a tenant is told. It is policy as data: a fault
// that is not in the table is one that nobody expected. It decides nothing about a
// node; nodes judge by it what they hand out, the control plane what it sells.
package fault

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/protocol"
)

//go:generate go run ./gen

// Action is what a fault asks for.
type Action string

// Clears is how a fault ends.
type Clears string

// The ends.
const (
	ClearsItself  Clears = "itself"  // its source no longer says it
	ClearsTime    Clears = "time"    // it was not seen for Fault.ClearAfter
	ClearsReset   Clears = "reset"   // the GPU was reset, or the host has started
	ClearsRestart Clears = "restart" // the host has started
	ClearsPerson  Clears = "person"
)

// Holds is what is kept from sale while a fault lasts.
type Holds string

// The holds, from small to large.
const (
	HoldsNothing Holds = "nothing"
	HoldsSlot    Holds = "slot"
	HoldsNode    Holds = "node"
)

// Rule is what follows from an action.
type Rule struct {
	Action   Action
	Level    protocol.Health
	Holds    Holds
	Classes  []protocol.Class
	Operator string // what a person does
	Tenant   string // what a holder of the GPU is told
}

// Fault is one line of the table.
type Fault struct {
	ID         string
	Meaning    string
	Rule       Rule
	Shown      bool // to who holds the GPU
	Clears     Clears
	RaiseAfter time.Duration // it must last so long before it counts
	ClearAfter time.Duration // and be gone so long before it ends
}

// Of finds a fault by its id. An XID that is not in the table is xid_other; any
// other id that is not there is not known, which only the caller can judge.
func Of(id string) (Fault, bool) {
	f, ok := table[id]
	if !ok && strings.HasPrefix(id, "xid_") {
		f, ok = table["xid_other"], true
		f.ID = id
	}
	return f, ok
}

// TenantText is what a tenant is told of the fault, or nothing.
func (f Fault) TenantText() string {
	if !f.Shown {
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
