// Package secret owns keys: which node certificates are in force, the stored private keys, each sealed
// under a key-encryption key, the signed sets of public keys, and the ports behind which private keys are
// used.
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
	"github.com/gpuaas/gpuaas/internal/pki"
)

// Certificates owns the list of valid serials.
type Certificates struct {
	DB pg.Pool
	// Barred returns the nodes whose certificates are all invalid. It is called whenever the table is
	// read. Nil means no node.
	Barred func(ctx context.Context) (map[ids.Node]struct{}, error)

	mu     sync.RWMutex
	active map[string]entry
	read   time.Time
}

// InForce describes a certificate in force.
type InForce struct {
	Trust     string // stamp of the trust state that the node received with it
	Issuer    string
	Enrolment int64 // counts the enrolments of the node
}

// entry is a certificate in force.
type entry struct {
	InForce

	node uuid.UUID
	used bool
}

// maxAge is the maximum age of the rows behind Check. Open polls check their certificate every second.
// The sum stays below the two seconds within which a revocation must disconnect a node.
const maxAge = 500 * time.Millisecond

// overlap allows a node to repeat a renewal whose response was lost, with the certificate that the
// renewal replaced.
const overlap = 10 * time.Minute

// Enrolled records the certificate of an enrolment. trust is the stamp of the trust state that the node
// receives with it.
func (*Certificates) Enrolled(ctx context.Context, tx pgx.Tx, node ids.Node, made pki.Certificate, trust string) (InForce, error) {
	return insert(ctx, tx, node, made, trust, 1)
}

// Renewed records the certificate of a renewal; the earlier ones stay valid for the overlap.
func (*Certificates) Renewed(ctx context.Context, tx pgx.Tx, node ids.Node, made pki.Certificate, trust string) (InForce, error) {
	return insert(ctx, tx, node, made, trust, 0)
}

func insert(ctx context.Context, tx pgx.Tx, node ids.Node, made pki.Certificate, trust string, enrolments int) (InForce, error) {
	if err := lock(ctx, tx, node); err != nil {
		return InForce{}, err
	}
	f := InForce{Trust: trust, Issuer: made.Issuer}
	err := tx.QueryRow(ctx, insertCertificate, made.Serial, node, made.NotAfter, overlap, made.Issuer, trust, enrolments).Scan(&f.Enrolment)
	if err != nil {
		return InForce{}, fmt.Errorf("recording certificate of %s: %w", node, err)
	}
	return f, nil
}

// Renewing locks the node's certificates until the transaction ends, and rejects a serial that is not
// valid. A revocation that commits first therefore wins, and a later one finds the new certificate as
// well.
func (c *Certificates) Renewing(ctx context.Context, tx pgx.Tx, node ids.Node, serial string) error {
	if err := lock(ctx, tx, node); err != nil {
		return err
	}
	var stands bool
	if err := tx.QueryRow(ctx, selectStands, serial, node).Scan(&stands); err != nil {
		return fmt.Errorf("reading certificate of %s: %w", node, err)
	}
	if !stands {
		return fallen()
	}
	return nil
}

// Revoke revokes all of a node's certificates and returns their serials. The caller reports them to the
// authority after the commit. The caller revokes the node's tokens first, so that an enrolment in
// progress ends before.
func (c *Certificates) Revoke(ctx context.Context, tx pgx.Tx, node ids.Node, reason string) (serials []string, err error) {
	if err := lock(ctx, tx, node); err != nil {
		return nil, err
	}
	// Another statement than the lock: it sees what was issued while we waited.
	rows, err := tx.Query(ctx, revokeCertificates, node, reason)
	if err == nil {
		serials, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		return nil, fmt.Errorf("revoking certificates of %s: %w", node, err)
	}
	return serials, nil
}

func lock(ctx context.Context, tx pgx.Tx, node ids.Node) error {
	if _, err := tx.Exec(ctx, lockCertificates, node); err != nil {
		return fmt.Errorf("locking certificates of %s: %w", node, err)
	}
	return nil
}

// Added lets a serial pass before the next read of the table.
func (c *Certificates) Added(node ids.Node, serial string, f InForce) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active != nil {
		c.active[serial] = entry{InForce: f, node: node.UUID}
	}
}

