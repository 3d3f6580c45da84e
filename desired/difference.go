package desired

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// Pair is an object that changes: as it is declared now, and as it would be.
type Pair struct{ Old, New Object }

// Difference is what a snapshot changes. What was declared and removed before is
// created again under its old uid.
type Difference struct {
	Created []Object
	Adopted []Pair // from another owner, who let it go
	Changed []Pair
	Deleted []Object
	Foreign []Finding // names that belong to another owner
	Kept    int       // what the source had and keeps, changed or not
}

// Empty says that nothing would be written.
func (d Difference) Empty() bool {
	return len(d.Created)+len(d.Adopted)+len(d.Changed)+len(d.Deleted) == 0
}

// Had is how many objects the source declared before.
func (d Difference) Had() int { return d.Kept + len(d.Deleted) }

// Wait is why a change needs a person's word.
type Wait struct {
	Reason  string   `json:"reason"` // prune_cap, under_allocations, mass_action, diverged, confirm, rejected
	Message string   `json:"message"`
	Objects []string `json:"objects"` // Kind/name
}

// Verdict is what a gate says of a difference. Nothing in it: apply.
type Verdict struct {
	Findings []Finding // it cannot be applied at all
	Waits    []Wait    // it must be approved first, or resumed
	Rejected string    // who said no, and why
	Plan     ids.Plan  // what was shown to whoever decides
}

// Gate judges a difference, inside the applying transaction.
type Gate func(ctx context.Context, tx pgx.Tx, d Difference) (Verdict, error)
