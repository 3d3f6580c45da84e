package observed

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// clocksApart is the tolerated drift between the database's clock and ours between two renewals. A
// larger drift means that a clock was set or that this process was stopped. A report that seems recent
// may then be an hour old.
const clocksApart = time.Second

// doubtFor outlasts every transaction: what has not been committed by then will
// not be.
const doubtFor = 2 * time.Minute

// Run renews the lease until ctx ends, and then writes what is known of each node,
// so that a restart on purpose loses nothing.
func (l *Leases) Run(ctx context.Context) {
	for {
		if err := l.renew(ctx); err != nil && ctx.Err() == nil {
			l.Log.WarnContext(ctx, "report lease not renewed", "err", err)
		}
		t := time.NewTimer(every(l.StaleAfter()))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), adoptWithin)
			defer cancel()
			if err := l.end(last); err != nil {
				l.Log.WarnContext(last, "last reports not written", "err", err)
			}
			return
		}
	}
}

// renew extends the lease for the nodes that have reported recently and drops the others, in one
// transaction. At no time does the lease therefore cover a node that has not reported.
func (l *Leases) renew(ctx context.Context) error {
	staleAfter := l.StaleAfter()
	// No longer than the margin that isLost leaves.
	ctx, cancel := context.WithTimeout(ctx, every(staleAfter))
	defer cancel()
	id := l.present()
	var r renewal
	err := pgx.BeginFunc(ctx, l.DB, func(tx pgx.Tx) (err error) {
		if r, err = l.survey(ctx, tx, id, staleAfter); err != nil || r.lost {
			return err
		}
		if r.gone, err = lapse(ctx, tx, id, staleAfter, r.quiet); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, renewLease, id, window(staleAfter), staleAfter); err != nil {
			return fmt.Errorf("renewing: %w", err)
		}
		_, err = tx.Exec(ctx, dropLeases)
		return err
	})
	switch {
	case err != nil:
		return err
	case r.lost:
		l.abandon()
		return nil
	}
	l.renewAll(id, r)
	return nil
}

// present is the lease's id, which the first renewal draws.
func (l *Leases) present() uuid.UUID {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id == uuid.Nil {
		l.id, l.held, l.doubted = uuid.New(), map[ids.Node]lastReport{}, map[ids.Node]time.Time{}
	}
	return l.id
}

// abandon drops everything that this process has cached. The rows become stale in their time. Each
// node's next report is compared with its row again, and makes the objects due that wait for it.
func (l *Leases) abandon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id, l.held, l.doubted = uuid.New(), map[ids.Node]lastReport{}, map[ids.Node]time.Time{}
	l.sure, l.dbSure = time.Time{}, time.Time{}
}

// quietNode is a node that the lease no longer covers.
type quietNode struct {
	node ids.Node
	last lastReport
	age  time.Duration
}

// renewal is the result of one renewal transaction.
type renewal struct {
	lost    bool
	now, db time.Time
	rows    map[ids.Node]struct{} // that name the lease
	quiet   []quietNode
	gone    map[ids.Node]struct{} // of the quiet, those whose rows are written
}

// survey compares the rows that name the lease with the nodes in memory. Ages are computed after the
// database has returned its time, so they are never too small.
func (l *Leases) survey(ctx context.Context, tx pgx.Tx, id uuid.UUID, staleAfter time.Duration) (r renewal, err error) {
	var staleAt time.Time
	if err := tx.QueryRow(ctx, selectLease, id).Scan(&r.db, &staleAt); err != nil {
		return r, fmt.Errorf("reading the time: %w", err)
	}
	r.now = l.Clock.Now()
	if r.lost = l.isLost(r.now, r.db, staleAt, staleAfter); r.lost {
		return r, nil
	}
	rows, err := tx.Query(ctx, selectLeased, id, l.leaseNodes())
	if err != nil {
		return r, fmt.Errorf("reading the nodes of the lease: %w", err)
	}
	r.rows = map[ids.Node]struct{}{}
	var node ids.Node
	if _, err := pgx.ForEachRow(rows, []any{&node}, func() error {
		r.rows[node] = struct{}{}
		return nil
	}); err != nil {
		return r, fmt.Errorf("reading the nodes of the lease: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for node := range r.rows {
		h, known := l.held[node]
		switch age := r.now.Sub(h.at); {
		case !known: // its report was stored, and the response was lost
			r.quiet = append(r.quiet, quietNode{node: node, age: staleAfter})
		case age > window(staleAfter):
			r.quiet = append(r.quiet, quietNode{node, h, age})
		}
	}
	return r, nil
}

// leaseNodes returns all nodes whose rows may name the lease.
func (l *Leases) leaseNodes() []uuid.UUID {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]uuid.UUID, 0, len(l.held)+len(l.doubted))
	for node := range l.held {
		all = append(all, node.UUID)
	}
	for node := range l.doubted {
		if _, too := l.held[node]; !too {
			all = append(all, node.UUID)
		}
	}
	return all
}

