// Package change executes what users do to desired objects: they propose, approve, reject and apply
// plans, put and delete objects, adopt them, and suspend them for a while. Each use case is one
// transaction with its idempotency key and one audit row. The package owns the plans of changes.
// Package preview computes their effect, and only package desired writes objects.
package change

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/reconciler"
)

// Service creates, decides and applies plans, and writes the objects that the API owns. It runs
// with the scope of its callers, who act for the platform: the HTTP handlers have authorised them.
type Service struct {
	DB       pg.Pool
	Desired  *revision.Store
	Identity *identity.Service // whose idempotency keys are used; nil where no request is answered
	// Gather reads what a preview needs to know; services.New sets Gatherer.Facts.
	Gather  func(ctx context.Context, q pg.Queryer, touched preview.Touched) (preview.Inputs, error)
	History *reconciler.History
	Rules   func() preview.Rules
	// Roles returns the declared roles.
	Roles func() policies.RoleTable
	// Pushers returns the e-mail addresses of the users who have pushed or merged a commit, as its
	// forge reports. An address is empty if it is not that of a user. It may be nil.
	Pushers func(ctx context.Context, q pg.Queryer, source, commit string) ([]string, error)
	// Normal checks one object and fills in what its spec leaves out; nil: as it is.
	Normal func(desired.Object) (desired.Object, error)
	// Validate evaluates files as a commit's are.
	Validate func(ctx context.Context, files map[string][]byte) (validate.Result, error)
	Naming   ids.Naming
	Hints    *hint.Bus
	Clock    clock.Clock
}

// do executes one change. The idempotency key is the first, so that a repeated request waits for no
// other lock. Then work runs and returns the values of its audit row, and do stores the response.
func do[T any](ctx context.Context, s *Service, ch identity.Change[T], work func(pgx.Tx) (T, record, error)) (T, error) {
	var made, none T
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		s.Identity.QueueKey(b, ch.Key, identity.Reply{})
		if err := send(ctx, tx, b); err != nil {
			return err
		}
		var beside record
		var err error
		if made, beside, err = work(tx); err != nil {
			return err
		}
		b = &pgx.Batch{}
		beside.queue(b, ch.Caller)
		if ch.Answer != nil {
			s.Identity.QueueReply(b, ch.Key, ch.Answer(made))
		}
		if err := send(ctx, tx, b); err != nil {
			return err
		}
		failpoint.Hit("change.apply.before_commit")
		return nil
	})
	if err != nil {
		return none, conflictError(err)
	}
	failpoint.Hit("change.apply.after_commit")
	return made, nil
}

// conflictError translates a violation of the name index. A row that does not exist cannot be
// locked, so only the index rejects the second of two transactions that create the same name.
func conflictError(err error) error {
	var broken *pgconn.PgError
	if errors.As(err, &broken) && broken.ConstraintName == "desired_objects_one_name" {
		return errs.New(errs.Conflict, "another request has created this name").Try("read it and decide again")
	}
	return err
}

func send(ctx context.Context, tx pgx.Tx, b *pgx.Batch) error {
	if b.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, b).Close()
}

// entry returns the audit row of an action on an object.
func (s *Service) entry(action, kind, id string, before, after any) record {
	return record{Entry: audit.Entry{Action: action, Target: s.Naming.Name("", "", kind, id).String(), Before: before, After: after}}
}

func (s *Service) about(action string, o desired.Object, before, after any) record {
	return s.entry(action, o.Kind.ResourceType(), o.UID.String(), before, after)
}

// gatherAffected are those of a difference.
func (s *Service) gatherAffected(ctx context.Context, q pg.Queryer, d revision.Difference) (preview.Inputs, error) {
	f, err := s.Gather(ctx, q, preview.Touch(d))
	if err != nil {
		return preview.Inputs{}, fmt.Errorf("reading what a change touches: %w", err)
	}
	return f, nil
}
