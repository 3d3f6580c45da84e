package jobs

import (
	"context"

	"github.com/jackc/pgx/v5"
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
