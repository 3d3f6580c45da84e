// Package payment brings money in and gives it back: checkouts at the payment
// provider, what the provider tells of them, the credit that follows, refunds.
//
// It sees no card. It believes no browser: that a person came back from the
// provider's page says nothing, only what the provider has signed, or answers
// when it is asked, credits anything, and only where it agrees with what was
// begun here. It never waits for the provider inside a transaction.
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
)

// Service is the room.
type Service struct {
	DB pg.Pool
	// Provider is nil where payments are off.
	Provider Provider
	Identity *identity.Service
	Ledger   *ledger.Service
	Jobs     Queue
	Naming   ids.Naming
	Hints    *hint.Bus
	Clock    clock.Clock
	// Limits reads one policy revision for one decision.
	Limits func(identity.Caller) Limits
	// PublicURL is where people reach the portal, without a slash at its end.
	PublicURL func() string
	// Log is told the provider's reasons; who asked is not. Nil keeps them.
	Log *slog.Logger
	// Figures counts what the provider tells; nil where nobody asks.
	Figures *Figures
}

// Queue takes jobs into a transaction. A River client is one.
type Queue interface {
	InsertTx(ctx context.Context, tx pgx.Tx, args river.JobArgs, opts *river.InsertOpts) (*rivertype.JobInsertResult, error)
}

// Limits are the policy values of one request.
type Limits struct {
	Min, Max money.Minor
	// SessionTTL is how long a checkout stays open.
	SessionTTL time.Duration
	// RefundWindow counts from the credit; 0 lets nothing go back to a card.
	RefundWindow time.Duration
}

// on refuses where payments are off, as if there were no such thing.
func (s *Service) on() error {
	if s.Provider == nil {
		return errs.New(errs.NotFound, "payments are off in this environment").
			Try("request credit or a payment provider from an operator")
	}
	return nil
}

// ErrRefused is what a provider will never do, however often it is asked.
var ErrRefused = errors.New("the payment provider rejects the request")

// ErrUnknown is what a provider does not know.
var ErrUnknown = errors.New("the payment provider does not know this")

// failed gives a provider's no a code, and its reason to the log.
func (s *Service) failed(ctx context.Context, doing string, err error) error {
	err = fmt.Errorf("%s: %w", doing, err)
	if s.Log != nil && ctx.Err() == nil {
		s.Log.WarnContext(ctx, "payment provider failed", slog.String("component", "payment"), slog.Any("err", err))
	}
	if errors.Is(err, ErrRefused) || errors.Is(err, ErrUnknown) {
		return errs.New(errs.ProviderFailed, "the payment provider rejected the request").Try("contact an operator: the log of the server has the reason").Because(err)
	}
	return err
}

// PagePath is where people see what became of a session; its id follows.
const PagePath = "/payments/"

// home refuses to send a person to a place that is not ours.
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
