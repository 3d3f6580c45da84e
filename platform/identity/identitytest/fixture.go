// Package identitytest contains the fixtures of the tests of platform/identity and its parts.
package identitytest

import (
	"context"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/devseed"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
)

// Fixture is a database with the development seed, and the services on it.
type Fixture struct {
	*identity.Service
	Keys   *keys.Service
	SignIn *signin.Service

	Pool *pgxpool.Pool // sees all rows, and needs no audit row
	Seed devseed.Seed
}

// New returns the services with the rights of Pool.
func New(t *testing.T) *Fixture {
	t.Helper()
	f := &Fixture{Pool: pgtest.Clone(t)}
	f.Use(&identity.Service{DB: f.Pool})
	f.Seed = f.Reseed(t, true)
	return f
}

// Use replaces the services by those on s.
func (f *Fixture) Use(s *identity.Service) {
	f.Service, f.Keys, f.SignIn = s, &keys.Service{Service: s}, &signin.Service{Service: s}
}

// Fresh returns the service of another process, with empty caches.
func (f *Fixture) Fresh() *signin.Service {
	return &signin.Service{Service: &identity.Service{DB: f.Pool}}
}

// Reseed writes the seed again, with or without new API keys.
func (f *Fixture) Reseed(t *testing.T, withKeys bool) (seed devseed.Seed) {
	t.Helper()
	var with *keys.Service
	if withKeys {
		with = f.Keys
	}
	err := pgx.BeginFunc(t.Context(), f.Pool, func(tx pgx.Tx) (err error) {
		seed, err = devseed.Write(t.Context(), tx, with)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

// Exec runs a statement.
func (f *Fixture) Exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := f.Pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// Count returns the number that a query selects.
func (f *Fixture) Count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := f.Pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Session starts a session of a user without a sign-in, and returns its token.
func (f *Fixture) Session(t *testing.T, user ids.User) (token string) {
	t.Helper()
	token, hash := identity.NewToken(identity.SessionPrefix)
	f.Exec(t, `INSERT INTO sessions (id, user_id, secret_hash, kind, issuer, address, user_agent, expires_at)
		VALUES ($1, $2, $3, 'browser', 'local', '', '', now() + interval '1 hour')`, uuid.Must(uuid.NewV7()), user, hash[:])
	return token
}

// Key returns the idempotency key of a request of the user dev.
func (f *Fixture) Key(text, body string) identity.Key {
	k := identity.Key{Principal: f.Seed.Dev.ID.UUID, Method: "POST", Route: "/api/v1/allocations", Key: text}
	copy(k.BodyHash[:], body)
	return k
}

// Seal returns the data keys of stored secrets.
func Seal(t testing.TB) identity.Sealer {
	t.Helper()
	ring, err := envelope.NewRing(map[string][]byte{"test": make([]byte, 32)}, "test")
	if err != nil {
		t.Fatal(err)
	}
	return sealer{ring}
}

type sealer struct{ *envelope.Ring }

func (s sealer) Open(_ context.Context, sealed []byte, at envelope.Place) ([]byte, error) {
	return s.Ring.Open(sealed, at)
}

// In returns the scope that the middleware gives a request of c.
func In(ctx context.Context, c identity.Caller) context.Context {
	s := pg.Scope{Tenant: c.Tenant.String(), Principal: c.Principal().String()}
	if c.Role == "admin" {
		s.Tenant = pg.Platform.Tenant
	}
	return pg.WithScope(ctx, s)
}

// Change returns a change of c without an idempotency key.
func Change[T any](c identity.Caller) identity.Change[T] { return identity.Change[T]{Caller: c} }

// WantCode reports an error that has another code.
func WantCode(t *testing.T, what string, err error, code errs.Code) {
	t.Helper()
	if errs.CodeOf(err) != code {
		t.Errorf("%s: got %v, want %s", what, err, code)
	}
}

// Together runs do n times at once and counts the codes of the errors.
func Together(n int, do func(i int) error) map[errs.Code]int {
	var wg sync.WaitGroup
	var mu sync.Mutex
	start, codes := make(chan struct{}), map[errs.Code]int{}
	for i := range n {
		wg.Go(func() {
			<-start
			err := do(i)
			mu.Lock()
			defer mu.Unlock()
			codes[errs.CodeOf(err)]++
		})
	}
	close(start)
	wg.Wait()
	return codes
}
