package payment_test

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/payment"
)

type paymentAmount = money.Minor

func changeOf(c identity.Caller) identity.Change[payment.Session] {
	return identity.Change[payment.Session]{Caller: c}
}

// dying is a database whose connection breaks after the n-th statement of a transaction: the statement
// is executed, and the client receives no response.
type dying struct {
	pg.DB

	n *int
}

var errDead = errors.New("the process is gone")

func (d dying) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := d.DB.Begin(ctx)
	return &dyingTx{tx, *d.n}, err
}

type dyingTx struct {
	pgx.Tx

	left int
}

func (d *dyingTx) dead() bool {
	d.left--
	return d.left == 0
}

func (d *dyingTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	tag, err := d.Tx.Exec(ctx, sql, args...)
	if d.dead() {
		return tag, errDead
	}
	return tag, err
}

func (d *dyingTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if d.dead() {
		return nil, errDead
	}
	return d.Tx.Query(ctx, sql, args...)
}

func (d *dyingTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if d.dead() {
		return deadRow{}
	}
	return d.Tx.QueryRow(ctx, sql, args...)
}

func (d *dyingTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	results := d.Tx.SendBatch(ctx, b)
	if d.dead() {
		return deadResults{results}
	}
	return results
}

type deadRow struct{}

func (deadRow) Scan(...any) error { return errDead }

type deadResults struct{ pgx.BatchResults }

func (d deadResults) Close() error { return errors.Join(d.BatchResults.Close(), errDead) }
