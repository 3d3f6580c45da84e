package identity_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
)

type bundle struct {
	*identity.Service
	db   *pgxpool.Pool
	seed identity.Seed
}

func setup(t *testing.T) *bundle {
	t.Helper()
	db := pgtest.Clone(t)
	b := &bundle{Service: &identity.Service{DB: db}, db: db}
	b.seed = b.reseed(t, true)
	return b
}

func (b *bundle) reseed(t *testing.T, keys bool) (seed identity.Seed) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), b.db, func(tx pgx.Tx) (err error) {
		seed, err = b.SeedDevelopment(t.Context(), tx, keys)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

func (b *bundle) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := b.db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func (b *bundle) begin(t *testing.T, n identity.NewSession) (token string) {
	t.Helper()
	token, _, err := b.StartSession(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// fresh returns the service of another process, with empty caches.
func (b *bundle) fresh() *identity.Service { return &identity.Service{DB: b.db} }

func wantCode(t *testing.T, what string, err error, code errs.Code) {
	t.Helper()
	if errs.CodeOf(err) != code {
		t.Errorf("%s: got %v, want %s", what, err, code)
	}
}

func TestSeedMayRunAtEveryStart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.seed
	diff := pgtest.Diff(t, b.db)
	second := b.reseed(t, false)
	if got := diff(); got != "" {
		t.Errorf("changed:\n%s", got)
	}
	if second.Tenant != first.Tenant || second.Project != first.Project || second.Dev.ID != first.Dev.ID || second.Dev.Key != "" {
		t.Errorf("%+v became %+v", first, second)
	}
	third := b.reseed(t, true)
	_, err := b.fresh().Authenticate(t.Context(), first.Dev.Key)
	wantCode(t, "the key before the fresh one", err, errs.TokenInvalid)
	if _, err := b.Authenticate(t.Context(), third.Dev.Key); err != nil {
		t.Error(err)
	}
	if len(third.People) != len(identity.DevelopmentPeople()) {
		t.Errorf("people %+v", third.People)
	}
}

func TestKeySaysWhoCalls(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 2 { // from the database, then from memory
		c, err := b.Authenticate(t.Context(), b.seed.Dev.Key)
		if err != nil {
			t.Fatal(err)
		}
		if c.User != b.seed.Dev.ID || c.Role != "user" || c.Tenant != b.seed.Tenant || c.TenantName != "dev" ||
			c.TenantRole != "owner" || c.Actor() != "user:"+b.seed.Dev.ID.String() {
			t.Errorf("caller %+v", c)
		}
	}
}

func TestTokensThatAreNotGood(t *testing.T) {
	t.Parallel()
	b := setup(t)
	session := b.begin(t, identity.NewSession{User: b.seed.Dev.ID, Kind: "browser", Issuer: "local"})
	expired, err := b.NewKey(t.Context(), b.db, b.seed.Dev.ID, "old", time.Nanosecond)
	if err != nil {
		t.Fatal(err)
	}
	b.exec(t, "UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE name = 'old'")
	for name, c := range map[string]struct {
		token string
		code  errs.Code
	}{
		"missing": {"", errs.TokenMissing}, "garbage": {"x", errs.TokenInvalid}, "long": {string(make([]byte, 1<<20)), errs.TokenInvalid},
		"one letter off":      {session[:len(session)-1] + "!", errs.TokenInvalid},
		"session as key":      {"gpk_" + session[4:], errs.TokenInvalid},
		"key as session":      {"gpb_" + b.seed.Dev.Key[4:], errs.TokenInvalid},
		"no prefix":           {"xxxx" + session[4:], errs.TokenInvalid},
		"expired":             {expired, errs.TokenExpired},
		"its hash, as stored": {"gpk_" + uuid.NewString(), errs.TokenInvalid},
	} {
		_, err := b.Authenticate(t.Context(), c.token)
		wantCode(t, name, err, c.code)
	}
	var stored int
	if err := b.db.QueryRow(t.Context(), "SELECT count(*) FROM api_keys WHERE to_jsonb(api_keys)::text LIKE '%' || $1 || '%'", b.seed.Dev.Key[4:]).Scan(&stored); err != nil || stored != 0 {
		t.Errorf("the token itself is stored %d times, %v", stored, err)
	}
}

func TestEndedMeansSoon(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := time.Unix(1_900_000_000, 0)
	other := b.fresh()
	other.Clock = clock.At(func() time.Time { return now })
	session := b.begin(t, identity.NewSession{User: b.seed.Dev.ID, Kind: "browser", Issuer: "local"})
	for _, s := range []*identity.Service{b.Service, other} {
		if _, err := s.Authenticate(t.Context(), session); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Logout(t.Context(), identity.Caller{User: b.seed.Dev.ID}, session, ""); err != nil {
		t.Fatal(err)
	}
	_, err := b.Authenticate(t.Context(), session)
	wantCode(t, "where it was ended", err, errs.TokenInvalid)
	now = now.Add(time.Second)
	_, err = other.Authenticate(t.Context(), session)
	wantCode(t, "elsewhere after a second", err, errs.TokenInvalid)

	if err := b.RevokeKeys(t.Context(), b.db, b.seed.Dev.ID, identity.DevelopmentKey); err != nil {
		t.Fatal(err)
	}
	_, err = b.Authenticate(t.Context(), b.seed.Dev.Key)
	wantCode(t, "revoked key", err, errs.TokenInvalid)
}

func TestProjectIsNamedOrTheOnlyOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	foreign := ids.New[ids.Project]()
	b.exec(t, "UPDATE projects SET deleted_at = now() WHERE name = 'lab'")
	b.exec(t, "INSERT INTO tenants (id, name) VALUES ($1, 'other')", foreign.UUID)
	b.exec(t, "INSERT INTO projects (id, org_id, name) VALUES ($1, $1, 'secret')", foreign.UUID)
	dev, err := b.Authenticate(t.Context(), b.seed.Dev.Key)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		asked string
		code  errs.Code
	}{
		"the only one": {"", ""}, "by id": {b.seed.Project.String(), ""}, "by name": {"default", ""},
		"unknown": {uuid.NewString(), errs.NotFound}, "foreign": {foreign.String(), errs.NotFound}, "foreign by name": {"secret", errs.NotFound},
	} {
		for range 2 {
			in, err := b.InProject(t.Context(), dev, c.asked)
			wantCode(t, name, err, c.code)
			if err == nil && (in.Project != b.seed.Project || in.ProjectRole != "admin") {
				t.Errorf("%s: %+v", name, in)
			}
		}
	}

	b.exec(t, "INSERT INTO projects (id, org_id, name) VALUES ($1, $2, 'second')", uuid.New(), b.seed.Tenant.UUID)
	s := b.fresh()
	_, err = s.InProject(t.Context(), dev, "")
	wantCode(t, "one of two", err, errs.ProjectRequired)
	if owner, err := s.InProject(t.Context(), dev, "second"); err != nil || owner.ProjectRole != "admin" {
		t.Errorf("the tenant's owner in a project without members: %+v, %v", owner, err)
	}
	operator, err := s.Authenticate(t.Context(), b.seed.Operator.Key)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.InProject(t.Context(), operator, "second")
	wantCode(t, "no member", err, errs.Forbidden)
}

func key(b *bundle, text, body string) identity.Key {
	k := identity.Key{Principal: b.seed.Dev.ID.UUID, Method: "POST", Route: "/api/v1/allocations", Key: text}
	copy(k.BodyHash[:], body)
	return k
}

// work is one request. It stores its response with its effect, a project.
func (b *bundle) work(t *testing.T, k identity.Key) error {
	return pgx.BeginFunc(t.Context(), b.db, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		b.QueueKey(batch, k, identity.Reply{Status: 201, Location: "/a", ETag: `"1"`, Body: []byte(`{"id":"a"}`)})
		identity.QueueLock(batch, identity.Caller{Tenant: b.seed.Tenant, Project: b.seed.Project, User: b.seed.Dev.ID})
		batch.Queue("INSERT INTO projects (id, org_id, name) VALUES (gen_random_uuid(), $1, gen_random_uuid()::text)", b.seed.Tenant.UUID)
		return tx.SendBatch(t.Context(), batch).Close()
	})
}

