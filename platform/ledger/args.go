package ledger

import (
	"github.com/google/uuid"
	"github.com/riverqueue/river"
)

// QueueBilling is that of jobs which follow from money that has moved.
const QueueBilling = "billing"

// CheckRunway asks for a tenant's balance to be held against what it uses; the
// zero tenant means all. It is not unique: one that is at work may have read the
// balance before this change of it.
type CheckRunway struct {
	Tenant uuid.UUID `json:"tenant"`
}

// Kind names the job to River.
func (CheckRunway) Kind() string { return "check_runway" }

// InsertOpts tries a few times: the next pass of accrual asks again for all.
func (CheckRunway) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: QueueBilling, MaxAttempts: 5}
}
