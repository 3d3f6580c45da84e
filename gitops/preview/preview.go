// Package preview computes the effect of a change before it is applied: the changed objects, the
// affected tenants and allocations, the money, and the reasons for an approval. It is pure and
// decides nothing. Before a plan is applied, gitops/change computes it again and compares the two.
package preview

import (
	"encoding/json"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/internal/money"
)

// Change is a difference that is about to be applied.
type Change struct {
	Source     string // name of the Git source; empty: objects that the API owns
	Repository string
	Commit     string
	Base       string // the applied commit of the source
	Owner      desired.Owner
	Generated  bool // no person wrote this
	// Diverged reports that Commit does not descend from Base, or that the history is too short to
	// find out.
	Diverged bool
	// Trusted marks files that the operator who started the server has chosen: the first revision of
	// its source, the files of the binary, and in development the uncommitted files. Before the first
	// revision no operator exists who could approve it.
	Trusted bool
	// Signer is the principal of the commit's verified signature; empty without one.
	Signer string
	Diff   revision.Difference
}

// Rules are the policies for changes.
type Rules struct {
	PruneObjects, PrunePercent int // gitops.prune_cap_*
	// Requires is the value of gitops.apply_requires.
	Requires                 []string
	MassPercent, MassMinimum int // node.mass_action_*
}

// Values of Requires. The reviewer confirms the same values when approving.
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
	WaitSensitive        = "sensitive"
)

// Plan is the effect of a change on objects, tenants and money. Its JSON is the contract's
// ChangePlan.
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

// Step is the change of one object.
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

// Blast counts the affected resources (blast radius).
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

// OverCap is a tenant or project with more allocations than the new cap. They stay, but new
// requests are denied.
type OverCap struct {
	Key   string `json:"key"`
	Scope string `json:"scope"` // tenant:<id>
	Name  string `json:"name,omitempty"`
	Limit int64  `json:"limit"`
	Used  int64  `json:"used"`
}

// MoneyChange is the financial effect in one currency, per hour.
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

// maxSteps limits the listed steps of a plan: a first revision may create a whole fleet.
const maxSteps = 5000

// Make computes the effect of a change from the given inputs. The result depends on nothing else,
// and not on the sequence of the inputs.
func Make(c Change, f Inputs, r Rules) Plan {
	m := meantBy(c.Diff)
	p := Plan{
		Source: c.Source, Repository: c.Repository, Commit: c.Commit, Base: c.Base,
		Objects: c.Diff.Unchanged + len(c.Diff.Created) + len(c.Diff.Adopted),
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
	p.Findings = append(append(findings(c, r), e.scopeFindings()...), broken...)
	p.Summary = p.summary()
	return p
}

// Empty reports whether applying the plan writes nothing.
func (p Plan) Empty() bool { return p.Creates+p.Changes+p.Deletes+p.Adopts == 0 }

// stored is the stored form of a plan, with its basis.
type stored struct {
	Plan

	Hash  string `json:"hash"`
	Basis Basis  `json:"basis"`
}

// Document encodes the plan for storage. Read decodes it.
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
