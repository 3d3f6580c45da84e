package secret

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// Certificate is a current or former certificate of a node.
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

// shown is enough for a week of renewals.
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

// TrustCount is the number of nodes with the same trust state and the same issuer.
type TrustCount struct {
	Trust  string
	Issuer string
	Nodes  int
}

// TrustStates counts the nodes by trust state, which is that of the newest certificate of each active node.
func (c *Certificates) TrustStates(ctx context.Context) ([]TrustCount, error) {
	rows, err := c.DB.Query(ctx, selectTrustState)
	if err != nil {
		return nil, fmt.Errorf("reading the trust state of nodes: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[TrustCount])
	if err != nil {
		return nil, fmt.Errorf("reading the trust state of nodes: %w", err)
	}
	return list, nil
}

// Expiry returns the remaining lifetime, in seconds, of the fleet's certificates: the shortest, and the
// quantiles 0.05 and 0.5. It returns nothing if no node has one.
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
