// Package change is what people do to declarations: they propose, approve, reject
// and apply plans, write and remove objects, move them between owners, and leave
// them alone for a while. Each is one transaction with its idempotency key and one
// audit row, all of it or nothing. It owns the plans of changes; what a plan would
// do is preview's to say, and what stands declared is written by desired alone.
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
	"github.com/gpuaas/gpuaas/reconciler"
)

// Service is the room. It works under the scope of its callers, who act for the
// platform: the doors have made sure of that.
type Service struct {
	DB       pg.Pool
	Desired  *revision.Store
	Identity *identity.Service // whose idempotency keys are used; nil where no request is answered
	// Facts reads what a preview needs to know; services.New sets Gatherer.Facts.
	Facts   func(ctx context.Context, q pg.Queryer, touched preview.Touched) (preview.Facts, error)
	History *reconciler.History
	Rules   func() preview.Rules
	// Normal checks one object and fills in what its spec leaves out; nil: as it is.
	Normal func(desired.Object) (desired.Object, error)
	// Validate evaluates files as a commit's are.
	Validate func(ctx context.Context, files map[string][]byte) (validate.Result, error)
	Naming   ids.Naming
	Hints    *hint.Bus
	Clock    clock.Clock
}

// do makes one change: the key first, so that a repetition waits for nothing; then
// the work, which says what its audit row holds; then what it is answered.
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

// conflictError: what is not there cannot be locked, so only the index refuses the later
// of two who declare one name.
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

// entry is the audit row of something done to a thing.
func (s *Service) entry(action, kind, id string, before, after any) record {
	return record{Entry: audit.Entry{Action: action, Target: s.Naming.Name("", "", kind, id).String(), Before: before, After: after}}
}

// types are the words of resource names.
var types = map[desired.Kind]string{
	desired.KindEnvironment: "environment", desired.KindPolicy: "policy", desired.KindRole: "role", desired.KindSKU: "sku",
	desired.KindOSImage: "os-image", desired.KindNode: "node", desired.KindAllocation: "allocation",
}

func (s *Service) about(action string, o desired.Object, before, after any) record {
	return s.entry(action, types[o.Kind], o.UID.String(), before, after)
}

// affectedFacts are those of a difference.
func (s *Service) affectedFacts(ctx context.Context, q pg.Queryer, d revision.Difference) (preview.Facts, error) {
	f, err := s.Facts(ctx, q, preview.Touch(d))
	if err != nil {
		return preview.Facts{}, fmt.Errorf("reading what a change touches: %w", err)
	}
	return f, nil
}
