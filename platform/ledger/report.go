package ledger

import (
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
)

// Wrong is the kind of a fault.
type Wrong string

// What Verify finds.
const (
	BalanceDiffers     Wrong = "balance_differs"     // the reported balance is not the sum of the entries
	SealedChanged      Wrong = "sealed_changed"      // entries behind a seal, their transfers, the account, or the seal
	HeadLost           Wrong = "head_lost"           // no seal is the one that was stored elsewhere
	TransferUnbalanced Wrong = "transfer_unbalanced" // its entries do not sum to zero in one currency, or there are none
	TransferMissing    Wrong = "transfer_missing"    // entries that belong to none
	CurrencyDiffers    Wrong = "currency_differs"    // of an entry and its account
	AccountMissing     Wrong = "account_missing"     // entries that belong to none
)

// Fault is an inconsistency of the ledger.
type Fault struct {
	Wrong    Wrong      `json:"wrong"`
	Account  uuid.UUID  `json:"account,omitzero"`
	Tenant   ids.Tenant `json:"tenant,omitzero"`
	Name     string     `json:"name,omitempty"` // of the account
	Transfer uuid.UUID  `json:"transfer,omitzero"`
	// After and UpTo are the entries: newer than the one, up to the other. Both are
	// zero where all of them may be meant.
	After    int64     `json:"after"`
	UpTo     int64     `json:"up_to"`
	SealedAt time.Time `json:"sealed_at,omitzero"`
	// Minor is the size of the difference: of a balance reported − derived, of a transfer its sum.
	Minor money.Minor `json:"difference_minor"`
}

// Chain is the result of the check of one account.
type Chain struct {
	Account  uuid.UUID   `json:"account"`
	Tenant   ids.Tenant  `json:"tenant"` // zeros for the platform's own
	Name     string      `json:"name"`
	Currency string      `json:"currency"`
	Entries  int64       `json:"entries"`
	Balance  money.Minor `json:"balance_minor"` // as it is reported
	Derived  money.Minor `json:"derived_minor"` // from the first entry
	Seals    int         `json:"seals"`
	UpTo     int64       `json:"up_to"` // the last entry that is sealed
	Head     string      `json:"head"`  // the last hash: all entries and seals before lead to it
	// Unsealed entries are newer than the last seal: only their sums are promised yet.
	Unsealed      int64     `json:"unsealed"`
	UnsealedSince time.Time `json:"unsealed_since,omitzero"`

	apart money.Minor // reported and derived, without sign
}

// Report is the result of Verify.
type Report struct {
	Chains     []Chain     `json:"accounts"`
	Entries    int64       `json:"entries"`
	Difference money.Minor `json:"difference_minor"` // reported − derived, without sign, of all accounts
	Faults     []Fault     `json:"faults"`
	More       bool        `json:"more,omitempty"` // faults than are listed
}

// OK reports that the ledger is consistent.
func (r Report) OK() bool { return r.Difference == 0 && len(r.Faults) == 0 }

// Unsealed returns the number of entries after the last seal, and the time of the first of them.
func (r Report) Unsealed() (n int64, since time.Time) {
	for _, c := range r.Chains {
		n += c.Unsealed
		if c.Unsealed > 0 && (since.IsZero() || c.UnsealedSince.Before(since)) {
			since = c.UnsealedSince
		}
	}
	return n, since
}
