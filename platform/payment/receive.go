package payment

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// MaxEvent limits the size of an event. The subscribed types have a few kilobytes.
const MaxEvent = 256 << 10

// Receive processes a webhook request: the unparsed body and the signature header. If it returns nil,
// the event is stored and a worker will process it. That includes an event that was stored before.
func (s *Service) Receive(ctx context.Context, body []byte, signature string) error {
	if err := s.on(); err != nil {
		return err
	}
	if len(body) > MaxEvent {
		return errs.New(errs.BodyTooLarge, "an event has at most %d bytes", MaxEvent)
	}
	e, err := s.Provider.Verify(body, signature, s.Clock.Now())
	if err != nil {
		s.Metrics.count("", "rejected")
		return err
	}
	// The webhook has no signed-in user, so it has no tenant scope.
	stored, err := s.store(pg.WithScope(ctx, pg.Platform), "webhook", []Event{e})
	if err != nil {
		return err
	}
	if stored == 0 {
		s.Metrics.count(e.Type, "duplicate")
	}
	return nil
}

// store stores the new events, with a job for each, in one transaction.
func (s *Service) store(ctx context.Context, source string, events []Event) (stored int, err error) {
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		stored = 0
		for _, e := range events {
			tag, err := tx.Exec(ctx, insertEvent, e.ID, e.Type, e.APIVersion, e.Account, e.Livemode, e.Object, e.Body, e.Payload, source, e.CreatedAt)
			if err != nil {
				return fmt.Errorf("keeping event %s: %w", e.ID, err)
			}
			if tag.RowsAffected() == 0 {
				continue
			}
			if _, err := s.Jobs.InsertTx(ctx, tx, ProcessEvent{Event: e.ID}, nil); err != nil {
				return fmt.Errorf("queueing event %s: %w", e.ID, err)
			}
			stored++
		}
		failpoint.Hit("payment.receive.before_commit")
		return nil
	})
	if err == nil {
		failpoint.Hit("payment.receive.after_commit")
	}
	return stored, err
}
