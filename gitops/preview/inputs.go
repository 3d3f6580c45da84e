package preview

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/policies"
)

// Inputs contains the data that a plan needs besides the change itself: the nodes, allocations and
// tenants that the change affects, and the totals that the plan displays.
type Inputs struct {
	Fleet       int // nodes that have not retired
	Nodes       []Node
	Allocations []Allocation           // live ones on the touched nodes or of the touched SKUs
	Tenants     []Tenant               // of those allocations
	Holders     []Holder               // when caps change
	Policies    policies.Snapshot      // in force
	Prices      map[string]Price       // the catalogue, by SKU
	Stock       map[string]Stock       // the fleet's slots, by SKU
	Burn        map[string]money.Minor // of all tenants, by currency
	Stored      map[int64]int64        // bytes of all files above so many free GiB of each project
	// Subjects maps the scopes of the touched policies to the ids that they name now; a scope without a
	// subject names nothing. Applied maps them to the subjects to which they were applied first.
	Subjects, Applied map[policies.Scope]policies.Scope
}

// Node is a touched node as the inventory knows it.
type Node struct {
	ID       ids.Node
	Name     string
	SKU      string
	Cordoned bool
	Stock    Stock
	Held     int  // slots that are claimed, or not proved clean yet
	Reported bool // its agent has reported
}

// Stock counts slots that are sold, and slots that can be.
type Stock struct{ Sold, Open int }

// Price is the price of an SKU per GPU and hour.
type Price struct {
	Currency string
	Minor    money.Minor
	Active   bool // it can be requested
}

// Allocation is a live allocation.
type Allocation struct {
	ID       ids.Allocation
	Tenant   ids.Tenant
	Project  ids.Project
	Node     ids.Node
	SKU      string
	GPUs     int
	Price    money.Minor
	Currency string
	Charged  bool // active, and not paused
	Leaving  bool // its release was requested: a new price has no effect
}

// Tenant is the tenant of the allocation.
type Tenant struct {
	ID       ids.Tenant
	Name     string
	Currency string
	Balance  money.Minor
	Burn     money.Minor
}

// Holder counts the allocations of one user or service account in one project, as the caps count
// them.
type Holder struct {
	Tenant      ids.Tenant
	TenantName  string
	Project     ids.Project
	ProjectName string
	User        ids.User
	Count       int64
}

// Touched names what facts are needed of.
type Touched struct {
	Nodes   []ids.Node
	SKUs    []string
	Caps    bool
	FreeGiB []int64          // of storage classes
	Scopes  []policies.Scope // of policies
}

// Touch returns the names that a difference touches.
func Touch(d revision.Difference) Touched {
	var t Touched
	all := slices.Clone(d.Deleted)
	for _, pair := range slices.Concat(d.Changed, d.Adopted) {
		all = append(all, pair.Old, pair.New)
	}
	for _, o := range slices.Concat(all, d.Created) {
		switch o.Kind {
		case desired.KindNode:
			t.Nodes = append(t.Nodes, ids.Node{UUID: o.UID.UUID})
		case desired.KindSKU:
			t.SKUs = append(t.SKUs, o.Name)
		case desired.KindPolicy:
			spec := specOf[desired.Policy](o)
			t.Caps, t.Scopes = t.Caps || isCap(spec.Key), append(t.Scopes, policies.Scope(spec.Scope))
		case desired.KindEnvironment, desired.KindRole, desired.KindOSImage, desired.KindAllocation:
		case desired.KindStorageClass:
			t.FreeGiB = append(t.FreeGiB, int64(specOf[desired.StorageClass](o).FreeGiB))
		}
	}
	slices.SortFunc(t.Nodes, func(a, b ids.Node) int { return compareID(a.UUID, b.UUID) })
	slices.Sort(t.SKUs)
	slices.Sort(t.Scopes)
	slices.Sort(t.FreeGiB)
	t.Nodes, t.SKUs, t.Scopes, t.FreeGiB = slices.Compact(t.Nodes), slices.Compact(t.SKUs), slices.Compact(t.Scopes), slices.Compact(t.FreeGiB)
	return t
}

func compareID(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }

// specOf reads a spec that has passed its schema.
func specOf[T any](o desired.Object) (spec T) {
	_ = json.Unmarshal(o.Spec, &spec)
	return spec
}

func label(o desired.Object) string { return string(o.Kind) + "/" + o.Name }

// byKey sorts objects in the sequence in which steps are displayed: by kind and name.
func byKey(a, b desired.Object) int {
	kinds := desired.Kinds()
	return cmp.Or(cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Name, b.Name))
}
