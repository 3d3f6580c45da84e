package identity

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Key names one request that may be repeated: a principal's own key for one
// operation, and the body that it was first used with. The zero Key.Key is none.
type Key struct {
	Principal uuid.UUID
	Method    string
	Route     string
	Key       string
	BodyHash  [32]byte
}

// Reply is the stored response to a request.
type Reply struct {
	Status         int
	Location, ETag string
	Body           []byte // as it was written
	// Secret means that the body contains a secret and is stored encrypted.
	Secret bool
}

// Replay returns what the first request with this key was answered.
func (s *Service) Replay(ctx context.Context, k Key) (r Reply, found bool, err error) {
	if k.Key == "" {
		return Reply{}, false, nil
	}
	var hash []byte
	err = s.DB.QueryRow(ctx, selectReplay, k.Principal, k.Method, k.Route, k.Key).
		Scan(&hash, &r.Status, &r.Location, &r.ETag, &r.Body, &r.Secret)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Reply{}, false, nil
	case err != nil:
		return Reply{}, false, fmt.Errorf("looking for an earlier reply: %w", err)
	case !bytes.Equal(hash, k.BodyHash[:]):
		return Reply{}, false, errs.New(errs.IdempotencyKeyReused, "this idempotency key was used with another body").
			At("Idempotency-Key").Try("use a new key for a new request")
	}
	if r.Secret {
		if r.Body, err = s.Seal.Open(ctx, r.Body, replyAt(k)); err != nil {
			return Reply{}, false, fmt.Errorf("opening an earlier reply: %w", err)
		}
	}
	return r, true, nil
}

// String names the request without what it was about.
func (k Key) String() string {
	return k.Principal.String() + " " + k.Method + " " + k.Route + " " + k.Key
}

// Hash identifies the request in a row that it begins. It is nil without a key.
func (k Key) Hash() []byte {
	if k.Key == "" {
		return nil
	}
	hash := sha256.Sum256([]byte(k.String()))
	return hash[:]
}

// QueueKey stores the response in the transaction of the effect. It fails the transaction if the same
// request is in progress or done. Queue it first, so that the loser waits for no lock of the winner.
func (s *Service) QueueKey(b *pgx.Batch, k Key, r Reply) {
	if k.Key == "" {
		return
	}
	if r.Secret {
		r.Body = s.Seal.Seal(r.Body, replyAt(k))
	}
	if r.Body == nil {
		r.Body = []byte{}
	}
	b.Queue(insertReply, k.Principal, k.Method, k.Route, k.Key, k.BodyHash[:], r.Status, r.Location, r.ETag, r.Body, r.Secret).
		Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() == 0 {
				return errs.New(errs.IdempotencyInFlight, "a request with this idempotency key is at work").
					Try("repeat it in a moment")
			}
			return nil
		})
}

// QueueReply stores the reply to a request whose key was queued before in the same
// transaction: for what is known only once the work is done.
func (s *Service) QueueReply(b *pgx.Batch, k Key, r Reply) {
	if k.Key == "" {
		return
	}
	if r.Secret {
		r.Body = s.Seal.Seal(r.Body, replyAt(k))
	}
	if r.Body == nil {
		r.Body = []byte{}
	}
	b.Queue(updateReply, k.Principal, k.Method, k.Route, k.Key, r.Status, r.Location, r.ETag, r.Body, r.Secret)
}

// ForgetReplies deletes some replies of an age. Keys of all ages are unique together, so the table has no partitions.
func ForgetReplies(ctx context.Context, q pg.Queryer, age time.Duration, limit int) (int64, error) {
	tag, err := q.Exec(ctx, deleteReplies, age, limit)
	if err != nil {
		return 0, fmt.Errorf("forgetting old replies: %w", err)
	}
	return tag.RowsAffected(), nil
}
