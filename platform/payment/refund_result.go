package payment

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// Send sends one refund to the provider, and returns its report. A worker calls it outside its
// transaction. due is false if the refund needs no request.
func (s *Service) Send(ctx context.Context, id ids.Refund) (said Refunded, due bool, err error) {
	r, err := oneRefund(ctx, s.DB, selectRefund, id)
	if err != nil || r.State != Requested || s.Provider == nil {
		return Refunded{}, false, err
	}
	said, err = s.Provider.Refund(ctx, NewRefund{ID: r.ID, Payment: r.Payment, Amount: r.Amount, ProviderID: r.ProviderID})
	if errors.Is(err, ErrRejected) || errors.Is(err, ErrUnknown) {
		// It will never do that: what was reserved goes back.
		return Refunded{ID: r.ProviderID, Reference: r.ID.String(), Payment: r.Payment, Amount: r.Amount, Stage: RefundFailed, Failure: err.Error()}, true, nil
	}
	if err == nil {
		failpoint.Hit("payment.refund.after_provider")
	}
	return said, true, wrap("asking for refund "+id.String(), err)
}

// RecordRefund stores the provider's report of a refund, in the caller's transaction, once. If the
// refund failed, even after it had succeeded, RecordRefund reverses its transfer.
func (s *Service) RecordRefund(ctx context.Context, tx pgx.Tx, said Refunded) (RefundState, error) {
	reference, _ := uuid.Parse(said.Reference)
	r, err := oneRefund(ctx, tx, lockRefund, reference, said.ID)
	if err != nil {
		return "", err
	}
	// Once it has a name there, another name is another refund.
	if said.Amount != r.Amount || said.Payment != r.Payment || r.ProviderID != "" && said.ID != r.ProviderID {
		return r.State, errs.New(errs.ProviderFailed, "the payment provider reports refund %s with other data", r.ID)
	}
	r.ProviderID, r.Version = said.ID, r.Version+1
	switch {
	case said.Stage == RefundSucceeded && r.State == Requested:
		b := &pgx.Batch{}
		b.Queue(recordRefund, r.ID, Succeeded, "", textOrNull(said.ID))
		s.queueRefunded(b, r)
		return Succeeded, wrap("settling a refund", tx.SendBatch(ctx, b).Close())
	case said.Stage == RefundFailed && r.State != Failed:
		return Failed, s.reverse(ctx, tx, r, said)
	case r.State == Requested:
		_, err := tx.Exec(ctx, nameRefund, r.ID, textOrNull(said.ID))
		return Requested, wrap("naming a refund", err)
	}
	return r.State, nil
}

// reverse adds the refunded amount back to the payment and reverses its transfer.
func (s *Service) reverse(ctx context.Context, tx pgx.Tx, r Refund, said Refunded) error {
	done := r.transfer()
	b := &pgx.Batch{}
	b.Queue(recordRefund, r.ID, Failed, said.Failure, textOrNull(said.ID))
	b.Queue(giveToPayment, r.Payment, r.Amount)
	ledger.QueueTransfer(b, ledger.Transfer{
		ID: uuid.Must(uuid.NewV7()), Kind: ledger.RefundReversed, Reference: done.Reference, From: done.To, To: done.From,
		Amount: r.Amount, Currency: r.Currency, Note: done.Note,
	}, nil)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("taking refund %s back: %w", r.ID, err)
	}
	return s.balanceMoved(ctx, tx, r.Tenant)
}

// applyRefundReport processes an event about a refund, whether it was requested here or elsewhere.
func (s *Service) applyRefundReport(ctx context.Context, tx pgx.Tx, said Refunded) (Outcome, error) {
	state, err := s.RecordRefund(ctx, tx, said)
	switch {
	case errs.CodeOf(err) == errs.NotFound:
		return s.recordExternal(ctx, tx, said)
	case errs.CodeOf(err) == errs.ProviderFailed:
		return Outcome{Result: ResultDisagrees, Reason: "refund", Attention: true}, nil
	case err != nil:
		return Outcome{}, err
	case state == Failed:
		return Outcome{Result: resultRecorded, Reason: string(Failed)}, nil
	}
	return Outcome{Result: resultRecorded}, nil
}

type queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func oneRefund(ctx context.Context, q queryer, sql string, args ...any) (Refund, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return Refund{}, fmt.Errorf("reading a refund: %w", err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, scanRefund)
	if errors.Is(err, pgx.ErrNoRows) {
		return Refund{}, errs.New(errs.NotFound, "no such refund")
	}
	return r, wrap("reading a refund", err)
}
