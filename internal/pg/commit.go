package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Commit runs a batch as one transaction in two round trips: BEGIN and the scope
// travel with the statements. before is called between the last of them and
// COMMIT.
func Commit(ctx context.Context, db DB, b *pgx.Batch, before func()) error {
	return Transact(ctx, db, b, func(Queryer) error {
		before()
		return nil
	})
}

// Transact runs a batch and then a function as one transaction. BEGIN and the scope travel with the batch. An error of the
// function ends the transaction without an effect.
func Transact(ctx context.Context, db DB, first *pgx.Batch, then func(Queryer) error) error {
	whole := &pgx.Batch{}
	whole.Queue("begin")
	pool, ok := db.(*pgxpool.Pool)
	if scoped, is := db.(Scoped); is {
		pool, ok = scoped.Pool, true
		if c := scopeOf(ctx); c != nil {
			if c.err != nil {
				return c.err
			}
			whole.QueuedQueries = append(whole.QueuedQueries, c.statement())
		}
	}
	if !ok { // a transaction in a test
		return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			if err := tx.SendBatch(ctx, first).Close(); err != nil {
				return err
			}
			return then(tx)
		})
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("taking a connection: %w", err)
	}
	// A connection in an open transaction is closed and not returned to the pool.
	defer conn.Release()
	whole.QueuedQueries = append(whole.QueuedQueries, first.QueuedQueries...)
	if err = conn.SendBatch(ctx, whole).Close(); err == nil {
		err = then(conn)
	}
	if err != nil {
		rollback(ctx, conn)
		return err
	}
	tag, err := conn.Exec(ctx, "commit")
	switch {
	case err != nil:
		return fmt.Errorf("committing: %w", err)
	case tag.String() == "ROLLBACK":
		return pgx.ErrTxCommitRollback
	}
	return nil
}

// rollbackWithin is for a caller who is gone: the answer must not be waited for
// longer than the connection is worth.
const rollbackWithin = time.Second

// rollback makes the connection usable for the next caller. If the rollback fails, the release
// closes the connection, which ends the transaction as well.
func rollback(ctx context.Context, conn *pgxpool.Conn) {
	if conn.Conn().IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackWithin)
	defer cancel()
	_, _ = conn.Exec(ctx, "rollback")
}
