package observed

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/protocol"
)

// Leases keeps reports that say nothing new out of the database. One row stands
// for all nodes that this process hears: it says since when, at the latest, none of
// them has been silent. Only what a node says anew is written for the node.
//
// What the rows tell others errs to one side. A node is never called alive after
// its last report has gone stale; one that lives may be called silent early, by at
// most the window, and only when this process has died or cannot write.
type Leases struct {
	DB         pg.Pool
	Clock      clock.Clock
	Log        *slog.Logger
	StaleAfter func() time.Duration

	mu   sync.Mutex
	id   uuid.UUID // of the lease; nil before the first renewal
	held map[ids.Node]lastReport
	// doubted are nodes whose rows may have come to name the lease without anybody
	// hearing of it: the answer to a commit can be lost.
	doubted map[ids.Node]time.Time
	sure    time.Time // when it was last renewed, by our clock
	dbSure  time.Time // the same moment by the database's
	asked   []adoption
	asking  int
}

// lastReport is the last word of a node, as far as order and sameness go.
type lastReport struct {
	boot, sequence int64
	digest         [sha256.Size]byte
	at             time.Time
}

// window is how old the last report of a node may be that the lease vouches for.
// A node is heard two or three times within it, or it is on its own.
func window(staleAfter time.Duration) time.Duration { return staleAfter / 2 }

// every leaves three more tries to renew before anything goes stale for want of it.
func every(staleAfter time.Duration) time.Duration { return staleAfter / 10 }

// begin returns what a report's row is to name, so that the lease vouches for it;
// nil while there is none. The node is in doubt until Hold.
func (l *Leases) begin(node ids.Node) *uuid.UUID {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id == uuid.Nil {
		return nil
	}
	l.doubted[node] = l.Clock.Now()
	id := l.id
	return &id
}

// Sure says whether reports may be kept from the database: the lease was renewed
// of late.
func (l *Leases) Sure() bool {
	now := l.Clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sureAt(now)
}

// sureAt needs l.mu.
func (l *Leases) sureAt(now time.Time) bool {
	return l.id != uuid.Nil && now.Sub(l.sure) <= 3*every(l.StaleAfter())
}

// Again takes a report that says what the last one said. False means that the
// database must decide: it is another one, or this process does not know.
func (l *Leases) Again(ctx context.Context, node ids.Node, r protocol.Report) (taken bool, err error) {
	if l == nil {
		return false, nil
	}
	digest, err := digestOf(r)
	if err != nil {
		return false, err
	}
	switch l.compare(node, r, digest) {
	case same:
		return true, nil
	case unknown:
		return l.adopt(ctx, node, r, digest)
	case older:
		// The row may be behind what was taken here. It must not be, to refuse this.
		return false, l.write(ctx, node)
	case other:
	}
	return false, nil
}

type comparison int

const (
	other comparison = iota
	same
	unknown
	older
)

// compare trusts memory only as long as the lease is sure to be seen, and only for
// the very next report: a gap may mean that another process has taken one.
func (l *Leases) compare(node ids.Node, r protocol.Report, digest [sha256.Size]byte) comparison {
	now, staleAfter := l.Clock.Now(), l.StaleAfter()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.sureAt(now) {
		return other
	}
	h, known := l.held[node]
	switch {
	case !known:
		return unknown
	case r.Boot < h.boot || r.Boot == h.boot && r.Sequence <= h.sequence:
		return older
	case h.digest != digest:
		return other
	case r.Boot != h.boot || r.Sequence != h.sequence+1 || now.Sub(h.at) > window(staleAfter):
		return unknown
	}
	h.sequence, h.at = r.Sequence, now
	l.held[node] = h
	return same
}

// Store remembers a report that the database has taken.
func (l *Leases) Store(node ids.Node, r protocol.Report) error {
	if l == nil {
		return nil
	}
	digest, err := digestOf(r)
	if err != nil {
		return err
	}
	l.store(node, lastReport{r.Boot, r.Sequence, digest, l.Clock.Now()})
	return nil
}

// store may be late: the lease may be another one by now. The next renewal compares
// with the rows, and forgets who is not under it.
func (l *Leases) store(node ids.Node, h lastReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.doubted, node)
	before, known := l.held[node]
	if l.id == uuid.Nil || known && (before.boot > h.boot || before.boot == h.boot && before.sequence > h.sequence) {
		return // overtaken meanwhile
	}
	l.held[node] = h
}
