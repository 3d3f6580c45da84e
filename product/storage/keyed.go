package storage

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// keyed stores the response to a request in the transaction of its effect. The zero value stores none.
type keyed[T any] struct {
	identity *identity.Service
	change   *identity.Change[T]
}

// claim fails where the same request is in progress or done.
func (k keyed[T]) claim(ctx context.Context, tx pg.Queryer) error {
	b := &pgx.Batch{}
	k.queueClaim(b)
	return tx.SendBatch(ctx, b).Close()
}

func (k keyed[T]) queueClaim(b *pgx.Batch) {
	if k.change != nil {
		k.identity.QueueKey(b, k.change.Key, identity.Reply{})
	}
}

func (k keyed[T]) end(ctx context.Context, tx pg.Queryer, made T) error {
	b := &pgx.Batch{}
	k.queueEnd(b, made)
	return tx.SendBatch(ctx, b).Close()
}

func (k keyed[T]) queueEnd(b *pgx.Batch, made T) {
	if ch := k.change; ch != nil && ch.Answer != nil {
		k.identity.QueueReply(b, ch.Key, ch.Answer(made))
	}
}
