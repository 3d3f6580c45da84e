package identity

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Change is a request that changes something: the caller, the idempotency key, and the response. T is
// the type of the result.
type Change[T any] struct {
	Caller Caller
	Key    Key
	// Answer builds the response that is stored with the key.
	Answer func(T) Reply
}

func (ch Change[T]) reply(made T) Reply {
	if ch.Key.Key == "" || ch.Answer == nil {
		return Reply{}
	}
	return ch.Answer(made)
}

// tries is the number of attempts of a change that concurrent changes overtake. In each round at least
// one of them succeeds.
const tries = 5

// ErrRaced means that another request has changed the rows that a change was computed from.
var ErrRaced = errors.New("it was changed meanwhile")

// Apply calls prepare and commits its statements with the stored response in one transaction. The
// response is stored first, so prepare reads before the transaction. The statements repeat the conditions
// that prepare has read. If another transaction has changed the rows, they return ErrRaced, and Apply
// calls prepare again.
func (ch Change[T]) Apply(ctx context.Context, s *Service, prepare func() (T, func(*pgx.Batch), error)) (T, error) {
	return ch.ApplyWith(ctx, s, prepare, nil)
}

// ApplyToRights is Apply for a change that can remove a right of a user or a service account.
func (ch Change[T]) ApplyToRights(ctx context.Context, s *Service, prepare func() (T, func(*pgx.Batch), error)) (T, error) {
	return ch.applyToRightsOf(ctx, s, prepare, nil)
}

// applyToRightsOf is ApplyToRights with a function that runs in the same transaction.
func (ch Change[T]) applyToRightsOf(ctx context.Context, s *Service, prepare func() (T, func(*pgx.Batch), error), and func(pgx.Tx) error) (T, error) {
	made, err := ch.ApplyWith(ctx, s, prepare, and)
	if err == nil {
		s.RightsChanged()
	}
	return made, err
}

// ApplyWith is Apply with a function that runs in the same transaction after the statements. It
// repeats prepare at most tries times, so that a busy row ends in an error instead of a loop.
func (ch Change[T]) ApplyWith(ctx context.Context, s *Service, prepare func() (T, func(*pgx.Batch), error), and func(pgx.Tx) error) (T, error) {
	var none T
	for try := 1; ; try++ {
		made, write, err := prepare()
		if err != nil {
			return none, err
		}
		b := &pgx.Batch{}
		s.QueueKey(b, ch.Key, ch.reply(made))
		if write != nil {
			write(b)
		}
		if b.Len() > 0 {
			err = s.commit(ctx, b, and)
		}
		switch {
		case err == nil:
			return made, nil
		case !errors.Is(err, ErrRaced):
			return none, nameConflict(err)
		case try == tries:
			return none, errs.New(errs.Conflict, "the object was changed by another request").Try("repeat it in a moment")
		}
	}
}

// commit sends a batch as one transaction, with what cannot be in a batch.
func (s *Service) commit(ctx context.Context, b *pgx.Batch, and func(pgx.Tx) error) error {
	before := func() { failpoint.Hit("identity.change.before_commit") }
	var err error
	if and == nil {
		err = pg.Commit(ctx, s.DB, b, before)
	} else {
		err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
			if err := tx.SendBatch(ctx, b).Close(); err != nil {
				return err
			}
			err := and(tx)
			before()
			return err
		})
	}
	if err == nil {
		failpoint.Hit("identity.change.after_commit")
	}
	return err
}

// nameTaken contains the messages for names that only a unique index can reject. A rename races with
// other renames, and row-level security hides the names of other tenants.
var nameTaken = map[string]string{
	"tenants_name_key":          "a tenant with this name exists",
	"projects_one_name":         "the tenant has a project of this name",
	"service_accounts_one_name": "the project has a service account of this name",
}

func nameConflict(err error) error {
	broken, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || nameTaken[broken.ConstraintName] == "" {
		return err
	}
	return errs.New(errs.AlreadyExists, "%s", nameTaken[broken.ConstraintName]).At("name").Try("choose another name")
}

// Unless returns its error for a statement that found a row.
func Unless(refused error) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() > 0 {
			return refused
		}
		return nil
	}
}

// CheckVersion rejects an expected version that differs from the row's. Zero fits every version.
func CheckVersion(expected, current int64) error {
	if expected == 0 || expected == current {
		return nil
	}
	return errs.New(errs.VersionMismatch, "this is version %d, and you changed version %d", current, expected).
		Try("read it again and repeat the change").With("version", current)
}
