package payment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
)

// Found is the number of unfinished items that a sweep has found.
type Found struct {
	Events   int // that never came
	Sessions int // that moved after a query of the provider
	Again    int // events and refunds that were queued once more
}

const (
	// Clocks differ, and the provider lists an event some time after it happened.
	overlap = time.Hour
	// The provider deletes events after this time.
	remembered = 30 * 24 * time.Hour
	// atOnce bounds what one round reads.
	atOnce = 200
)

// Sweep finds lost work: events that never arrived, sessions without an event, and lost jobs. It runs in
// a worker. Two concurrent sweeps, or a sweep and a webhook, process everything once.
func (s *Service) Sweep(ctx context.Context) (found Found, err error) {
	if s.Provider == nil {
		return Found{}, nil
	}
	events, missed := s.sweepEvents(ctx)
	sessions, stuck := s.sweepSessions(ctx)
	again, lost := s.sweepJobs(ctx)
	s.Hints.Send(event.Topic)
	return Found{Events: events, Sessions: sessions, Again: again}, errors.Join(missed, stuck, lost)
}

// sweepEvents reads the provider's own list from where the last sweep began.
func (s *Service) sweepEvents(ctx context.Context) (found int, err error) {
	live, begun := s.Provider.Livemode(), s.Clock.Now()
	var since time.Time
	if err := s.DB.QueryRow(ctx, selectSweep, live, begun).Scan(&since); err != nil {
		return 0, fmt.Errorf("reading how far events were read: %w", err)
	}
	if oldest := begun.Add(-remembered); since.Before(oldest) {
		since = oldest
	}
	err = s.Provider.Events(ctx, since.Add(-overlap), func(page []Event) error {
		stored, err := s.store(ctx, "sweep", page)
		found += stored
		return err
	})
	if err != nil {
		return found, fmt.Errorf("reading missed events: %w", err)
	}
	_, err = s.DB.Exec(ctx, putSweep, live, begun)
	return found, wrap("keeping how far events were read", err)
}

// sweepSessions queries the provider about each overdue session. A failed query does not prevent those
// of other sessions.
func (s *Service) sweepSessions(ctx context.Context) (found int, err error) {
	var failures []error
	after := ids.PaymentSession{}
	for {
		page, err := list(ctx, s.DB, selectOverdue, s.Provider.Livemode(), after, atOnce)
		if err != nil {
			return found, errors.Join(append(failures, err)...)
		}
		for _, session := range page {
			moved, err := s.recheck(ctx, session)
			if err != nil {
				failures = append(failures, err)
			} else if moved {
				found++
			}
		}
		if len(page) < atOnce || ctx.Err() != nil {
			return found, errors.Join(failures...)
		}
		after = page[len(page)-1].ID
	}
}

// recheck reads a session from the provider and applies the result. The call happens before the
// transaction, so no row is locked while the provider responds. A checkout without an id of the
// provider was never opened, so it cannot be paid and ends. The response with the id of a charge may be
// lost, so the provider is queried first.
func (s *Service) recheck(ctx context.Context, session Session) (moved bool, err error) {
	c, err := Checkout{}, ErrUnknown
	if session.ProviderID != "" || session.isCharge() {
		c, err = s.query(ctx, session)
	}
	if session.ProviderID == "" && errors.Is(err, ErrUnknown) {
		tag, err := s.DB.Exec(ctx, endUnopened, session.ID)
		return err == nil && tag.RowsAffected() > 0, wrap("ending a payment session", err)
	}
	if err != nil && session.isCharge() && s.Clock.Now().After(session.CreatedAt.Add(reportWithin)) {
		_ = s.Failed(ctx, "waiting for the result of charge "+session.ID.String(), err) // for the log
		if err = s.Mandates.Missed(ctx, session, err); err == nil {
			c = Checkout{Stage: StageUnreported, Livemode: session.Livemode}
		}
	}
	if err != nil {
		return false, fmt.Errorf("asking about payment session %s: %w", session.ID, err)
	}
	var o Outcome
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		locked, err := querySession(ctx, tx, lockSession, session.ID)
		if err != nil {
			return err
		}
		if o, err = s.move(ctx, tx, locked, Claim{Checkout: c, Live: c.Livemode}); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, checkSession, session.ID)
		failpoint.Hit("payment.sweep.before_commit")
		return wrap("marking a payment session as checked", err)
	})
	if err == nil && o.Result != ResultUnchanged {
		s.Metrics.count("", "swept_"+o.Result)
	}
	return o.Result != ResultUnchanged, err
}

// sweepJobs queues lost jobs again.
func (s *Service) sweepJobs(ctx context.Context) (again int, err error) {
	events, err := collect[string](ctx, s.DB, selectForgottenEvents, atOnce)
	if err != nil {
		return 0, err
	}
	refunds, err := collect[uuid.UUID](ctx, s.DB, selectForgottenRefunds, atOnce)
	if err != nil || len(events)+len(refunds) == 0 {
		return 0, err
	}
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		for _, id := range events {
			if _, err := s.Jobs.InsertTx(ctx, tx, ProcessEvent{Event: id}, nil); err != nil {
				return fmt.Errorf("queueing event %s: %w", id, err)
			}
		}
		for _, id := range refunds {
			if _, err := s.Jobs.InsertTx(ctx, tx, RecordRefund{Refund: ids.From[ids.Refund](id)}, nil); err != nil {
				return fmt.Errorf("queueing refund %s: %w", id, err)
			}
		}
		return nil
	})
	return len(events) + len(refunds), err
}

func collect[T any](ctx context.Context, q queryer, sql string, args ...any) ([]T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("looking for forgotten work: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[T])
	return all, wrap("looking for forgotten work", err)
}

// noAnswer rejects the reconciliation of a session that the provider has never received.
func noAnswer() error {
	return errs.New(errs.Conflict, "the provider was never reached for this session").Try("it cannot have been paid; it ends by itself")
}
