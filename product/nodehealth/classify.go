package nodehealth

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/protocol/fault"
)

// Report is the last report of one source about a node or one of its GPUs.
type Report struct {
	Source  string           `json:"source"`
	Target  string           `json:"target"` // GPU UUID; empty: the node
	Check   string           `json:"check_id"`
	Level   protocol.Health  `json:"level"`
	Message string           `json:"message"`
	Action  string           `json:"action"`
	Classes []protocol.Class `json:"classes"`
	Since   time.Time        `json:"since"`
	Until   *time.Time       `json:"until"` // an override ends
	Actor   string           `json:"actor"` // who overrode
}

// The sources that are not of a node's agent.
const (
	// SourceOperator marks a health value that an operator has set. A value for one check overrides the
	// node's reports of that check. A healthy value without a check overrides all reports of the target.
	// Any other value is added to the reports.
	SourceOperator = "operator"
	// sourceInventory marks a value that is derived from the list of devices.
	sourceInventory = "inventory"
)

// gpuRow is the stored row of a device.
type gpuRow struct {
	UUID    string
	Index   int
	Present bool
	// Contested lists the names of the other nodes that report this GPU.
	Contested []string
}

// systemHold is a hold that the platform has set and not lifted.
type systemHold struct {
	ID    uuid.UUID
	GPU   string // of the slot; empty: the whole node
	Cause string
}

// nodeState is the stored state that the health of a node depends on, in addition to its new report.
type nodeState struct {
	Expected                      int
	SKU, Name, Lifecycle          string
	Health, Message, Reachability string
	Version                       int64
	Fingerprint, Changed          string
	MountsMissing                 *string
	Accepted                      *protocol.Hardware
	Cards                         []gpuRow
	Contested                     []string // GPUs of other nodes that this one reports
	Reports                       []Report
	Holds                         []systemHold
}

// verdict is the health of a node and its devices, with the consequences.
type verdict struct {
	Reports []Report // of nodes; overrides are not among them
	Cards   map[string]gpuVerdict
	Health  protocol.Health
	Message string
	Slots   map[string]string // GPU → why its slot is not sold
	Node    string            // why the node is; empty: it is not
}

type gpuVerdict struct {
	Health  protocol.Health
	Reasons []string
}

// The answers to node.gpu_fault_action.
const (
	FaultQuarantinesSlot = "quarantine_slot"
	FaultCordonsNode     = "cordon_node"
	FaultIsReported      = "report"
)

// classify merges the values of all sources. r is nil if only an override has changed.
func (k *nodeState) classify(r *protocol.Report, action string) verdict {
	v := verdict{Reports: k.currentReports(r), Cards: map[string]gpuVerdict{}, Slots: map[string]string{}, Health: protocol.Healthy}
	for _, c := range k.Cards {
		v.Cards[c.UUID] = gpuVerdict{Health: protocol.Healthy, Reasons: []string{}}
	}
	for _, f := range k.findings(v.Reports) {
		v.add(k, f, action)
	}
	v.sum(k)
	return v
}

