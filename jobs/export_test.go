package jobs

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Roll is one look at the rollouts, in tx, and says how many nodes it asked.
func (d *Deps) Roll(ctx context.Context, tx pgx.Tx) (int, error) {
	policy, err := d.Policies.Refresh(ctx)
	if err != nil {
		return 0, err
	}
	asked, _, err := (&rollAgents{d: d}).roll(ctx, tx, policy)
	return len(asked), err
}
