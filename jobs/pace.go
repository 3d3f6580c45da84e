package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// paced is a periodic job whose period a policy sets.
type paced struct {
	args    river.JobArgs
	period  func() time.Duration
	onStart bool
}

func pacedBy(d *Deps) []paced {
	all := []paced{
		{args: Accrue{}, period: d.Window, onStart: true},
		{args: CheckMeters{}, period: func() time.Duration { return min(d.Window(), checking) }},
	}
	if d.Payments != nil {
		all = append(all, paced{args: SweepPayments{}, period: d.Sweeping, onStart: true})
	}
	return all
}

// every is a schedule whose period policy may change.
type every func() time.Duration

// Next is the next trigger.
func (e every) Next(now time.Time) time.Time { return now.Add(e()) }

func (p paced) job() *river.PeriodicJob {
	return river.NewPeriodicJob(every(p.period), func() (river.JobArgs, *river.InsertOpts) { return p.args, nil },
		&river.PeriodicJobOpts{ID: p.args.Kind(), RunOnStart: p.onStart})
}

// periodLook is how often the periods are compared. They are in memory.
const periodLook = time.Second

// FollowPeriods notes the periods of the paced jobs. The function that it returns
// schedules a job anew when policy has changed its period, until ctx ends.
//
// River asks a schedule for the next time only when the last one has come. After a
// change from 300 s to 10 s the first of the new periods would begin up to 300 s
// late: at the first start of an installation that is so whenever River's leader,
// who waits for up to a second, is faster than the first revision.
//
// Call FollowPeriods before the client starts.
func FollowPeriods(client *river.Client[pgx.Tx], d *Deps) func(ctx context.Context) error {
	all := pacedBy(d)
	last := make([]time.Duration, len(all))
	for i, p := range all {
		last[i] = p.period()
	}
	return func(ctx context.Context) error {
		looks := time.NewTicker(periodLook)
		defer looks.Stop()
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-looks.C:
			}
			for i, p := range all {
				now := p.period()
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
