package forge

import (
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// ReportForge tells a source's forge what it should show. Without a source it asks
// which ones were forgotten.
type ReportForge struct {
	Source string `json:"source" river:"unique"`
	// At is when what had to wait is due, and 0 for what is wanted now: the one must
	// not wait for the other, which to River would be the same.
	At int64 `json:"at" river:"unique"`
}

// Kind names the job to River.
func (ReportForge) Kind() string { return "report_forge" }

// QueueForge is a queue of its own: forges are slow, and nothing may wait for them.
const QueueForge = "forge"

// InsertOpts keeps one for each source and time waiting or at work: two would only
// meet at the same rows.
func (ReportForge) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: QueueForge, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: []rivertype.JobState{
		rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable,
		rivertype.JobStateRunning, rivertype.JobStateScheduled,
	}}}
}
