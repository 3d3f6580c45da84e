package preview

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// effect computes the consequences of a change for nodes, allocations and tenants.
type effect struct {
	meant

	inputs   Inputs
	nodes    map[ids.Node]Node
	removed  map[ids.Node]bool // nodes
	resliced map[ids.Node]bool // nodes that become something else
	cordons  []desired.Object  // nodes
	dropped  map[string]bool   // SKUs
	touched  []Allocation      // by node or by SKU
	affected []Allocation      // of those, the ones whose slots the change removes
}

func effectOf(m meant, f Inputs) effect {
	e := effect{meant: m, inputs: f, nodes: map[ids.Node]Node{}, removed: map[ids.Node]bool{}, resliced: map[ids.Node]bool{}, dropped: map[string]bool{}}
	for _, n := range f.Nodes {
		e.nodes[n.ID] = n
	}
	for _, o := range m.deleted {
		switch o.Kind {
		case desired.KindNode:
			e.removed[nodeID(o)] = true
		case desired.KindSKU:
			e.dropped[o.Name] = true
		case desired.KindEnvironment, desired.KindPolicy, desired.KindRole, desired.KindOSImage, desired.KindStorageClass, desired.KindAllocation:
		}
	}
	changedNodes, changedSKUs := map[ids.Node]bool{}, map[string]bool{}
	for _, p := range slices.Concat(m.changed, m.adopted) {
		switch p.New.Kind {
		case desired.KindNode:
			old, now := specOf[desired.Node](p.Old), specOf[desired.Node](p.New)
			changedNodes[nodeID(p.New)] = !reflect.DeepEqual(old, now)
			e.resliced[nodeID(p.New)] = old.SKU != now.SKU || old.GPUs != now.GPUs || old.Hardware != now.Hardware || old.Slicing != now.Slicing
			if !old.Cordoned && now.Cordoned {
				e.cordons = append(e.cordons, p.New)
			}
		case desired.KindSKU:
			old, now := specOf[desired.SKU](p.Old), specOf[desired.SKU](p.New)
			old.DisplayName = now.DisplayName
			changedSKUs[p.New.Name] = old != now
		case desired.KindEnvironment, desired.KindPolicy, desired.KindRole, desired.KindOSImage, desired.KindStorageClass, desired.KindAllocation:
		}
	}
	for _, a := range slices.SortedFunc(slices.Values(f.Allocations), func(a, b Allocation) int { return compareID(a.ID.UUID, b.ID.UUID) }) {
		beneath := e.removed[a.Node] || e.resliced[a.Node] || e.dropped[a.SKU]
		if beneath {
			e.affected = append(e.affected, a)
		}
		if beneath || changedNodes[a.Node] || changedSKUs[a.SKU] {
			e.touched = append(e.touched, a)
		}
	}
	return e
}

func nodeID(o desired.Object) ids.Node { return ids.Node{UUID: o.UID.UUID} }

func (e effect) blast() Blast {
	b := Blast{Drains: []Drain{}, OverCaps: e.overCaps(), Names: []string{}}
	tenants, projects := map[ids.Tenant]bool{}, map[ids.Project]bool{}
	on := map[ids.Node]int{}
	for _, a := range e.touched {
		tenants[a.Tenant], projects[a.Project] = true, true
		on[a.Node]++
	}
	b.Allocations, b.Projects, b.Tenants = len(e.touched), len(projects), len(tenants)
	for _, t := range e.inputs.Tenants {
		if tenants[t.ID] {
			b.Names = append(b.Names, t.Name)
		}
	}
	slices.Sort(b.Names)
	for _, n := range e.touchedNodes() {
		b.Nodes++
		if n.Reported {
			b.Agents++
		}
		if e.removed[n.ID] && n.Held > 0 {
			b.Drains = append(b.Drains, Drain{n.Name, on[n.ID], n.Held})
		}
	}
	slices.SortFunc(b.Drains, func(a, b Drain) int { return cmp.Compare(a.Node, b.Node) })
	return b
}

// touchedNodes returns the existing nodes whose object changes or is deleted.
func (e effect) touchedNodes() (list []Node) {
	for _, o := range e.deleted {
		if o.Kind == desired.KindNode {
			list = append(list, e.node(o))
		}
	}
	for _, p := range slices.Concat(e.changed, e.adopted) {
		if p.New.Kind == desired.KindNode && len(fields(p.Old, p.New)) > 0 {
			list = append(list, e.node(p.New))
		}
	}
	return list
}

// node returns the stored node. A node whose object is not applied yet has no row, so only its spec
// is known.
func (e effect) node(o desired.Object) Node {
	if n, ok := e.nodes[nodeID(o)]; ok {
		return n
	}
	spec := specOf[desired.Node](o)
	return Node{ID: nodeID(o), Name: o.Name, SKU: spec.SKU, Cordoned: spec.Cordoned}
}

func (p Plan) summary() string {
	text := fmt.Sprintf("Plan: %d to create, %d to change, %d to delete", p.Creates, p.Changes, p.Deletes)
	if p.Adopts > 0 {
		text += fmt.Sprintf(", %d to adopt", p.Adopts)
	}
	text += "."
	var parts []string
	switch n := len(p.Blast.Drains); {
	case n == 1:
		parts = append(parts, "1 node drains")
	case n > 1:
		parts = append(parts, fmt.Sprintf("%d nodes drain", n))
	}
	if p.Blast.Allocations > 0 {
		parts = append(parts, counted(p.Blast.Allocations, "allocation")+" of "+counted(p.Blast.Projects, "project")+" affected")
	}
	if n := len(p.Blast.OverCaps); n > 0 {
		parts = append(parts, fmt.Sprintf("%d over a cap", n))
	}
	for _, m := range p.Money {
		if change := signed(m.Currency, m.BurnBefore, m.BurnAfter); change != "" {
			parts = append(parts, change+"/h")
		}
	}
	if len(parts) == 0 {
		return text
	}
	return text + " " + strings.Join(parts, "; ")
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
