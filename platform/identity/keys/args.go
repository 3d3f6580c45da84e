package keys

import (
	"github.com/google/uuid"
	"github.com/riverqueue/river"
)

// RekeyAllocations updates the authorised keys of a principal's allocations to its current SSH keys. The
// job is not unique: a running one may have read the keys before this change.
type RekeyAllocations struct {
	Principal uuid.UUID `json:"principal"`
}

// Kind names the job to River.
func (RekeyAllocations) Kind() string { return "rekey_allocations" }

// InsertOpts uses River's 25 attempts. No other job repeats this one, and a deleted key must not give
// access for ever.
func (RekeyAllocations) InsertOpts() river.InsertOpts { return river.InsertOpts{Queue: QueueAccess} }

// QueueAccess is the queue of jobs that apply changed rights.
const QueueAccess = "access"