func TestINV06OneKeyOneEffect(t *testing.T) {
	t.Parallel()
	b := setup(t)
	k := key(b, "k1", "body")
	if _, found, err := b.Replay(t.Context(), k); found || err != nil {
		t.Fatalf("replayed what never was: %v", err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for range 100 {
		wg.Go(func() {
			err := b.work(t, k)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if errs.CodeOf(err) != errs.IdempotencyInFlight {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var effects int
	if err := b.db.QueryRow(t.Context(), "SELECT count(*) - $1 FROM projects", len(b.seed.Projects)).Scan(&effects); err != nil || effects != 1 || won != 1 {
		t.Errorf("%d effects, %d winners, %v", effects, won, err)
	}
	first, found, err := b.Replay(t.Context(), k)
	if err != nil || !found || first.Status != 201 || first.Location != "/a" || first.ETag != `"1"` || string(first.Body) != `{"id":"a"}` {
		t.Errorf("replayed %+v, %v", first, err)
	}
	_, _, err = b.Replay(t.Context(), key(b, "k1", "another"))
	wantCode(t, "another body", err, errs.IdempotencyKeyReused)

	if err := b.work(t, key(b, "", "no key")); err != nil {
		t.Error(err)
	}
	// After its day the key is free again, swept or not.
	b.exec(t, "UPDATE idempotency_keys SET created_at = now() - interval '25 hours'")
	if _, found, err := b.Replay(t.Context(), k); found || err != nil {
		t.Errorf("replayed after a day: %v", err)
	}
	if err := b.work(t, key(b, "k1", "another")); err != nil {
		t.Error(err)
	}
	b.exec(t, "UPDATE idempotency_keys SET created_at = now() - interval '25 hours'")
	if n, err := b.ForgetReplies(t.Context(), b.db, 10); err != nil || n != 1 {
		t.Errorf("forgot %d, %v", n, err)
	}
}

func TestKeyAtWorkIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, err := b.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Rollback(t.Context()) }()
	batch := &pgx.Batch{}
	b.QueueKey(batch, key(b, "k", "x"), identity.Reply{Status: 201})
	if err := first.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Fatal(err)
	}
	// Had it waited for the first, this would end by the lock timeout.
	wantCode(t, "during an open one", b.work(t, key(b, "k", "x")), errs.IdempotencyInFlight)
	if err := first.Rollback(t.Context()); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		t.Fatal(err)
	}
	if err := b.work(t, key(b, "k", "x")); err != nil {
		t.Errorf("after the first failed: %v", err)
	}
}

func TestLockOfADeletedRowIsRejected(t *testing.T) {
	t.Parallel()
	b := setup(t)
	batch := &pgx.Batch{}
	identity.QueueLock(batch, identity.Caller{Tenant: ids.New[ids.Tenant](), User: b.seed.Dev.ID})
	wantCode(t, "unknown tenant", b.db.SendBatch(t.Context(), batch).Close(), errs.NotFound)
}
