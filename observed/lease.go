package observed

import (
	"cmp"
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

// Leases avoids a database write for each report without news. One row per process states the earliest
// time of the last report of all nodes that report to this process. Only a report with new content is
// written for the node itself.
//
// The rows are conservative in one direction. A node never counts as reachable after its last report is
// stale. A reachable node may count as stale early, by at most the window, and only if this process has
// died or cannot write.
type Leases struct {
	DB         pg.Pool
	Clock      clock.Clock
	Log        *slog.Logger
	StaleAfter func() time.Duration
	// Excluded reports whether the reports of a node are stale after another time than those of the lease. Each of
	// its reports is written. It may be nil.
	Excluded func(ids.Node) bool

	mu   sync.Mutex
	id   uuid.UUID // of the lease; nil before the first renewal
	held map[ids.Node]lastReport
	// doubted contains nodes whose rows may name the lease without this process knowing it, because the
	// response to a commit can be lost.
	doubted   map[ids.Node]time.Time
	sure      time.Time // when it was last renewed, by our clock
	dbSure    time.Time // the same moment by the database's
	adoptions []adoption
	asking    int
}

// lastReport identifies the last report of a node, to compare sequence and content.
type lastReport struct {
	enrolment, boot, sequence int64
	digest                    [sha256.Size]byte
	at                        time.Time
}

// lastOf identifies a report that arrived at a time.
func lastOf(r protocol.Report, digest [sha256.Size]byte, at time.Time) lastReport {
	return lastReport{r.Enrolment, r.Boot, r.Sequence, digest, at}
}

// after compares by enrolment, then boot, then sequence, as the database does.
func (h lastReport) after(o lastReport) bool {
	return cmp.Or(cmp.Compare(h.enrolment, o.enrolment), cmp.Compare(h.boot, o.boot), cmp.Compare(h.sequence, o.sequence)) > 0
}

// window is the maximum age of a node's last report under the lease. A node reports two or three times
// within it; otherwise its row is written individually.
func window(staleAfter time.Duration) time.Duration { return staleAfter / 2 }

// every leaves three more tries to renew before anything goes stale for want of it.
func every(staleAfter time.Duration) time.Duration { return staleAfter / 10 }

func (l *Leases) excludes(node ids.Node) bool { return l.Excluded != nil && l.Excluded(node) }

// begin returns the lease id for a report's row, or nil while there is no lease. The node is in doubt
// until Hold confirms the write.
func (l *Leases) begin(node ids.Node) *uuid.UUID {
	if l == nil || l.excludes(node) {
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

// Sure reports whether a report may stay unwritten: the lease was renewed recently.
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

// Again processes a report that equals the last one. False means that the database must decide: the
// report differs, or this process does not know the last one.
func (l *Leases) Again(ctx context.Context, node ids.Node, r protocol.Report) (taken bool, err error) {
	if l == nil {
		return false, nil
	}
	if l.excludes(node) {
		return false, l.write(ctx, node)
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
		// The row may be older than the report in memory. It must be written before this report can be
		// rejected, because other processes compare with the row only.
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

// compare uses memory only while other processes are sure to see the lease, and only for the next
// sequence number: a gap may mean that another process has received a report.
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
	case !lastOf(r, digest, now).after(h):
		return older
	case h.digest != digest:
		return other
	case r.Enrolment != h.enrolment || r.Boot != h.boot || r.Sequence != h.sequence+1 || now.Sub(h.at) > window(staleAfter):
		return unknown
	}
	h.sequence, h.at = r.Sequence, now
	l.held[node] = h
	return same
}

// Store caches a report that the database has accepted.
func (l *Leases) Store(node ids.Node, r protocol.Report) error {
	if l == nil || l.excludes(node) {
		return nil
	}
	digest, err := digestOf(r)
	if err != nil {
		return err
	}
	l.store(node, lastOf(r, digest, l.Clock.Now()))
	return nil
}

// store may run late, under a newer lease. The next renewal compares with the rows, and drops nodes that
// are not under the lease.
func (l *Leases) store(node ids.Node, h lastReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.doubted, node)
	before, known := l.held[node]
	if l.id == uuid.Nil || known && before.after(h) {
		return // overtaken meanwhile
	}
	l.held[node] = h
}
