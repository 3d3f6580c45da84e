package identity

import (
	"github.com/google/uuid"
	"github.com/riverqueue/river"
)

// RekeyAllocations asks for a principal's allocations to be opened by the SSH
// keys that it has now. It is not unique: one that is at work may have read the
// keys before this change of them.
type RekeyAllocations struct {
	Principal uuid.UUID `json:"principal"`
}

// Kind names the job to River.
func (RekeyAllocations) Kind() string { return "rekey_allocations" }

// InsertOpts leaves River's 25 tries: nothing asks again for this one, and a key
// that was deleted must not open anything for good.
func (RekeyAllocations) InsertOpts() river.InsertOpts { return river.InsertOpts{Queue: QueueAccess} }

// QueueAccess is that of jobs which carry changed rights to where they are kept.
const QueueAccess = "access"
