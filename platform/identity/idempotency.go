package identity

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Key names one request that may be repeated: a principal's own key for one
// operation, and the body that it was first used with. The zero Key.Key is none.
type Key struct {
	Principal ids.User
	Method    string
	Route     string
	Key       string
	BodyHash  [32]byte
}

// Replay returns what the first request with this key was answered.
func (s *Service) Replay(ctx context.Context, k Key) (status int, body json.RawMessage, found bool, err error) {
	if k.Key == "" {
		return 0, nil, false, nil
	}
	var hash []byte
	err = s.DB.QueryRow(ctx, selectReplay, k.Principal.UUID, k.Method, k.Route, k.Key).Scan(&hash, &status, &body)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, nil, false, nil
	case err != nil:
		return 0, nil, false, fmt.Errorf("looking for an earlier reply: %w", err)
	case !bytes.Equal(hash, k.BodyHash[:]):
		return 0, nil, false, errs.New(errs.IdempotencyKeyReused, "this idempotency key was used with another body").
			At("Idempotency-Key").Try("use a new key for a new request")
	}
	return status, body, true, nil
}

// QueueKey stores the reply in the transaction of the effect, or fails it when
// the same request is at work or done. Queue it first: the loser then waits for
// nothing that the winner holds.
func QueueKey(b *pgx.Batch, k Key, status int, response any) {
	if k.Key == "" {
		return
	}
	b.Queue(insertReply, k.Principal.UUID, k.Method, k.Route, k.Key, k.BodyHash[:], status, reply{response}).
		Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() == 0 {
				return errs.New(errs.IdempotencyInFlight, "a request with this idempotency key is at work").
					Try("repeat it in a moment")
			}
			return nil
		})
}

// reply keeps pgx from taking a string or bytes for the text of a document.
type reply struct{ any }

func (r reply) MarshalJSON() ([]byte, error) { return json.Marshal(r.any) }

// ForgetReplies removes replies that are past their day, at most limit of them.
func (s *Service) ForgetReplies(ctx context.Context, q pg.Queryer, limit int) (int64, error) {
	tag, err := q.Exec(ctx, deleteReplies, limit)
	if err != nil {
		return 0, fmt.Errorf("forgetting old replies: %w", err)
	}
	return tag.RowsAffected(), nil
}

// QueueLock locks the caller's tenant, project and user for the rest of the
// transaction, in this order everywhere, so that two requests of one tenant wait
// for each other and never deadlock. Caps and balance are checked under it.
func QueueLock(b *pgx.Batch, c Caller) {
	b.Queue(lockTenant, c.Tenant.UUID).Exec(held("tenant"))
	if c.Project != (ids.Project{}) {
		b.Queue(lockProject, c.Project.UUID).Exec(held("project"))
	}
	b.Queue(lockUser, c.User.UUID).Exec(held("user"))
}

func held(what string) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() != 1 {
			return errs.New(errs.NotFound, "the %s of this request is gone", what)
		}
		return nil
	}
}