// currentReports returns the current value of each source: those of a new report, and earlier ones that the report
// does not cover.
func (k *nodeState) currentReports(r *protocol.Report) []Report {
	said, before := []Report{}, []Report{} // never null in the database's eyes
	for _, old := range k.Reports {
		if old.Source != SourceOperator && !isContest(old) {
			before = append(before, old)
		}
	}
	said = append(said, k.contests()...)
	if r == nil {
		return k.since(append(said, before...))
	}
	spoke, about := map[[2]string]bool{}, map[[2]string]bool{}
	for _, h := range r.Health {
		said = append(said, ofWire(h))
		spoke[[2]string{h.Source, ""}] = true
		about[[2]string{h.Source, h.Target}] = true
		if h.Target != "" {
			spoke[[2]string{"", h.Target}] = true
		}
	}
	listed := map[string]bool{}
	for _, g := range r.Inventory.GPUs {
		listed[g.UUID] = true
		if !spoke[[2]string{"", g.UUID}] {
			said = append(said, ofDevice(g)...)
		}
	}
	for _, c := range k.Cards {
		if r.Complete && !listed[c.UUID] {
			said = append(said, ofTable(sourceInventory, c.UUID, "gpu_missing", ""))
		}
	}
	if !r.Complete {
		said = append(said, ofTable(sourceInventory, "", "report_incomplete", "the report is incomplete: "+strings.Join(r.Missing, ", ")))
	}
	if len(r.Foreign) > 0 {
		said = append(said, ofTable(sourceInventory, "", "foreign_use", "used by an unknown process: "+strings.Join(r.Foreign, ", ")))
	}
	for _, old := range before {
		switch {
		case old.Source == sourceInventory:
			if !r.Complete && old.Target != "" && !listed[old.Target] {
				said = append(said, old)
			}
		case !r.Complete: // half a report proves nothing about what it leaves out
			if !about[[2]string{old.Source, old.Target}] {
				said = append(said, old)
			}
		case spoke[[2]string{old.Source, ""}]:
		default:
			if old.Check == "source_silent" {
				said = append(said, old)
			} else if silent := ofTable(old.Source, "", "source_silent", old.Source+" is missing from the report"); !contains(said, silent) {
				said = append(said, silent)
			}
		}
	}
	return k.since(said)
}

func contains(reports []Report, r Report) bool {
	return slices.ContainsFunc(reports, func(o Report) bool { return same(o, r) })
}

func same(a, b Report) bool {
	return a.Source == b.Source && a.Target == b.Target && a.Check == b.Check
}

// since preserves the time of the first report of each unchanged value.
func (k *nodeState) since(said []Report) []Report {
	for i := range said {
		for _, old := range k.Reports {
			if same(old, said[i]) && old.Level == said[i].Level {
				said[i].Since = old.Since
			}
		}
	}
	return said
}

// ofWire classifies a node's report by the fault table. An agent that is newer than the server may send
// a check that the table lacks; its own classification is then used.
func ofWire(h protocol.HealthReport) Report {
	r := Report{Source: h.Source, Target: h.Target, Check: h.Check, Level: h.Level, Message: h.Message, Classes: h.Classes}
	if f, ok := fault.Reported(h); ok {
		r.Level, r.Action, r.Classes = f.Rule.Level, string(f.Rule.Action), f.Rule.Classes
		r.Message = cmp.Or(r.Message, f.Meaning)
	}
	return r
}

func ofTable(source, target, check, message string) Report {
	return ofWire(protocol.HealthReport{Source: source, Target: target, Check: check, Message: message})
}

// ofDevice derives the health of a device from the inventory, for agents without a health source for
// devices.
func ofDevice(g protocol.GPU) []Report {
	check := map[protocol.Health]string{protocol.Unhealthy: "gpu_unhealthy", protocol.Degraded: "gpu_degraded", protocol.Unknown: "gpu_unknown"}[g.Health]
	if check == "" {
		return nil
	}
	return []Report{ofTable(sourceInventory, g.UUID, check, strings.Join(g.Reasons, ", "))}
}

// finding is a report with the units that it excludes from sale.
type finding struct {
	Report

	holds fault.Holds
}

// findings puts overrides in the place of what they speak of.
func (k *nodeState) findings(said []Report) (all []finding) {
	type about struct{ target, check string }
	overridden := map[about]Report{}
	for _, o := range k.Reports {
		if o.Source == SourceOperator {
			overridden[about{o.Target, o.Check}] = o
		}
	}
	for _, r := range said {
		f := finding{r, holdsOf(r)}
		if o, ok := overridden[about{r.Target, ""}]; ok && o.Level == protocol.Healthy {
			continue // an operator overrides the whole target
		}
		if o, ok := overridden[about{r.Target, r.Check}]; ok && r.Check != "" {
			f.Level, f.holds = o.Level, fault.HoldsNothing
			if prevents(o) {
				f.holds = fault.HoldsSlot
			}
			delete(overridden, about{r.Target, r.Check})
		}
		all = append(all, f)
	}
	// In order, so that the same health is the same message.
	for _, key := range slices.SortedFunc(maps.Keys(overridden), func(a, b about) int {
		return cmp.Or(cmp.Compare(a.target, b.target), cmp.Compare(a.check, b.check))
	}) {
		o := overridden[key]
		f := finding{o, fault.HoldsNothing}
		if prevents(o) {
			f.holds = fault.HoldsSlot
		}
		all = append(all, f)
	}
	return all
}

