package jobs

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// Roll runs one pass over the rollouts in tx and returns the number of nodes with a new task.
func (d *Deps) Roll(ctx context.Context, tx pgx.Tx) (int, error) {
	policy, err := d.Policies.Refresh(ctx)
	if err != nil {
		return 0, err
	}
	asked, _, err := (&rollAgents{d: d}).roll(ctx, tx, policy)
	return len(asked), err
}

// Due returns what the schedule inserts now for a kind.
func Due(d *Deps, kind string) river.JobArgs {
	for _, p := range schedule(d) {
		if p.args.Kind() == kind && (p.when == nil || p.when()) {
			return p.args
		}
	}
	return nil
}
