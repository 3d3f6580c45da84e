package ledger

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
)

// Wrong is what is wrong at a place.
type Wrong string

// What Verify finds.
const (
	BalanceDiffers     Wrong = "balance_differs"     // what is told is not the sum of the entries
	EntriesChanged     Wrong = "entries_changed"     // behind a seal
	TransferUnbalanced Wrong = "transfer_unbalanced" // its entries do not sum to zero in one currency
)

// Fault is a place where the ledger does not hold.
type Fault struct {
	Wrong    Wrong       `json:"wrong"`
	Account  uuid.UUID   `json:"account,omitzero"`
	Tenant   ids.Tenant  `json:"tenant,omitzero"`
	Name     string      `json:"name,omitempty"` // of the account
	Transfer uuid.UUID   `json:"transfer,omitzero"`
	After    int64       `json:"after"` // the entries are newer than this one,
	UpTo     int64       `json:"up_to"` // and this one is the last of them
	Minor    money.Minor `json:"difference_minor"`
}

// Report is what Verify found.
type Report struct {
	Entries    int64       `json:"entries"`
	Difference money.Minor `json:"difference_minor"` // of all balances, without sign
	Faults     []Fault     `json:"faults"`
}

// OK says that the ledger holds.
func (r Report) OK() bool { return r.Difference == 0 && len(r.Faults) == 0 }

// Verify derives every balance again from the first entry, and follows the chain
// of every account. The zero tenant means all.
func (s *Service) Verify(ctx context.Context, _ ids.Tenant) (r Report, err error) {
	var unbalanced money.Minor
	var broken int64
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, patient); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, selectDifference).Scan(&r.Difference, &unbalanced); err != nil {
			return err
		}
		return tx.QueryRow(ctx, selectBroken).Scan(&broken)
	})
	if err != nil {
		return r, fmt.Errorf("verifying the ledger: %w", err)
	}
	if unbalanced != 0 {
		r.Faults = append(r.Faults, Fault{Wrong: TransferUnbalanced, Minor: unbalanced})
	}
	if broken != 0 {
		r.Faults = append(r.Faults, Fault{Wrong: EntriesChanged})
	}
	return r, nil
}
