package event

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/hint"
)

// Relay publishes the outbox to JetStream in sequence, one process at a time. It has no open transaction
// and no row lock while it waits for the network. A crash therefore causes at most a second publication
// under the same ids.
type Relay struct {
	DB          *pgxpool.Pool
	JS          jetstream.JetStream
	Hints       *hint.Bus
	Environment string // in the source of each event: /gpuaas/<environment>
	// Retention is the time for which the streams store events. The outbox stores them at least as long, so that a
	// lost stream can be filled again.
	Retention func() time.Duration
	Log       *slog.Logger
	Clock     clock.Clock

	mu     sync.Mutex
	status Status
}

// Status is the state of this process's relay.
type Status struct {
	Leading bool      // this process publishes; the others wait
	Error   string    // why it does not get on, empty when it does
	Since   time.Time // since when the above is so
}

const (
	// pollEvery is the delay of an event whose hint was lost, and the time until another process takes
	// the lead.
	pollEvery = time.Second
	// After a hint, the event may still be hidden by an older open transaction, whose end sends no hint.
	// Poll again soon, then at growing intervals.
	pollAgainAfter = 10 * time.Millisecond
	// The pause after a failure is doubled up to two seconds. A long outage therefore costs a few
	// attempts per second at most, and the relay notices its end soon.
	backoffFrom, backoffTo = 50 * time.Millisecond, 2 * time.Second
	// answerWithin is longer than the pool's statement timeout. A database that vanished without closing
	// its connections must not block the relay for ever.
	answerWithin = 35 * time.Second
)

// Run publishes until ctx ends, whatever happens to NATS or to the database.
func (r *Relay) Run(ctx context.Context) error {
	wake, stop := r.Hints.Listen(Topic)
	defer stop()
	pause := backoffFrom
	for ctx.Err() == nil {
		progress, err := r.lead(ctx, wake)
		if progress {
			pause = backoffFrom
		}
		wait := pollEvery // another process leads
		if err != nil && ctx.Err() == nil {
			r.note(Status{Error: err.Error()})
			r.Log.Warn("the outbox relay pauses", "err", err, "duration_ms", pause.Milliseconds())
			wait, pause = pause, min(2*pause, backoffTo)
		}
		sleep(ctx, nil, wait)
	}
	r.note(Status{})
	return nil
}

// lead publishes as long as this process owns the lock and no error occurs. The lock belongs to a
// connection that is never returned to the pool. The end of the connection therefore always ends the
// lead.
func (r *Relay) lead(ctx context.Context, wake <-chan struct{}) (progress bool, err error) {
	conn, err := r.takeLock(ctx)
	if err != nil || conn == nil {
		return false, err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), pollEvery)
		defer cancel()
		_ = conn.Close(closing) // the server ends the session either way
	}()
	t := &term{relay: r, conn: conn}
	for wait := pollEvery; ctx.Err() == nil; {
		if err := t.pass(ctx); err != nil {
			return t.moved, err
		}
		r.note(Status{Leading: true})
		if sleep(ctx, wake, wait) {
			wait = pollAgainAfter
		} else {
			wait = min(2*wait, pollEvery)
		}
	}
	return t.moved, nil
}

// takeLock returns nil while another process leads.
func (r *Relay) takeLock(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	pooled, err := r.DB.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connecting the relay: %w", err)
	}
	var mine bool
	if err := pooled.QueryRow(ctx, tryLead).Scan(&mine); err != nil {
		pooled.Release()
		return nil, fmt.Errorf("asking for the relay's lock: %w", err)
	}
	if !mine {
		pooled.Release()
		r.note(Status{})
		return nil, nil //nolint:nilnil // no lock is no failure
	}
	return pooled.Hijack(), nil
}

// Status reports on this process's relay.
func (r *Relay) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

func (r *Relay) note(now Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Leading != r.status.Leading || now.Error != r.status.Error {
		now.Since = r.Clock.Now()
		r.status = now
	}
}

// Backlog is the number and age of the events that a stream does not contain yet. It does not depend on
// the process that publishes them.
type Backlog struct {
	Stream      string
	Pending     int64 // counted up to 10,000
	OldestFor   time.Duration
	DeadLetters int64
}

// Pending reports each stream's backlog.
func (r *Relay) Pending(ctx context.Context) ([]Backlog, error) {
	rows, err := r.DB.Query(ctx, selectBacklog)
	if err != nil {
		return nil, fmt.Errorf("reading the backlog: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b Backlog, err error) {
		var seconds float64
		err = row.Scan(&b.Stream, &b.Pending, &seconds, &b.DeadLetters)
		b.OldestFor = time.Duration(seconds * float64(time.Second))
		return b, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the backlog: %w", err)
	}
	return all, nil
}

// sleep waits for a hint, the duration, or the end of ctx, and reports whether it was a hint.
func sleep(ctx context.Context, wake <-chan struct{}, d time.Duration) (hinted bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-wake:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}

var errDisconnected = errors.New("NATS is not connected")
