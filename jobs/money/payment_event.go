package money

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/payment"
)

type paymentEvent struct {
	river.WorkerDefaults[payment.ProcessEvent]

	Deps
}

// Work queries the provider if the event requires it. Then it credits the payment, updates the
// session and completes the job in one commit. After a crash before the commit, the event is
// unprocessed.
func (w *paymentEvent) Work(ctx context.Context, job *river.Job[payment.ProcessEvent]) error {
	paymentEvent, err := w.Payments.Gather(ctx, job.Args.Event)
	if err != nil {
		return fmt.Errorf("gathering event %s: %w", job.Args.Event, err)
	}
	var o payment.Outcome
	err = riverjob.Finish(ctx, w.DB, job, "payment_event", func(tx pgx.Tx) (err error) {
		o, err = w.Payments.Process(ctx, tx, paymentEvent)
		return err
	})
	if err != nil {
		return err
	}
	w.Payments.Metrics.Count(o)
	w.Hints.Send(event.Topic)
	if o.Attention {
		w.Log.ErrorContext(ctx, "payment event needs an operator", "component", "payment", "event_id", paymentEvent.ID, "type", o.Type, "result", o.Result, "reason", o.Reason)
	}
	return nil
}

type paymentRefund struct {
	river.WorkerDefaults[payment.RecordRefund]

	Deps
}

// Work requests the refund from the provider and stores its response. After a crash in between, the
// refund is still requested, and a repeated request finds it at the provider.
func (w *paymentRefund) Work(ctx context.Context, job *river.Job[payment.RecordRefund]) error {
	said, due, err := w.Payments.Send(ctx, job.Args.Refund)
	if err != nil {
		return fmt.Errorf("sending refund %s: %w", job.Args.Refund, err)
	}
	if !due {
		return nil
	}
	var state payment.RefundState
	err = riverjob.Finish(ctx, w.DB, job, "payment_refund", func(tx pgx.Tx) (err error) {
		state, err = w.Payments.RecordRefund(ctx, tx, said)
		return err
	})
	if err != nil {
		return err
	}
	w.Hints.Send(event.Topic)
	if state == payment.Failed {
		w.Log.ErrorContext(ctx, "refund failed and was reversed", "component", "payment", "refund_id", job.Args.Refund, "reason", said.Failure)
	}
	return nil
}
