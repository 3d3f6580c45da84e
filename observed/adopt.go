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

// After a restart every node is heard for the first time, and nearly all say what
// their rows say already. Their reports are taken together.
const (
	adoptAtOnce = 1000
	adopters    = 4 // statements beside each other: each waits for the disk
	adoptWithin = 10 * time.Second
)

// adoption is one report that waits for the others.
type adoption struct {
	node   ids.Node
	report lastReport
	done   chan<- adopted
}

type adopted struct {
	taken bool
	err   error
}

// adopt puts a node under this lease whose row says the same as its report. False
// where it does not, or where the node was silent and others wait to hear of it.
func (l *Leases) adopt(ctx context.Context, node ids.Node, r protocol.Report, digest [sha256.Size]byte) (bool, error) {
	done := make(chan adopted, 1)
	a := adoption{node, lastReport{r.Boot, r.Sequence, digest, l.Clock.Now()}, done}
	l.mu.Lock()
	l.asked = append(l.asked, a)
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
		return got.taken, got.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// adoptAll runs while somebody asks. What comes while one statement runs is in
// the next.
func (l *Leases) adoptAll(ctx context.Context) {
	for {
		l.mu.Lock()
		some := l.asked[:min(len(l.asked), adoptAtOnce)]
		l.asked = l.asked[len(some):]
		if len(some) == 0 {
			l.asked = nil
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

func (l *Leases) adoptSome(ctx context.Context, id uuid.UUID, some []adoption) (map[ids.Node]struct{}, error) {
	ctx, cancel := context.WithTimeout(ctx, adoptWithin)
	defer cancel()
	nodes, boots := make([]uuid.UUID, len(some)), make([]int64, len(some))
	sequences, hashes := make([]int64, len(some)), make([]string, len(some))
	for i, a := range some {
		nodes[i], boots[i], sequences[i], hashes[i] = a.node.UUID, a.report.boot, a.report.sequence, hex.EncodeToString(a.report.digest[:])
	}
	rows, err := l.DB.Query(ctx, adoptReports, id, l.StaleAfter(), nodes, boots, sequences, hashes)
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
