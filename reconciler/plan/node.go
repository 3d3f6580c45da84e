package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/money"
)

// NodeState is the desired, stored and observed state of a node.
type NodeState struct {
	Spec  desired.Node
	ByAPI bool // the API owns the object, not a revision
	// What its SKU promises; empty and zero where there is no such SKU.
	Model    string
	Price    money.Minor // per GPU and hour
	Currency string

	// As product/fleet has stored it.
	OnMarket bool   // neither cordoned nor retired there
	Changed  string // how its hardware differs from what an operator accepted

	// Devices are those of the last report; nil where it was not whole, or none came.
	Devices []Device
}

// Device is one GPU of a report.
type Device struct {
	Model  string `json:"model"`
	Serial string `json:"serial"`
}

// Fields in which a node can differ. Other fields belong to stored specs, which a job compares.
// Their names begin with "spec".
const (
	fieldGPUs     = "gpus"
	fieldModel    = "model"
	fieldSerials  = "serials"
	fieldHardware = "hardware"
	inSpec        = "spec"
)

func ofNode(field string) bool {
	return field == fieldGPUs || field == fieldModel || field == fieldSerials || field == fieldHardware
}

// OfSpec reports whether a field belongs to a spec that an owning package stores.
func OfSpec(field string) bool { return field == inSpec || strings.HasPrefix(field, inSpec+".") }

func specs(fields []string) []string {
	return slices.DeleteFunc(slices.Clone(fields), func(f string) bool { return !OfSpec(f) })
}

// evaluateDrift compares the node with its spec. It also evaluates the findings of the job that
// compares stored specs again, because the drift rule may have changed since.
func (d DueObject) evaluateDrift(l Limits, now time.Time) DriftResult {
	s := Subject{d.Kind, d.Object, d.Name, RulesOf(d.Kind, d.Drift, d.Ignore, l.Drift), d.Suspended}
	if d.Generation == 0 || d.Deleted {
		return EvaluateDrift(s, nil, d.OpenDrift, anyField, now)
	}
	var found []Difference
	for _, st := range d.OpenDrift {
		if OfSpec(st.Field) {
			found = append(found, st.Difference)
		}
	}
	if m := d.Node; m != nil && m.Devices != nil && d.Reports != nil && now.Before(d.Reports.StaleAt) {
		return EvaluateDrift(s, append(found, m.differences()...), d.OpenDrift, ofNode, now)
	}
	// A node with stale reports may have been repaired or not, so its open drift stays.
	for _, st := range d.OpenDrift {
		if ofNode(st.Field) {
			found = append(found, st.remote())
		}
	}
	return EvaluateDrift(s, found, d.OpenDrift, func(string) bool { return false }, now)
}

func (s OpenDrift) remote() Difference {
	d := s.Difference
	d.Remote = true
	return d
}

// differences returns the hardware differences, which need manual work. A missing GPU costs the
// price at which it would be sold.
func (m NodeState) differences() (all []Difference) {
	const cause = "the hardware differs from the desired node"
	if n := len(m.Devices); n != m.Spec.GPUs {
		all = append(all, m.priced(Difference{
			Field: fieldGPUs, Desired: strconv.Itoa(m.Spec.GPUs), Observed: strconv.Itoa(n), Cause: cause, Remote: true,
		}, max(m.Spec.GPUs-n, 0)))
	}
	others := map[string]int{}
	for _, d := range m.Devices {
		if m.Model != "" && d.Model != m.Model {
			others[d.Model]++
		}
	}
	if len(others) > 0 {
		n, words := 0, []string{}
		for _, model := range slices.Sorted(maps.Keys(others)) {
			n, words = n+others[model], append(words, fmt.Sprintf("%d %s", others[model], model))
		}
		all = append(all, m.priced(Difference{Field: fieldModel, Desired: m.Model, Observed: strings.Join(words, ", "), Cause: cause, Remote: true}, n))
	}
	if have := m.serials(); len(m.Spec.Serials) > 0 && !slices.Equal(have, slices.Sorted(slices.Values(m.Spec.Serials))) {
		all = append(all, Difference{
			Field: fieldSerials, Desired: strings.Join(slices.Sorted(slices.Values(m.Spec.Serials)), ", "), Observed: strings.Join(have, ", "), Cause: cause, Remote: true,
		})
	}
	if m.Changed != "" {
		all = append(all, Difference{Field: fieldHardware, Desired: "as accepted", Observed: m.Changed, Cause: "the hardware differs from the accepted hardware", Remote: true})
	}
	return all
}

func (m NodeState) serials() []string {
	list := make([]string, len(m.Devices))
	for i, d := range m.Devices {
		list[i] = d.Serial
	}
	slices.Sort(list)
	return list
}

// priced adds what GPUs that cannot be sold would bring in an hour.
func (m NodeState) priced(d Difference, gpus int) Difference {
	const hour = 3600
	if cost, err := money.Due(m.Price, int64(gpus), hour); err == nil && cost > 0 {
		d.Cost, d.Currency = cost, m.Currency
	}
	return d
}

// shrinks reports whether an action makes a sellable node unsellable without an operator's request.
// The breaker counts these actions.
func (d DueObject) shrinks(v Verb) bool {
	m := d.Node
	if m == nil || !m.OnMarket || d.AppliedGeneration == 0 {
		return false
	}
	if m.ByAPI && (d.Deleted || d.AppliedGeneration < d.Generation) {
		return false
	}
	return v == Release || v == Ensure && m.Spec.Cordoned
}
