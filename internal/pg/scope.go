package pg

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Scope identifies the tenant and project whose rows a statement may access. Row-level security
// reads it from two settings of the transaction.
type Scope struct {
	Tenant    string // id of the tenant; empty: none; or everyone's, as in Platform
	Principal string // id of the user or service account; empty: none
}

const everyone = "platform"

// Platform sees every tenant's rows. It is for the few reads that find out whose
// a request is, and for what operators do.
var Platform = Scope{Tenant: everyone}

func (s Scope) valid() error {
	if s.Tenant != "" && s.Tenant != everyone {
		if _, err := uuid.Parse(s.Tenant); err != nil || len(s.Tenant) != uuidLength {
			return fmt.Errorf("%q is not the id of a tenant", s.Tenant)
		}
	}
	if s.Principal != "" {
		if _, err := uuid.Parse(s.Principal); err != nil || len(s.Principal) != uuidLength {
			return fmt.Errorf("%q is not the id of a principal", s.Principal)
		}
	}
	return nil
}

// uuidLength excludes the other notations that the parser accepts.
const uuidLength = 36

// carried is a scope made ready once for all statements of a request, and the
// context that carries it: each request makes one, so it is one allocation.
type carried struct {
	context.Context

	scope Scope
	args  [2]any // its two fields
	err   error
}

// Value finds the scope itself, or what is around it.
func (c *carried) Value(key any) any {
	if _, ok := key.(scopeKey); ok {
		return c
	}
	return c.Context.Value(key)
}

type scopeKey struct{}

// WithScope returns a context under which the statements of a Scoped pool see
// what the scope allows, and nothing else.
func WithScope(ctx context.Context, s Scope) context.Context {
	c := &carried{Context: ctx, scope: s, err: s.valid()}
	c.args = [2]any{&c.scope.Tenant, &c.scope.Principal}
	return c
}

// ScopeFrom returns the scope of a context; without one it is the zero Scope,
// which owns nothing.
func ScopeFrom(ctx context.Context) Scope {
	if c := scopeOf(ctx); c != nil {
		return c.scope
	}
	return Scope{}
}

func scopeOf(ctx context.Context) *carried {
	c, _ := ctx.Value(scopeKey{}).(*carried)
	return c
}

// The settings end with the transaction, so the next user of the connection
// starts with none. A pipeline up to its one sync is such a transaction.
const setScope = `SELECT set_config('gpuaas.tenant', $1, true), set_config('gpuaas.principal', $2, true)`

// Scoped is a pool whose every statement runs under the scope of its context, in
// the same round trip. Without one in the context there are no rows.
type Scoped struct{ Pool *pgxpool.Pool }

var _ Pool = Scoped{}

// Begin starts a transaction under the scope.
func (s Scoped) Begin(ctx context.Context) (pgx.Tx, error) {
	c := scopeOf(ctx)
	if c == nil {
		return s.Pool.Begin(ctx)
	}
	if c.err != nil {
		return nil, c.err
	}
	// The values are ids or constants: valid has checked them.
	return s.Pool.BeginTx(ctx, pgx.TxOptions{
		BeginQuery: "begin; set local gpuaas.tenant = '" + c.scope.Tenant + "'; set local gpuaas.principal = '" + c.scope.Principal + "'",
	})
}

// Exec runs a statement under the scope.
func (s Scoped) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	c := scopeOf(ctx)
	if c == nil {
		return s.Pool.Exec(ctx, sql, args...)
	}
	results := s.send(ctx, c, sql, args)
	tag, err := results.Exec()
	// What waits for the end of the transaction fails only here.
	if closed := results.Close(); err == nil {
		err = closed
	}
	return tag, err
}

// Query runs a statement under the scope.
func (s Scoped) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	c := scopeOf(ctx)
	if c == nil {
		return s.Pool.Query(ctx, sql, args...)
	}
	results := s.send(ctx, c, sql, args)
	rows, err := results.Query()
	out := &scopedRows{Rows: rows, results: results}
	if err != nil {
		out.Close()
	}
	return out, err
}

// QueryRow runs a statement under the scope.
func (s Scoped) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	c := scopeOf(ctx)
	if c == nil {
		return s.Pool.QueryRow(ctx, sql, args...)
	}
	return scopedRow{s.send(ctx, c, sql, args)}
}

// SendBatch runs the statements under the scope. Their results are read as if
// they were alone.
func (s Scoped) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	c := scopeOf(ctx)
	switch {
	case c == nil || b.Len() == 0:
		return s.Pool.SendBatch(ctx, b)
	case c.err != nil:
		return pgx.FailedBatchResults(b, c.err)
	}
	whole := &pgx.Batch{QueuedQueries: make([]*pgx.QueuedQuery, 0, 1+b.Len())}
	whole.QueuedQueries = append(append(whole.QueuedQueries, c.statement()), b.QueuedQueries...)
	return under(s.Pool.SendBatch(ctx, whole))
}

func (c *carried) statement() *pgx.QueuedQuery {
	return &pgx.QueuedQuery{SQL: setScope, Arguments: c.args[:]}
}

// pair is one statement behind its scope, in one allocation: a lookup by key needs less time than
// the garbage collector would for eight.
type pair struct {
	batch   pgx.Batch
	queued  [2]*pgx.QueuedQuery
	queries [2]pgx.QueuedQuery
}

func (s Scoped) send(ctx context.Context, c *carried, sql string, args []any) pgx.BatchResults {
	p := &pair{}
	if c.err != nil {
		return pgx.FailedBatchResults(&p.batch, c.err)
	}
	p.queries = [2]pgx.QueuedQuery{{SQL: setScope, Arguments: c.args[:]}, {SQL: sql, Arguments: args}}
	p.queued = [2]*pgx.QueuedQuery{&p.queries[0], &p.queries[1]}
	p.batch.QueuedQueries = p.queued[:]
	return under(s.Pool.SendBatch(ctx, &p.batch))
}

// under skips the result of the settings. If they failed, all other statements fail with the same
// error.
func under(results pgx.BatchResults) pgx.BatchResults {
	_, _ = results.Exec()
	return results
}

type scopedRow struct{ results pgx.BatchResults }

func (r scopedRow) Scan(to ...any) error {
	err := r.results.QueryRow().Scan(to...)
	if closed := r.results.Close(); err == nil {
		err = closed
	}
	return err
}

// scopedRows gives the connection back with the last row.
type scopedRows struct {
	pgx.Rows

	results pgx.BatchResults
	err     error
}

func (r *scopedRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *scopedRows) Close() {
	r.Rows.Close()
	if r.results == nil {
		return
	}
	r.err = r.results.Close()
	r.results = nil
}

func (r *scopedRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}
