package payment

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// MaxEvent bounds what an event may weigh. Those of the types we ask for weigh a
// few kilobytes.
const MaxEvent = 256 << 10

// Receive takes what came to the webhook: the very bytes, before anybody parses
// them, and the signature's header. When it returns nil the event is kept, and a
// worker will see to it; also when it was kept before.
func (s *Service) Receive(ctx context.Context, body []byte, signature string) error {
	if err := s.on(); err != nil {
		return err
	}
	if len(body) > MaxEvent {
		return errs.New(errs.BodyTooLarge, "an event has at most %d bytes", MaxEvent)
	}
	e, err := s.Provider.Verify(body, signature, s.Clock.Now())
	if err != nil {
		s.Figures.count("", "refused")
		return err
	}
	// Nobody has signed in where the provider speaks.
	kept, err := s.keep(pg.WithScope(ctx, pg.Platform), "webhook", []Event{e})
	if err != nil {
		return err
	}
	if kept == 0 {
		s.Figures.count(e.Type, "duplicate")
	}
	return nil
}

// keep stores those events that are new, with a job for each, in one transaction.
func (s *Service) keep(ctx context.Context, source string, events []Event) (kept int, err error) {
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		kept = 0
		for _, e := range events {
			tag, err := tx.Exec(ctx, insertEvent, e.ID, e.Type, e.APIVersion, e.Account, e.Livemode, e.Object, e.Body, e.Says, source, e.CreatedAt)
			if err != nil {
				return fmt.Errorf("keeping event %s: %w", e.ID, err)
			}
			if tag.RowsAffected() == 0 {
				continue
			}
			if _, err := s.Jobs.InsertTx(ctx, tx, ProcessEvent{Event: e.ID}, nil); err != nil {
				return fmt.Errorf("queueing event %s: %w", e.ID, err)
			}
			kept++
		}
		failpoint.Hit("payment.receive.before_commit")
		return nil
	})
	if err == nil {
		failpoint.Hit("payment.receive.after_commit")
	}
	return kept, err
}
