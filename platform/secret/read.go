package secret

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// Certificate is one that a node has or had.
type Certificate struct {
	Serial    string
	Status    string // active, superseded, revoked or expired
	Issuer    string
	Trust     string
	CreatedAt time.Time
	NotAfter  time.Time
	RevokedAt *time.Time
	Reason    string
}

// shown is enough to see a week of renewals.
const shown = 20

// Of lists a node's certificates, newest first.
func (c *Certificates) Of(ctx context.Context, node ids.Node) ([]Certificate, error) {
	rows, err := c.DB.Query(ctx, selectCertificatesOf, node, shown)
	if err != nil {
		return nil, fmt.Errorf("reading certificates of %s: %w", node, err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Certificate])
	if err != nil {
		return nil, fmt.Errorf("reading certificates of %s: %w", node, err)
	}
	return list, nil
}

// Belief is how many nodes were told the same, and by whom they are certified.
type Belief struct {
	Trust  string
	Issuer string
	Nodes  int
}

// Beliefs counts, by the newest certificate of each node that may speak, what
// the fleet believes.
func (c *Certificates) Beliefs(ctx context.Context) ([]Belief, error) {
	rows, err := c.DB.Query(ctx, selectBelief)
	if err != nil {
		return nil, fmt.Errorf("reading what nodes believe: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Belief])
	if err != nil {
		return nil, fmt.Errorf("reading what nodes believe: %w", err)
	}
	return list, nil
}

// Expiry is how many seconds the certificates of the fleet last: the shortest, and by
// the quantiles 0.05 and 0.5; nothing where no node has one.
func (c *Certificates) Expiry(ctx context.Context) (quantiles map[string]float64, err error) {
	var list []float64
	if err := c.DB.QueryRow(ctx, selectExpiry).Scan(&list); err != nil {
		return nil, fmt.Errorf("reading how long certificates last: %w", err)
	}
	quantiles = map[string]float64{}
	for i, q := range []string{"0", "0.05", "0.5"} {
		if i < len(list) {
			quantiles[q] = list[i]
		}
	}
	return quantiles, nil
}
