package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/gitops/forge"
	"github.com/gpuaas/gpuaas/jobs/mails"
	"github.com/gpuaas/gpuaas/jobs/money"
	"github.com/gpuaas/gpuaas/jobs/stored"
	"github.com/gpuaas/gpuaas/platform/evidence"
	"github.com/gpuaas/gpuaas/platform/notification/webhook"
)

// periodicJob is a job that River's leader inserts at an interval. Triggers are lost with a leader, and the next leader
// starts again.
type periodicJob struct {
	args     river.JobArgs
	interval func() time.Duration // a policy may change it
	onStart  bool                 // also when a leader is elected
	unless   bool                 // the server lacks what the job needs
	when     func() bool          // nil: always; else no job is inserted while it returns false
}

// schedule lists all periodic jobs.
func schedule(d *Deps) []periodicJob {
	all := []periodicJob{
		{args: money.Accrue{}, interval: d.Window, onStart: true},
		// An error that is corrected within the interval appears in no report.
		{args: CheckMeters{}, interval: func() time.Duration { return min(d.Window(), 30*time.Second) }},
		// Drift must be detected within a minute.
		{args: CheckDrift{}, interval: fixed(30 * time.Second), onStart: true},
		// The delay of the end of a health override.
		{args: CheckHealth{}, interval: fixed(30 * time.Second)},
		// The time for which the books may differ before operators are notified.
		{args: money.CheckLedger{}, interval: fixed(time.Hour), onStart: true},
		// The time for which a changed audit row is not detected.
		{args: SealAudit{}, interval: fixed(time.Minute), onStart: true},
		// The time for which a changed ledger entry is not detected, and the number of entries that a balance adds up.
		{args: SealLedger{}, interval: fixed(10 * time.Minute), onStart: true},
		// Each step of it may be late by days.
		{args: Maintenance{}, interval: fixed(time.Hour), onStart: true},
		// The delay between a free slot and a queued allocation. Provisioning lasts longer. Without a queue, the
		// check is one read of an empty index, and no job is inserted.
		{args: PlaceQueued{}, interval: fixed(5 * time.Second), when: existence(d.Allocations.QueueExists).any},
		// A warning may be late by half of the shortest one, which is a minute.
		{args: WarnExpiring{}, interval: fixed(30 * time.Second)},
		// The delay of a digest, and of the e-mail of an invitation.
		{args: mails.SendDigest{}, interval: fixed(30 * time.Second), onStart: true},
		// Readings of idle GPUs are stored each minute.
		{args: StopIdle{}, interval: fixed(30 * time.Second)},
		// The delay of a changed SSH authority.
		{args: SendAuthorities{}, interval: fixed(10 * time.Second), unless: d.UserCA == nil},
		// The delay of a changed policy for logins. Without an allocation with other rules, no job is inserted.
		{args: SendAccess{}, interval: fixed(5 * time.Second), when: existence(d.Access.Outdated).any},
		// A rollout waits for nodes, which need minutes.
		{args: RollAgents{}, interval: fixed(10 * time.Second)},
		// The delay of a report whose job was lost or whose forge was configured later.
		{args: forge.ReportForge{}, interval: fixed(time.Minute), onStart: true},
		// The delay of an automatic top-up. Without a mandate no job is inserted.
		{args: money.FindTopUps{}, interval: fixed(time.Minute), when: existence(d.AutoTopups.Exists).any},
		// The delay of a retry, whose first pause is five seconds. Without one that is due, no job is inserted.
		{args: webhook.RetryWebhooks{}, interval: fixed(5 * time.Second), when: existence(d.WebhookEndpoints.RetryDue).any},
		// The delay in which the bytes of purged files and of broken uploads are free again. Without them no job is inserted.
		{args: CleanStorage{}, interval: fixed(time.Minute), when: existence(d.Storage.Due).any},
		// The parts of a forgotten upload need space for a day or longer. The job lists all uploads of the object store.
		{args: stored.AbortUploads{}, interval: fixed(6 * time.Hour)},
		// A million backend objects are compared in nine hours.
		{args: stored.CheckStorage{}, interval: fixed(time.Minute)},
		// The delay of a bundle is a minute, so that it contains what nodes have executed.
		{args: evidence.FindEvidence{}, interval: fixed(30 * time.Second)},
		{args: money.SweepPayments{}, interval: d.Sweeping, onStart: true},
	}
	return slices.DeleteFunc(all, func(p periodicJob) bool { return p.unless })
}

// existence checks whether a job has work. An error counts as yes: the job then reports it. River's leader waits for
// the check before it inserts any other job.
type existence func(context.Context) (bool, error)

func (e existence) any() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second) //nolint:forbidigo // River hands no context to a schedule
	defer cancel()
	found, err := e(ctx)
	return err != nil || found
}

func fixed(interval time.Duration) func() time.Duration {
	return func() time.Duration { return interval }
}

// periodicJobs returns the schedule as River's configuration.
func periodicJobs(d *Deps) []*river.PeriodicJob {
	var all []*river.PeriodicJob
	for _, p := range schedule(d) {
		all = append(all, p.job())
	}
	return all
}

// after is a schedule whose interval a policy may change.
type after func() time.Duration

// Next returns the time of the next trigger.
func (a after) Next(now time.Time) time.Time { return now.Add(a()) }

func (p periodicJob) job() *river.PeriodicJob {
	args := func() (river.JobArgs, *river.InsertOpts) {
		if p.when != nil && !p.when() {
			return nil, nil // River inserts nothing
		}
		return p.args, nil
	}
	return river.NewPeriodicJob(after(p.interval), args,
		&river.PeriodicJobOpts{ID: p.args.Kind(), RunOnStart: p.onStart})
}

// compareIntervals is the time between two comparisons of the intervals, which are in memory.
const compareIntervals = time.Second

// FollowPeriods records the intervals of the periodic jobs. The function that it returns schedules a job again when a
// policy has changed its interval, until ctx ends.
//
// River reads the next time of a schedule only after the last one has passed. After a change from 300 s to 10 s
// the first of the new intervals would begin up to 300 s late. That happens at the first start of an
// installation whenever River's leader, which waits for up to a second, is faster than the first revision.
//
// Call FollowPeriods before the client starts.
func FollowPeriods(client *river.Client[pgx.Tx], d *Deps) func(ctx context.Context) error {
	all := schedule(d)
	last := make([]time.Duration, len(all))
	for i, p := range all {
		last[i] = p.interval()
	}
	return func(ctx context.Context) error {
		compare := time.NewTicker(compareIntervals)
		defer compare.Stop()
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-compare.C:
			}
			for i, p := range all {
				now := p.interval()
				if now == last[i] {
					continue
				}
				last[i] = now
				client.PeriodicJobs().RemoveByID(p.args.Kind())
				if _, err := client.PeriodicJobs().AddSafely(p.job()); err != nil {
					return fmt.Errorf("scheduling %s every %s: %w", p.args.Kind(), now, err)
				}
			}
		}
	}
}