// isLost reports whether the lease must not be renewed: other processes may have observed it become stale,
// and no due row would announce that its nodes have resumed.
func (l *Leases) isLost(now, db, staleAt time.Time, staleAfter time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sure.IsZero() {
		return false
	}
	apart := (db.Sub(l.dbSure) - now.Sub(l.sure)).Abs()
	return apart > clocksApart || !db.Before(staleAt.Add(-every(staleAfter)))
}

// lapse writes the last report times of nodes and removes them from the lease. It skips rows that
// another transaction has locked.
func lapse(ctx context.Context, tx pgx.Tx, id uuid.UUID, staleAfter time.Duration, quiet []quietNode) (map[ids.Node]struct{}, error) {
	gone := map[ids.Node]struct{}{}
	if len(quiet) == 0 {
		return gone, nil
	}
	nodes, boots := make([]uuid.UUID, len(quiet)), make([]int64, len(quiet))
	sequences, ages, enrolments := make([]int64, len(quiet)), make([]int64, len(quiet)), make([]int64, len(quiet))
	for i, q := range quiet {
		nodes[i], boots[i], sequences[i], ages[i] = q.node.UUID, q.last.boot, q.last.sequence, q.age.Microseconds()
		enrolments[i] = q.last.enrolment
	}
	rows, err := tx.Query(ctx, lapseReports, id, staleAfter, nodes, boots, sequences, ages, enrolments)
	if err != nil {
		return nil, fmt.Errorf("writing %d last reports: %w", len(quiet), err)
	}
	var node ids.Node
	if _, err := pgx.ForEachRow(rows, []any{&node}, func() error {
		gone[node] = struct{}{}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("writing %d last reports: %w", len(quiet), err)
	}
	return gone, nil
}

// renewAll drops the nodes that are not under the lease any more. Reports that arrived during the
// renewal stay, because they are newer than its snapshot.
func (l *Leases) renewAll(id uuid.UUID, r renewal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id != id {
		return
	}
	l.sure, l.dbSure = r.now, r.db
	for node, h := range l.held {
		_, named := r.rows[node]
		_, gone := r.gone[node]
		if h.at.Before(r.now) && (gone || !named) {
			delete(l.held, node)
		}
	}
	for node, since := range l.doubted {
		if _, gone := r.gone[node]; gone || r.now.Sub(since) > doubtFor {
			delete(l.doubted, node)
		}
	}
}

// write removes one node from the lease, so that the database decides about its next report.
func (l *Leases) write(ctx context.Context, node ids.Node) error {
	now := l.Clock.Now()
	l.mu.Lock()
	id := l.id
	h, known := l.held[node]
	delete(l.held, node)
	l.mu.Unlock()
	if !known {
		return nil
	}
	return pgx.BeginFunc(ctx, l.DB, func(tx pgx.Tx) error {
		_, err := lapse(ctx, tx, id, l.StaleAfter(), []quietNode{{node, h, now.Sub(h.at)}})
		return err
	})
}

// end writes all that is known, and ends the lease.
func (l *Leases) end(ctx context.Context) error {
	l.mu.Lock()
	id, held, now := l.id, l.held, l.Clock.Now()
	l.id, l.held, l.doubted = uuid.Nil, nil, nil
	l.mu.Unlock()
	all := make([]quietNode, 0, len(held))
	for node, h := range held {
		all = append(all, quietNode{node, h, now.Sub(h.at)})
	}
	return pgx.BeginFunc(ctx, l.DB, func(tx pgx.Tx) error {
		if _, err := lapse(ctx, tx, id, l.StaleAfter(), all); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, endLease, id)
		return err
	})
}
