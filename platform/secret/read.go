package secret

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
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

// listLimit is enough for a week of renewals.
const listLimit = 20

// Of lists a node's certificates, newest first.
func (c *Certificates) Of(ctx context.Context, node ids.Node) ([]Certificate, error) {
	rows, err := c.DB.Query(ctx, selectCertificatesOf, node, listLimit)
	if err != nil {
		return nil, fmt.Errorf("reading certificates of %s: %w", node, err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Certificate])
	if err != nil {
		return nil, fmt.Errorf("reading certificates of %s: %w", node, err)
	}
	return list, nil
}

// Newest contains the certificates that a node may be using: the newest one that it has used, and those
// that were issued after it. Without a used one, all are included.
type Newest struct {
	Node ids.Node

	list []candidate // newest first
}

// candidate is a certificate that a node may be using.
type candidate struct {
	trust  string // stamp of the trust state that came with it
	issuer string
	used   bool // the node has sent a request with it, so that it has received it
}

// Follows reports whether the node continues to be connected after a rotation: whichever of the
// certificates it uses, the issuer has issued it, and it came with the trust state. A certificate that the
// node has not used does not count, because its response may be lost. An empty issuer is any issuer.
func (n Newest) Follows(trust, issuer string) bool {
	for _, c := range n.list {
		if c.trust != trust || issuer != "" && c.issuer != issuer {
			return false
		}
		if c.used {
			return true
		}
	}
	return false
}

// Newest reads the certificates in use of each node that is not barred.
func (c *Certificates) Newest(ctx context.Context) (all []Newest, err error) {
	barred, err := c.barred(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := c.DB.Query(ctx, selectNewest)
	if err != nil {
		return nil, fmt.Errorf("reading the newest certificates: %w", err)
	}
	var node ids.Node
	var one candidate
	_, err = pgx.ForEachRow(rows, []any{&node, &one.trust, &one.issuer, &one.used}, func() error {
		if _, is := barred[node]; is {
			return nil
		}
		if last := len(all) - 1; last < 0 || all[last].Node != node {
			all = append(all, Newest{Node: node})
		}
		n := &all[len(all)-1]
		n.list = append(n.list, one)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the newest certificates: %w", err)
	}
	return all, nil
}

func (c *Certificates) barred(ctx context.Context) (map[ids.Node]struct{}, error) {
	if c.Barred == nil {
		return nil, nil //nolint:nilnil // no node
	}
	return c.Barred(ctx)
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

// DeleteExpired deletes certificates that expired before an age, at most limit of them. The newest of a node stays, because it
// counts the enrolments of the node.
func DeleteExpired(ctx context.Context, q pg.Queryer, age time.Duration, limit int) (int64, error) {
	tag, err := q.Exec(ctx, deleteCertificates, age, limit)
	if err != nil {
		return 0, fmt.Errorf("deleting expired certificates: %w", err)
	}
	return tag.RowsAffected(), nil
}
