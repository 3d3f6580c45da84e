package ledger

import (
	"github.com/google/uuid"
	"github.com/riverqueue/river"
)

// QueueBilling is that of jobs which follow from money that has moved.
const QueueBilling = "billing"

// CheckRunway checks a tenant's balance against its burn rate; the zero tenant means all. The job is not
// unique: a running one may have read the balance before this change.
type CheckRunway struct {
	Tenant uuid.UUID `json:"tenant"`
}

// Kind names the job to River.
func (CheckRunway) Kind() string { return "check_runway" }

// InsertOpts uses a few attempts only, because the next accrual pass queues the check for all tenants
// again.
func (CheckRunway) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: QueueBilling, MaxAttempts: 5}
}