// Check rejects a serial that is not valid for this node. It runs on each request and each second of an
// open poll, so it reads the table at most twice a second for the whole fleet.
func (c *Certificates) Check(ctx context.Context, node ids.Node, serial string, now time.Time) error {
	_, err := c.Find(ctx, node, serial, now)
	return err
}

// Find is Check with the description of the certificate. It records the first use.
func (c *Certificates) Find(ctx context.Context, node ids.Node, serial string, now time.Time) (InForce, error) {
	if err := c.refresh(ctx, now); err != nil {
		return InForce{}, err
	}
	c.mu.RLock()
	e, ok := c.active[serial]
	c.mu.RUnlock()
	if !ok || e.node != node.UUID {
		return InForce{}, fallen()
	}
	if e.used {
		return e.InForce, nil
	}
	return e.InForce, c.use(ctx, serial, e)
}

func (c *Certificates) use(ctx context.Context, serial string, e entry) error {
	if _, err := c.DB.Exec(ctx, useCertificate, serial); err != nil {
		return fmt.Errorf("recording the first use of certificate %s: %w", serial, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.active[serial]; ok {
		e.used = true
		c.active[serial] = e
	}
	return nil
}

func fallen() error {
	return errs.New(errs.CertificateRevoked, "this certificate is not in force; the node must be enrolled again").
		Try("create a new enrolment token with gpuaas node re-enrol")
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

// FallenOf is Fallen without the cache: it reads these certificates and no others. It is for a server with few of the nodes.
func (c *Certificates) FallenOf(ctx context.Context, serials []string) (fallen []string, err error) {
	return c.missing(ctx, selectInForce, serials)
}

// RevokedOf returns those of the serials that were revoked, or whose node has no certificate in force. A serial that was
// replaced by a renewal, or has expired since, is not one of them: a connection outlives the certificate that opened it.
func (c *Certificates) RevokedOf(ctx context.Context, serials []string) (revoked []string, err error) {
	return c.missing(ctx, selectUnrevoked, serials)
}

// missing returns those of the serials that a statement does not find, or whose node is barred.
func (c *Certificates) missing(ctx context.Context, find string, serials []string) (missing []string, err error) {
	barred, err := c.barred(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := c.DB.Query(ctx, find, serials)
	if err != nil {
		return nil, fmt.Errorf("reading certificates: %w", err)
	}
	var serial string
	var node ids.Node
	valid := map[string]bool{}
	if _, err := pgx.ForEachRow(rows, []any{&serial, &node}, func() error {
		_, is := barred[node]
		valid[serial] = !is
		return nil
	}); err != nil {
		return nil, fmt.Errorf("reading certificates: %w", err)
	}
	for _, s := range serials {
		if !valid[s] {
			missing = append(missing, s)
		}
	}
	return missing, nil
}

// refresh reads the table if the cached rows are older than maxAge. It checks the age again under
// the write lock: of many concurrent requests, only the first one reads the table.
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
	active, err := c.readAll(ctx)
	if err != nil {
		return fmt.Errorf("reading certificates: %w", err)
	}
	c.active, c.read = active, now
	return nil
}

// readAll reads the valid certificates of all nodes that are not barred. Nodes with the same trust
// state share one string, because a large fleet has few different ones.
func (c *Certificates) readAll(ctx context.Context) (map[string]entry, error) {
	barred, err := c.barred(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := c.DB.Query(ctx, selectCertificates)
	if err != nil {
		return nil, err
	}
	active, stamps := make(map[string]entry, len(c.active)), map[string]string{}
	shared := func(text string) string { // one text for all nodes with the same one
		if stamps[text] == "" {
			stamps[text] = text
		}
		return stamps[text]
	}
	var serial string
	var node ids.Node
	var e entry
	_, err = pgx.ForEachRow(rows, []any{&serial, &node, &e.Trust, &e.Issuer, &e.Enrolment, &e.used}, func() error {
		if _, is := barred[node]; !is {
			active[serial] = entry{InForce{shared(e.Trust), shared(e.Issuer), e.Enrolment}, node.UUID, e.used}
		}
		return nil
	})
	return active, err
}
