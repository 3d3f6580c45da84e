package observed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// After a restart, every node reports for the first time to this process, and nearly all reports equal
// their rows. Their reports are processed in batches.
const (
	adoptAtOnce = 1000
	adopters    = 4 // concurrent statements: each waits for the disk
	adoptWithin = 10 * time.Second
)

// adoption is one report that waits for the others.
type adoption struct {
	node   ids.Node
	report lastReport
	done   chan<- adopted
}

type adopted struct {
	accepted bool
	err      error
}

// adopt adds a node to this lease if its row equals its report. It returns false if they differ, or if
// the node was stale and other objects wait for its report.
func (l *Leases) adopt(ctx context.Context, node ids.Node, r protocol.Report, digest [sha256.Size]byte) (bool, error) {
	done := make(chan adopted, 1)
	a := adoption{node, lastOf(r, digest, l.Clock.Now()), done}
	l.mu.Lock()
	l.adoptions = append(l.adoptions, a)
	begin := l.asking < adopters
	if begin {
		l.asking++
	}
	l.mu.Unlock()
	if begin {
		go l.adoptAll(context.WithoutCancel(ctx))
	}
	select {
	case got := <-done:
		return got.accepted, got.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// adoptAll runs while adoptions are requested. Requests that arrive while one statement runs go into the
// next.
func (l *Leases) adoptAll(ctx context.Context) {
	for {
		l.mu.Lock()
		some := l.adoptions[:min(len(l.adoptions), adoptAtOnce)]
		l.adoptions = l.adoptions[len(some):]
		if len(some) == 0 {
			l.adoptions = nil
			l.asking--
		}
		id := l.id
		for _, a := range some {
			if l.doubted != nil {
				l.doubted[a.node] = a.report.at
			}
		}
		l.mu.Unlock()
		if len(some) == 0 {
			return
		}
		taken, err := l.adoptSome(ctx, id, some)
		for _, a := range some {
			_, ok := taken[a.node]
			if ok {
				l.store(a.node, a.report)
			}
			a.done <- adopted{ok, err}
		}
	}
}

// adoptSome adopts a batch of nodes with one statement and returns those whose rows equal their
// reports. The timeout is its own and not that of a caller, because the batch contains reports of
// many requests.
func (l *Leases) adoptSome(ctx context.Context, id uuid.UUID, some []adoption) (map[ids.Node]struct{}, error) {
	ctx, cancel := context.WithTimeout(ctx, adoptWithin)
	defer cancel()
	nodes, boots := make([]uuid.UUID, len(some)), make([]int64, len(some))
	sequences, hashes, enrolments := make([]int64, len(some)), make([]string, len(some)), make([]int64, len(some))
	for i, a := range some {
		nodes[i], boots[i], sequences[i], hashes[i] = a.node.UUID, a.report.boot, a.report.sequence, hex.EncodeToString(a.report.digest[:])
		enrolments[i] = a.report.enrolment
	}
	rows, err := l.DB.Query(ctx, adoptReports, id, l.StaleAfter(), nodes, boots, sequences, hashes, enrolments)
	if err != nil {
		return nil, fmt.Errorf("taking %d reports: %w", len(some), err)
	}
	taken := make(map[ids.Node]struct{}, len(some))
	var node ids.Node
	if _, err := pgx.ForEachRow(rows, []any{&node}, func() error {
		taken[node] = struct{}{}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("taking %d reports: %w", len(some), err)
	}
	return taken, nil
}
