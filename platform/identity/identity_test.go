package identity_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
)

func TestProjectIsNamedOrTheOnlyOne(t *testing.T) {
	t.Parallel()
	b := identitytest.New(t)
	foreign := ids.New[ids.Project]()
	b.Exec(t, "UPDATE projects SET deleted_at = now() WHERE name = 'lab'")
	b.Exec(t, "INSERT INTO tenants (id, name) VALUES ($1, 'other')", foreign.UUID)
	b.Exec(t, "INSERT INTO projects (id, org_id, name) VALUES ($1, $1, 'secret')", foreign.UUID)
	dev, err := b.SignIn.Authenticate(t.Context(), b.Seed.Dev.Key)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		asked string
		code  errs.Code
	}{
		"the only one": {"", ""}, "by id": {b.Seed.Project.String(), ""}, "by name": {"default", ""},
		"unknown": {uuid.NewString(), errs.NotFound}, "foreign": {foreign.String(), errs.NotFound}, "foreign by name": {"secret", errs.NotFound},
	} {
		for range 2 {
			in, err := b.InProject(t.Context(), dev, c.asked)
			identitytest.WantCode(t, name, err, c.code)
			if err == nil && (in.Project != b.Seed.Project || in.ProjectRole != "admin") {
				t.Errorf("%s: %+v", name, in)
			}
		}
	}

	b.Exec(t, "INSERT INTO projects (id, org_id, name) VALUES ($1, $2, 'second')", uuid.New(), b.Seed.Tenant.UUID)
	s := b.Fresh()
	_, err = s.InProject(t.Context(), dev, "")
	identitytest.WantCode(t, "one of two", err, errs.ProjectRequired)
	if owner, err := s.InProject(t.Context(), dev, "second"); err != nil || owner.ProjectRole != "admin" {
		t.Errorf("the tenant's owner in a project without members: %+v, %v", owner, err)
	}
	operator, err := s.Authenticate(t.Context(), b.Seed.Operator.Key)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.InProject(t.Context(), operator, "second")
	identitytest.WantCode(t, "no member", err, errs.Forbidden)
}

// work is one request. It stores its response with its effect, a project.
func work(t *testing.T, b *identitytest.Fixture, k identity.Key) error {
	return pgx.BeginFunc(t.Context(), b.Pool, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		b.QueueKey(batch, k, identity.Reply{Status: 201, Location: "/a", ETag: `"1"`, Body: []byte(`{"id":"a"}`)})
		identity.QueueLock(batch, identity.Caller{Tenant: b.Seed.Tenant, Project: b.Seed.Project, User: b.Seed.Dev.ID})
		batch.Queue("INSERT INTO projects (id, org_id, name) VALUES (gen_random_uuid(), $1, gen_random_uuid()::text)", b.Seed.Tenant.UUID)
		return tx.SendBatch(t.Context(), batch).Close()
	})
}

func TestINV06OneKeyOneEffect(t *testing.T) {
	t.Parallel()
	b := identitytest.New(t)
	k := b.Key("k1", "body")
	if _, found, err := b.Replay(t.Context(), k); found || err != nil {
		t.Fatalf("replayed what never was: %v", err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for range 100 {
		wg.Go(func() {
			err := work(t, b, k)
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
	if err := b.Pool.QueryRow(t.Context(), "SELECT count(*) - $1 FROM projects", len(b.Seed.Projects)).Scan(&effects); err != nil || effects != 1 || won != 1 {
		t.Errorf("%d effects, %d winners, %v", effects, won, err)
	}
	first, found, err := b.Replay(t.Context(), k)
	if err != nil || !found || first.Status != 201 || first.Location != "/a" || first.ETag != `"1"` || string(first.Body) != `{"id":"a"}` {
		t.Errorf("replayed %+v, %v", first, err)
	}
	_, _, err = b.Replay(t.Context(), b.Key("k1", "another"))
	identitytest.WantCode(t, "another body", err, errs.IdempotencyKeyReused)

	if err := work(t, b, b.Key("", "no key")); err != nil {
		t.Error(err)
	}
	// After its day the key is free again, swept or not.
	b.Exec(t, "UPDATE idempotency_keys SET created_at = now() - interval '25 hours'")
	if _, found, err := b.Replay(t.Context(), k); found || err != nil {
		t.Errorf("replayed after a day: %v", err)
	}
	if err := work(t, b, b.Key("k1", "another")); err != nil {
		t.Error(err)
	}
	b.Exec(t, "UPDATE idempotency_keys SET created_at = now() - interval '25 hours'")
	if n, err := identity.ForgetReplies(t.Context(), b.Pool, 24*time.Hour, 10); err != nil || n != 1 {
		t.Errorf("forgot %d, %v", n, err)
	}
}

func TestKeyAtWorkIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	b := identitytest.New(t)
	first, err := b.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Rollback(t.Context()) }()
	batch := &pgx.Batch{}
	b.QueueKey(batch, b.Key("k", "x"), identity.Reply{Status: 201})
	if err := first.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Fatal(err)
	}
	// Had it waited for the first, this would end by the lock timeout.
	identitytest.WantCode(t, "during an open one", work(t, b, b.Key("k", "x")), errs.IdempotencyInFlight)
	if err := first.Rollback(t.Context()); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		t.Fatal(err)
	}
	if err := work(t, b, b.Key("k", "x")); err != nil {
		t.Errorf("after the first failed: %v", err)
	}
}

func TestLockOfADeletedRowIsRejected(t *testing.T) {
	t.Parallel()
	b := identitytest.New(t)
	batch := &pgx.Batch{}
	identity.QueueLock(batch, identity.Caller{Tenant: ids.New[ids.Tenant](), User: b.Seed.Dev.ID})
	identitytest.WantCode(t, "unknown tenant", b.Pool.SendBatch(t.Context(), batch).Close(), errs.NotFound)
}
