package evidence

import (
	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/riverjob"
)

// QueueEvidence is the queue of the jobs that collect records. They read much, and no request waits for them.
const QueueEvidence = "evidence"

// MaxAttempts limits the attempts to build a bundle. With the pauses of River eight of them last more than an hour.
const MaxAttempts = 8

// BuildEvidence collects the records of one bundle, and signs and stores them.
type BuildEvidence struct {
	Bundle uuid.UUID `json:"bundle"`
}

// Kind names the job to River.
func (BuildEvidence) Kind() string { return "build_evidence" }

// InsertOpts allows one unfinished job for each bundle. FindEvidence inserts the job of a pending bundle again: a worker that was
// killed in the last attempt has left the bundle pending. The row counts the attempts of all its jobs.
func (BuildEvidence) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: QueueEvidence, MaxAttempts: MaxAttempts, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}

// FindEvidence finds changes without a bundle.
type FindEvidence struct{}

// Kind names the job to River.
func (FindEvidence) Kind() string { return "find_evidence" }

// InsertOpts allows one waiting job at most: a second one would find nothing. The next one is the repetition of one that fails.
func (FindEvidence) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: QueueEvidence, MaxAttempts: 1, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}
