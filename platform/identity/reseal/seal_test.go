package reseal_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/platform/identity/reseal"
)

// fields are data keys of which a test chooses the one that seals.
type fields struct {
	*envelope.Ring

	t *testing.T
	// failed counts the envelopes that did not open.
	failed int
}

func newFields(t *testing.T, active string) *fields {
	t.Helper()
	f := &fields{Ring: &envelope.Ring{}, t: t}
	f.use(active, "old", "new")
	return f
}

func (f *fields) use(active string, ids ...string) {
	f.t.Helper()
	keys := map[string][]byte{}
	for _, id := range ids {
		keys[id] = append(make([]byte, 31), id[0])
	}
	if err := f.Replace(keys, active); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fields) Open(_ context.Context, sealed []byte, at envelope.Place) ([]byte, error) {
	text, err := f.Ring.Open(sealed, at)
	if err != nil {
		f.failed++
	}
	return text, err
}

// secrets stores n sessions with a refresh token and n responses with a secret.
func secrets(t *testing.T, b *identitytest.Fixture, s *identity.Service, n int) (sessions []ids.Session, replies []identity.Key) {
	t.Helper()
	batch := &pgx.Batch{}
	for range n {
		id := ids.New[ids.Session]()
		sessions = append(sessions, id)
		batch.Queue(`INSERT INTO sessions (id, user_id, secret_hash, kind, issuer, address, user_agent, grant_enc, expires_at)
			VALUES ($1, $2, $3, 'browser', 'i', '', '', $4, now() + interval '1 hour')`, id, b.Seed.Dev.ID, id.UUID[:], s.Seal.Seal([]byte("refresh"), identity.GrantAt(id)))
		k := identity.Key{Principal: b.Seed.Dev.ID.UUID, Method: "POST", Route: "/api/v1/api-keys", Key: "key with blanks " + uuid.NewString()}
		replies = append(replies, k)
		s.QueueKey(batch, k, identity.Reply{Status: 201, Body: []byte("a secret"), Secret: true})
	}
	if err := pgx.BeginFunc(t.Context(), b.Pool, func(tx pgx.Tx) error { return tx.SendBatch(t.Context(), batch).Close() }); err != nil {
		t.Fatal(err)
	}
	return sessions, replies
}

// After a rotation of the data key all stored secrets are sealed again, in pages. A pass that ended in the middle is
// continued, and afterwards nothing needs the old key.
func TestStoredSecretsAreSealedAgain(t *testing.T) {
	t.Parallel()
	b := identitytest.New(t)
	f := newFields(t, "old")
	s := &identity.Service{DB: pgtest.Scoped(t, b.Pool), Seal: f}
	sessions, replies := secrets(t, b, s, 7)
	left := func() int {
		t.Helper()
		n, err := reseal.SealedBefore(t.Context(), b.Pool, "new")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := left(); n != 14 {
		t.Fatalf("%d secrets are sealed with the old key", n)
	}
	f.use("new", "old", "new")
	ctx, cancel := context.WithCancel(t.Context())
	killed := reseal.Service{Service: &identity.Service{DB: &endsAfter{Scoped: pgtest.Scoped(t, b.Pool), left: 2, end: cancel}, Seal: f}}
	if n, err := killed.Reseal(ctx, "new", 3); err == nil || n != 6 {
		t.Errorf("a pass that was ended has sealed %d, %v", n, err)
	}
	if n := left(); n != 8 {
		t.Errorf("%d are left after a pass that was ended", n)
	}
	if n, err := (reseal.Service{Service: s}).Reseal(t.Context(), "new", 3); err != nil || n != 8 || left() != 0 {
		t.Errorf("the next pass has sealed %d, %v", n, err)
	}
	if n, err := (reseal.Service{Service: s}).Reseal(t.Context(), "new", 3); err != nil || n != 0 {
		t.Errorf("a further pass has sealed %d, %v", n, err)
	}
	f.use("new", "new")
	for _, k := range replies {
		if r, found, err := s.Replay(pg.WithScope(t.Context(), pg.Platform), k); err != nil || !found || string(r.Body) != "a secret" {
			t.Errorf("%q, %v, %v", r.Body, found, err)
		}
	}
	for _, id := range sessions {
		var sealed []byte
		if err := b.Pool.QueryRow(t.Context(), `SELECT grant_enc FROM sessions WHERE id = $1`, id).Scan(&sealed); err != nil {
			t.Fatal(err)
		}
		if text, err := f.Open(t.Context(), sealed, identity.GrantAt(id)); err != nil || string(text) != "refresh" {
			t.Errorf("%q, %v", text, err)
		}
	}
}

// endsAfter ends after some transactions, as a process that is stopped.
type endsAfter struct {
	pg.Scoped

	left int
	end  func()
}

func (e *endsAfter) Begin(ctx context.Context) (pgx.Tx, error) {
	if e.left--; e.left < 0 {
		e.end()
		return nil, errors.New("the process is stopped")
	}
	return e.Scoped.Begin(ctx)
}

// A user who can write the database moves the secret of another user into their own row. It does not open there, also
// not for the pass that seals again, which leaves it and continues.
func TestASecretInAnotherRowDoesNotOpen(t *testing.T) {
	t.Parallel()
	b := identitytest.New(t)
	f := newFields(t, "old")
	s := &identity.Service{DB: pgtest.Scoped(t, b.Pool), Seal: f}
	_, replies := secrets(t, b, s, 3)
	if _, err := b.Pool.Exec(t.Context(), `UPDATE idempotency_keys SET body = (SELECT body FROM idempotency_keys WHERE key = $2) WHERE key = $1`, replies[0].Key, replies[1].Key); err != nil {
		t.Fatal(err)
	}
	if r, _, err := s.Replay(pg.WithScope(t.Context(), pg.Platform), replies[0]); errs.CodeOf(err) != errs.DecryptionFailed || len(r.Body) > 0 {
		t.Errorf("%q, %v", r.Body, err)
	}
	f.use("new", "old", "new")
	f.failed = 0
	if n, err := (reseal.Service{Service: s}).Reseal(t.Context(), "new", 2); err != nil || n != 5 || f.failed != 1 {
		t.Errorf("sealed %d, %d failed, %v", n, f.failed, err)
	}
	if n, err := reseal.SealedBefore(t.Context(), b.Pool, "new"); err != nil || n != 1 {
		t.Errorf("%d are left, %v", n, err)
	}
}
