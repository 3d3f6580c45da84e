package storage

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/platform/identity"
)

// keyed stores the response to a request in the transaction of its effect. The zero value stores none.
type keyed[T any] struct {
	identity *identity.Service
	change   *identity.Change[T]
}

// claim fails where the same request is in progress or done.
func (k keyed[T]) claim(ctx context.Context, tx pgx.Tx) error {
	if k.change == nil {
		return nil
	}
	b := &pgx.Batch{}
	k.identity.QueueKey(b, k.change.Key, identity.Reply{})
	return tx.SendBatch(ctx, b).Close()
}

func (k keyed[T]) end(ctx context.Context, tx pgx.Tx, made T) error {
	ch := k.change
	if ch == nil || ch.Answer == nil {
		return nil
	}
	b := &pgx.Batch{}
	k.identity.QueueReply(b, ch.Key, ch.Answer(made))
	return tx.SendBatch(ctx, b).Close()
}
