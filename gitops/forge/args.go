package forge

import (
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// ReportForge sends the pending reports of a source to its forge. Without a source, the job queues
// one job for each source with pending reports.
type ReportForge struct {
	Source string `json:"source" river:"unique"`
	// At is the due time of a delayed report, or 0 for an immediate one. River compares it as part
	// of the uniqueness: an immediate job must not be dropped because a delayed one is waiting.
	At int64 `json:"at" river:"unique"`
}

// Kind names the job to River.
func (ReportForge) Kind() string { return "report_forge" }

// QueueForge is a queue of its own: forges are slow, and nothing may wait for them.
const QueueForge = "forge"

// InsertOpts allows one waiting or running job for each source and time. A second one would only
// wait for the same rows.
func (ReportForge) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: QueueForge, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: []rivertype.JobState{
		rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable,
		rivertype.JobStateRunning, rivertype.JobStateScheduled,
	}}}
}