func holdsOf(r Report) fault.Holds {
	if rule, ok := fault.RuleOf(fault.Action(r.Action)); ok {
		return rule.Holds
	}
	if prevents(r) || r.Level == protocol.Unhealthy {
		return fault.HoldsSlot
	}
	return fault.HoldsNothing
}

func prevents(r Report) bool { return slices.Contains(r.Classes, protocol.PreventAllocations) }

// add merges one finding into the verdict: the health of its target, and the exclusion of a slot or
// the node from sale. A policy decides with action whether a fault of a GPU is only reported,
// excludes the slot, or cordons the node.
func (v *verdict) add(k *nodeState, f finding, action string) {
	if f.Level == protocol.Healthy && f.holds == fault.HoldsNothing {
		return
	}
	if f.Target == "" {
		// A fault of the node itself excludes the whole node from sale, because no device can be named.
		v.worse(f.Level, f.Message)
		if f.holds != fault.HoldsNothing {
			v.holdNode(f.Message)
		}
		return
	}
	c, ok := v.Cards[f.Target]
	if !ok {
		return // of a device that was never in a list
	}
	c.Health = protocol.Worse(c.Health, f.Level)
	if !slices.Contains(c.Reasons, f.Message) {
		c.Reasons = append(c.Reasons, f.Message)
	}
	v.Cards[f.Target] = c
	if f.holds == fault.HoldsNothing || action == FaultIsReported {
		return
	}
	why := fmt.Sprintf("GPU %d: %s", k.index(f.Target), f.Message)
	if f.holds == fault.HoldsNode || action == FaultCordonsNode {
		v.holdNode(why)
	}
	if action != FaultCordonsNode && v.Slots[f.Target] == "" {
		v.Slots[f.Target] = why
	}
}

func (v *verdict) worse(level protocol.Health, message string) {
	if protocol.HealthOrder(level) > protocol.HealthOrder(v.Health) {
		v.Health, v.Message = level, message
	}
}

func (v *verdict) holdNode(why string) {
	if v.Node == "" {
		v.Node = why
	}
}

func (k *nodeState) index(gpu string) int {
	i := slices.IndexFunc(k.Cards, func(c gpuRow) bool { return c.UUID == gpu })
	if i < 0 {
		return -1
	}
	return k.Cards[i].Index
}

// sum returns the health of the node as a whole: its own faults first, then missing devices, then the
// worst of its devices. A device only degrades the node, because the slot is faulty and not the node.
func (v *verdict) sum(k *nodeState) {
	there := 0
	for _, c := range k.Cards {
		if c.Present {
			there++
		}
	}
	whole := !slices.ContainsFunc(v.Reports, func(r Report) bool { return r.Check == "report_incomplete" })
	if whole && there < k.Expected {
		v.worse(protocol.Unhealthy, fmt.Sprintf("%d of %d GPUs are present", there, k.Expected))
	}
	for _, level := range []protocol.Health{protocol.Unhealthy, protocol.Unknown, protocol.Degraded} {
		for _, c := range k.Cards {
			if is := v.Cards[c.UUID]; is.Health == level {
				v.worse(protocol.Degraded, fmt.Sprintf("GPU %d is %s: %s", c.Index, is.Health, strings.Join(is.Reasons, ", ")))
			}
		}
	}
}
