// Package payment owns top-ups and refunds: checkout sessions at the payment provider, the provider's
// events, the credits that follow, and refunds.
//
// It never receives card data. It does not trust the browser: the return of a user from the provider's
// page proves nothing. Only a signed event or a response of the provider leads to a credit, and only if
// it agrees with the session that was created here. The package never calls the provider inside a
// transaction.
package payment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/policies"
)

// Service implements the use cases of payment.
type Service struct {
	DB pg.Pool
	// Provider is nil if payments are disabled.
	Provider Provider
	Identity *identity.Service
	Ledger   *ledger.Service
	Jobs     Queue
	Naming   ids.Naming
	Hints    *hint.Bus
	Clock    clock.Clock
	// Limits reads one policy revision for one decision.
	Limits func(identity.Caller) Limits
	// PublicURL is the address of the portal, without a slash at its end.
	PublicURL func() string
	// Log receives the provider's reasons, which the caller does not see. Nil drops them.
	Log *slog.Logger
	// Metrics counts the provider's events. It may be nil.
	Metrics *Metrics
	// Mandates records in a mandate what the provider reports about it. Only sessions of mandates need it.
	Mandates Mandates
}

// Queue inserts jobs in a transaction. A River client implements it.
type Queue interface {
	InsertTx(ctx context.Context, tx pgx.Tx, args river.JobArgs, opts *river.InsertOpts) (*rivertype.JobInsertResult, error)
}

// Mandates are the callbacks of the package of mandates. The first two run in the transaction of the report.
type Mandates struct {
	// Stored records the end of a checkout that stores a payment method.
	Stored func(context.Context, pgx.Tx, Claim) (Outcome, error)
	// Charged records the end of a charge. failure is the reason of the bank.
	Charged func(ctx context.Context, tx pgx.Tx, session Session, to State, failure string) error
	// Missed records a call for a charge without a result. It runs in no transaction.
	Missed func(ctx context.Context, session Session, cause error) error
}

// Limits are the policy values of one request.
type Limits struct {
	Min, Max money.Minor
	// SessionTTL is the lifetime of a checkout session.
	SessionTTL time.Duration
	// RefundWindow counts from the credit; 0 lets nothing go back to a card.
	RefundWindow time.Duration
	// AutoTopup allows charges of a stored payment method.
	AutoTopup bool
}

const day = 24 * time.Hour

// LimitsFrom returns a function that reads the limits of a caller's top-ups and refunds.
func LimitsFrom(client *policies.Client) func(identity.Caller) Limits {
	return func(c identity.Caller) Limits {
		v := client.Latest().For(c.PolicyScopes()...)
		return Limits{
			Min: v.Minor(policies.PaymentMinAmountMinor), Max: v.Minor(policies.PaymentMaxAmountMinor),
			SessionTTL:   time.Duration(v.Int(policies.PaymentSessionTTLMinutes)) * time.Minute,
			RefundWindow: time.Duration(v.Int(policies.AllocationRefundWindowDays)) * day,
			AutoTopup:    v.Bool(policies.PaymentAutoTopupEnabled),
		}
	}
}

// Check rejects the amount of a top-up outside the limits.
func (l Limits) Check(amount money.Minor) error {
	if amount >= l.Min && amount <= l.Max {
		return nil
	}
	return errs.New(errs.PaymentAmountOutOfRange, "a top-up is between %d and %d minor units", l.Min, l.Max).
		At("amount_minor").With("min_minor", l.Min).With("max_minor", l.Max)
}

// on returns not found if payments are disabled.
func (s *Service) on() error {
	if s.Provider == nil {
		return errs.New(errs.NotFound, "payments are off in this environment").
			Try("request credit or a payment provider from an operator")
	}
	return nil
}

// ErrRejected is a permanent error of the provider: a retry has the same result.
var ErrRejected = errors.New("the payment provider rejects the request")

// ErrUnknown is the provider's response about an object that it does not have.
var ErrUnknown = errors.New("the payment provider does not know this")

// Failed gives a provider's no a code, and its reason to the log.
func (s *Service) Failed(ctx context.Context, doing string, err error) error {
	err = fmt.Errorf("%s: %w", doing, err)
	if s.Log != nil && ctx.Err() == nil {
		s.Log.WarnContext(ctx, "payment provider failed", slog.String("component", "payment"), slog.Any("err", err))
	}
	if errors.Is(err, ErrRejected) || errors.Is(err, ErrUnknown) {
		return errs.New(errs.ProviderFailed, "the payment provider rejected the request").Try("contact an operator: the log of the server has the reason").Because(err)
	}
	return err
}

// PagePath is the path of the page with the result of a session; the session's id follows.
const PagePath = "/payments/"

// home rejects a return address outside the portal.
func (s *Service) home(target string) (string, error) {
	ours := s.PublicURL()
	switch {
	case target == "":
		return ours + "/", nil
	case target != ours && !strings.HasPrefix(target, ours+"/"):
		return "", errs.Invalid("return_url", "must begin with %s/", ours)
	}
	if _, err := url.Parse(target); err != nil { // the provider would be blamed for its no
		return "", errs.Invalid("return_url", "is no address")
	}
	return target, nil
}
