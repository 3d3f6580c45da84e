// Package secret owns the public side of keys: which node certificates and
// task-signing keys are in force. Private keys live behind internal/pki, never
// in these tables.
package secret

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Certificates says which serials are in force.
type Certificates struct {
	DB pg.Pool

	mu     sync.RWMutex
	active map[string]uuid.UUID // serial → node
	read   time.Time
}

// maxAge is how old the answer to Check may be: half of the two seconds within
// which a revocation must silence a node.
const maxAge = time.Second

const (
	insertCertificate = `
		WITH last AS (
			UPDATE certificates SET status = 'superseded', not_after = least(not_after, now() + $4::interval) WHERE node_id = $2 AND status = 'active'
		)
		INSERT INTO certificates (serial, node_id, status, not_after) VALUES ($1, $2, 'active', $3)`
	selectCertificates = `SELECT serial, node_id FROM certificates WHERE status IN ('active', 'superseded') AND not_after > now()`
	revokeCertificates = `UPDATE certificates SET status = 'revoked' WHERE node_id = $1 AND status IN ('active', 'superseded')`
)

// overlap lets an answer that was lost on the way be asked for again with the
// certificate it should have replaced.
const overlap = 10 * time.Minute

// Issued records a fresh certificate; those before it stay in force for the
// overlap.
func (c *Certificates) Issued(ctx context.Context, tx pgx.Tx, node ids.Node, serial string, notAfter time.Time) error {
	if _, err := tx.Exec(ctx, insertCertificate, serial, node, notAfter, overlap); err != nil {
		return fmt.Errorf("recording certificate of %s: %w", node, err)
	}
	return nil
}

// Added lets a serial pass before the next read of the table.
func (c *Certificates) Added(node ids.Node, serial string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active != nil {
		c.active[serial] = node.UUID
	}
}

// Revoke ends all of a node's certificates.
func (c *Certificates) Revoke(ctx context.Context, tx pgx.Tx, node ids.Node) error {
	if _, err := tx.Exec(ctx, revokeCertificates, node); err != nil {
		return fmt.Errorf("revoking certificates of %s: %w", node, err)
	}
	return nil
}

// Check refuses a serial that is not in force for this node. It is asked on each
// request and each second of an open poll, so it reads the table at most once a
// second for the whole fleet.
func (c *Certificates) Check(ctx context.Context, node ids.Node, serial string, now time.Time) error {
	if err := c.refresh(ctx, now); err != nil {
		return err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if owner, ok := c.active[serial]; !ok || owner != node.UUID {
		return errs.New(errs.CertificateRevoked, "this certificate is not in force; the node must be enrolled again")
	}
	return nil
}

// Fallen returns those of the serials that are not in force.
func (c *Certificates) Fallen(ctx context.Context, serials []string, now time.Time) (fallen []string, err error) {
	if err := c.refresh(ctx, now); err != nil {
		return nil, err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, s := range serials {
		if _, ok := c.active[s]; !ok {
			fallen = append(fallen, s)
		}
	}
	return fallen, nil
}

func (c *Certificates) refresh(ctx context.Context, now time.Time) error {
	c.mu.RLock()
	fresh := c.active != nil && now.Sub(c.read) < maxAge
	c.mu.RUnlock()
	if fresh {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active != nil && now.Sub(c.read) < maxAge {
		return nil // another request has read it meanwhile
	}
	rows, err := c.DB.Query(ctx, selectCertificates)
	if err != nil {
		return fmt.Errorf("reading certificates: %w", err)
	}
	active := map[string]uuid.UUID{}
	var serial string
	var node uuid.UUID
	if _, err := pgx.ForEachRow(rows, []any{&serial, &node}, func() error {
		active[serial] = node
		return nil
	}); err != nil {
		return fmt.Errorf("reading certificates: %w", err)
	}
	c.active, c.read = active, now
	return nil
}
