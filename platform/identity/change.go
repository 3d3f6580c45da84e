package identity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
)

// Change is a request that changes something: the caller, the idempotency key, and the response. T is
// the type of the result.
type Change[T any] struct {
	Caller Caller
	Key    Key
	// Answer builds the response that is stored with the key.
	Answer func(T) Reply
}

func (c Change[T]) reply(made T) Reply {
	if c.Key.Key == "" || c.Answer == nil {
		return Reply{}
	}
	return c.Answer(made)
}

// Topic is the hint that a caller may have lost a right.
const Topic = "identity"

// RightsChanged makes every process read rights from the database again. Call it after the commit.
func (s *Service) RightsChanged() {
	s.tokens.forget()
	s.projects.forget()
	if s.Hints != nil {
		s.Hints.Send(Topic)
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

// tries is the number of attempts of a change that concurrent changes overtake. In each round at least
// one of them succeeds.
const tries = 5

// errRaced means that another request has changed the rows that a change was computed from.
var errRaced = errors.New("it was changed meanwhile")

// change calls look and commits its statements with the stored response in one transaction. The response
// is stored first, so look reads before the transaction. The statements repeat the conditions that look
// has read. If another transaction has changed the rows, they return errRaced, and change calls look
// again.
func change[T any](ctx context.Context, s *Service, ch Change[T], look func() (T, func(*pgx.Batch), error)) (T, error) {
	return changeAnd(ctx, s, ch, look, nil)
}

// changeAnd is change with a function that runs in the same transaction after the statements. It
// repeats look at most tries times, so that a busy row ends in an error instead of a loop.
func changeAnd[T any](ctx context.Context, s *Service, ch Change[T], look func() (T, func(*pgx.Batch), error), and func(pgx.Tx) error) (T, error) {
	var none T
	for try := 1; ; try++ {
		made, write, err := look()
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
		case !errors.Is(err, errRaced):
			return none, nameConflict(err)
		case try == tries:
			return none, errs.New(errs.Conflict, "the object was changed by another request").Try("repeat it in a moment")
		}
	}
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

// orElse returns its error for a statement that found no row.
func orElse(refused error) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() == 0 {
			return refused
		}
		return nil
	}
}

// unless returns its error for a statement that found a row.
func unless(refused error) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() > 0 {
			return refused
		}
		return nil
	}
}

// fits rejects a version that differs from the row's. Zero fits every version.
func fits(asked, have int64) error {
	if asked == 0 || asked == have {
		return nil
	}
	return errs.New(errs.VersionMismatch, "this is version %d, and you changed version %d", have, asked).
		Try("read it again and repeat the change").With("version", have)
}

// queryOne reads a single row, or returns not found.
func queryOne[T any](ctx context.Context, q pg.Queryer, what, sql string, scan pgx.RowToFunc[T], args ...any) (T, error) {
	var none T
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return none, fmt.Errorf("reading a %s: %w", what, err)
	}
	v, err := pgx.CollectExactlyOneRow(rows, scan)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return none, noSuch(what)
	case err != nil:
		return none, fmt.Errorf("reading a %s: %w", what, err)
	}
	return v, nil
}

func list[T any](ctx context.Context, q pg.Queryer, what, sql string, scan pgx.RowToFunc[T], args ...any) ([]T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", what, err)
	}
	all, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", what, err)
	}
	return all, nil
}

// noSuch answers for what does not exist and for another tenant's alike.
func noSuch(what string) error { return errs.New(errs.NotFound, "no such %s", what) }

// resourceRef identifies the resource of an audit row.
type resourceRef struct {
	tenant   ids.Tenant
	project  ids.Project
	kind, id string
}

type fields = map[string]any

// note queues the one audit row of a change.
func (s *Service) note(b *pgx.Batch, by Caller, action string, of resourceRef, before, after fields) {
	e := audit.Entry{
		Tenant: of.tenant, Actor: by.Actor(), Action: action, CorrelationID: by.CorrelationID,
		Target: s.Naming.Name(idOrEmpty(of.tenant), idOrEmpty(of.project), of.kind, of.id).String(),
	}
	if before != nil {
		e.Before = before
	}
	if after != nil {
		e.After = after
	}
	audit.Queue(b, e)
}

func idOrEmpty[T interface {
	comparable
	String() string
}](id T) string {
	var none T
	if id == none {
		return ""
	}
	return id.String()
}

// differ leaves of both what is not the same in them; nothing, when all is.
func differ(before, after fields) (was, is fields) {
	same := func(name string, _ any) bool { return reflect.DeepEqual(before[name], after[name]) }
	was, is = maps.Clone(before), maps.Clone(after)
	maps.DeleteFunc(was, same)
	maps.DeleteFunc(is, same)
	return was, is
}
