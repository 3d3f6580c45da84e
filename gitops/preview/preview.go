// Package preview says what a change would do before it is done: to which
// objects, to whom, for how much money, and why it must wait for a person. It is
// pure: values in, a plan out. It decides nothing; whoever applies compares the
// plan that was read with the one that holds.
package preview

import (
	"encoding/json"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/internal/money"
)

// Change is what is about to be done.
type Change struct {
	Source     string // name of the Git source; empty: objects that the API owns
	Repository string
	Commit     string
	Base       string // the commit that the source stands at
	Owner      desired.Owner
	Generated  bool // no person wrote this
	// Diverged says that Commit does not descend from Base, or that nobody can tell.
	Diverged bool
	Diff     revision.Difference
}

// Rules are the policies that a change is held against.
type Rules struct {
	PruneObjects, PrunePercent int // gitops.prune_cap_*
	// Requires are the words of gitops.apply_requires.
	Requires                 []string
	MassPercent, MassMinimum int // node.mass_action_*
}

// Requires words that are asked for here and by whoever approves.
const (
	RequiresApproved   = "approved"
	RequiresUndiverged = "undiverged"
	RequiresSigned     = "signed"
)

// Action of a step.
type Action string

// What is done to an object.
const (
	Create Action = "create"
	Modify Action = "change"
	Delete Action = "delete"
	Adopt  Action = "adopt"
)

// The reasons of waits.
const (
	WaitPruneCap         = "prune_cap"
	WaitUnderAllocations = "under_allocations"
	WaitMassAction       = "mass_action"
	WaitDiverged         = "diverged"
	WaitConfirm          = "confirm"
	WaitRejected         = "rejected"
)

// Plan is what a change does, to whom, and what it comes to. Its JSON is the
// contract's ChangePlan.
type Plan struct {
	Source     string            `json:"source"`
	Repository string            `json:"repository"`
	Commit     string            `json:"commit"`
	Base       string            `json:"base"`
	Objects    int               `json:"objects"` // that the source declares then
	Steps      []Step            `json:"steps"`   // the first maxSteps; the counts are of all
	Creates    int               `json:"creates"`
	Changes    int               `json:"changes"`
	Deletes    int               `json:"deletes"`
	Adopts     int               `json:"adopts"`
	Blast      Blast             `json:"blast_radius"`
	Money      []MoneyChange     `json:"money"`
	Waits      []revision.Wait   `json:"approval_reasons"`
	Findings   []desired.Finding `json:"findings"` // why it cannot be applied at all
	Summary    string            `json:"summary"`

	// Hash names this plan and what it was made from.
	Hash  string `json:"-"`
	Basis Basis  `json:"-"`
}

// Step is what is done to one object.
type Step struct {
	Action     Action         `json:"action"`
	Kind       desired.Kind   `json:"kind"`
	Scope      string         `json:"scope,omitempty"`
	Name       string         `json:"name"`
	UID        string         `json:"uid"`
	Generation int64          `json:"generation"` // that it has now
	Place      desired.Source `json:"place"`
	Fields     []Field        `json:"fields"`
}

// Label is Kind/name.
func (s Step) Label() string { return string(s.Kind) + "/" + s.Name }

// Field is one value that differs. From is left out where there was none, To
// where there is none.
type Field struct {
	Path string `json:"path"` // a JSON pointer into the object document
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// Blast is what is touched.
type Blast struct {
	Tenants     int       `json:"tenants"`
	Projects    int       `json:"projects"`
	Allocations int       `json:"allocations"`
	Nodes       int       `json:"nodes"`
	Agents      int       `json:"agents"`
	Drains      []Drain   `json:"drains"`
	OverCaps    []OverCap `json:"over_caps"`
	Names       []string  `json:"names"` // of the tenants
}

// Drain is a node that goes when the last of its allocations has been released.
type Drain struct {
	Node        string `json:"node"`
	Allocations int    `json:"allocations"`
	Slots       int    `json:"slots"`
}

// OverCap is somebody who has more than the new cap. Nothing is taken away;
// nothing more is given.
type OverCap struct {
	Key   string `json:"key"`
	Scope string `json:"scope"` // tenant:<id>
	Name  string `json:"name,omitempty"`
	Limit int64  `json:"limit"`
	Used  int64  `json:"used"`
}

// MoneyChange is what a change comes to in one currency, per hour.
type MoneyChange struct {
	Currency       string        `json:"currency"`
	CapacityBefore money.Minor   `json:"capacity_before_minor"`
	CapacityAfter  money.Minor   `json:"capacity_after_minor"`
	BurnBefore     money.Minor   `json:"burn_before_minor"`
	BurnAfter      money.Minor   `json:"burn_after_minor"`
	Tenants        []TenantMoney `json:"tenants"`
}

// TenantMoney is a tenant whose burn changes.
type TenantMoney struct {
	TenantID     string      `json:"tenant_id"`
	Name         string      `json:"name"`
	BurnBefore   money.Minor `json:"burn_before_minor"`
	BurnAfter    money.Minor `json:"burn_after_minor"`
	Balance      money.Minor `json:"balance_minor"`
	RunwayBefore *int64      `json:"runway_before_minutes,omitempty"`
	RunwayAfter  *int64      `json:"runway_after_minutes,omitempty"`
}

// maxSteps bounds what a plan shows and keeps: a first revision may declare a
// whole fleet.
const maxSteps = 5000

// Make says what a change would do, given what is so now. Its answer depends on
// nothing else, and not on the order of what it is given.
func Make(c Change, f Facts, r Rules) Plan {
	m := meantBy(c.Diff)
	p := Plan{
		Source: c.Source, Repository: c.Repository, Commit: c.Commit, Base: c.Base,
		Objects: c.Diff.Kept + len(c.Diff.Created) + len(c.Diff.Adopted),
		Creates: len(m.created), Changes: len(m.changed), Deletes: len(m.deleted), Adopts: len(m.adopted),
	}
	e := effectOf(m, f)
	p.Steps = m.steps()
	p.Basis = basisOf(c, e)
	p.Hash = p.Basis.hash()
	p.Blast = e.blast()
	var broken []desired.Finding
	p.Money, broken = e.money()
	p.Waits = waits(c, e, r)
	p.Findings = append(findings(c), broken...)
	p.Summary = p.summary()
	return p
}

// Empty says that applying the plan writes nothing.
func (p Plan) Empty() bool { return p.Creates+p.Changes+p.Deletes+p.Adopts == 0 }

// stored is a plan as it is kept: with what it was made from.
type stored struct {
	Plan

	Hash  string `json:"hash"`
	Basis Basis  `json:"basis"`
}

// Document is the plan as it is kept; Read reads it back.
func (p Plan) Document() ([]byte, error) { return json.Marshal(stored{p, p.Hash, p.Basis}) }

// Read is a plan that Document wrote.
func Read(document []byte) (Plan, error) {
	var s stored
	if err := json.Unmarshal(document, &s); err != nil {
		return Plan{}, err
	}
	s.Plan.Hash, s.Plan.Basis = s.Hash, s.Basis
	return s.Plan, nil
}
