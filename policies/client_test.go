package policies

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func setup(t *testing.T) (*Client, *pgxpool.Pool) {
	t.Helper()
	pool := pgtest.Clone(t)
	return &Client{DB: pool, Hints: &hint.Bus{}, Log: slog.New(slog.DiscardHandler)}, pool
}

func set(t *testing.T, c *Client, pool *pgxpool.Pool, key string, scope Scope, value any) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return c.Set(t.Context(), tx, applied(key, scope, value))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// applied is a value that an object of its key and scope sets.
func applied(key string, scope Scope, value any) Applied {
	object := ids.Object{UUID: uuid.NewSHA1(uuid.Nil, []byte(key+string(scope)))}
	return Applied{Key: key, Scope: scope, Subject: scope, Value: value, Source: "user:x", Object: object}
}

func refresh(t *testing.T, c *Client) Snapshot {
	t.Helper()
	s, err := c.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSetAndUnset(t *testing.T) {
	t.Parallel()
	c, pool := setup(t)
	tenant := In(LevelTenant, "t")
	if s := refresh(t, c); s.Revision != 0 || s.For().Int(AllocationMaxGPUs) != 8 {
		t.Errorf("at first: %+v", s)
	}
	set(t, c, pool, "allocation.max_gpus", Platform, 6)
	set(t, c, pool, "allocation.max_gpus", tenant, 2)
	s := refresh(t, c)
	if s.Revision != 2 || s.For().Int(AllocationMaxGPUs) != 6 || s.For(tenant).Int(AllocationMaxGPUs) != 2 {
		t.Errorf("set: %+v", s)
	}
	set(t, c, pool, "allocation.max_gpus", tenant, 2)
	if again := refresh(t, c); again.Revision != 2 {
		t.Errorf("setting what is set moved the revision to %d", again.Revision)
	}
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if err := c.Unset(t.Context(), tx, "allocation.max_gpus", tenant); err != nil {
			return err
		}
		return c.Unset(t.Context(), tx, "allocation.max_gpus", In(LevelTenant, "other"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if now := refresh(t, c); now.Revision != 3 || now.For(tenant).Int(AllocationMaxGPUs) != 6 || len(now.Values()) != 1 {
		t.Errorf("unset: %+v", now)
	}
	if s.For(tenant).Int(AllocationMaxGPUs) != 2 {
		t.Error("an old snapshot changed")
	}
}

func TestSetRejects(t *testing.T) {
	t.Parallel()
	c, pool := setup(t)
	for key, want := range map[string]errs.Code{"no.such": errs.SpecInvalid, "allocation.max_gpus": errs.SpecInvalid} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			return c.Set(t.Context(), tx, applied(key, Platform, -1))
		})
		if errs.CodeOf(err) != want {
			t.Errorf("%s: %v, want %s", key, err, want)
		}
	}
	if s := refresh(t, c); s.Revision != 0 {
		t.Errorf("revision is %d", s.Revision)
	}
}

// A renamed tenant still has the value of its former name, and the next tenant with that name does not get
// it.
func TestTheFirstSubjectStays(t *testing.T) {
	t.Parallel()
	c, pool := setup(t)
	scope, first, second := In(LevelTenant, "acme"), In(LevelTenant, uuid.NewString()), In(LevelTenant, uuid.NewString())
	put := func(subject Scope, value any) {
		a := applied("allocation.max_gpus", scope, value)
		a.Subject = subject
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return c.Set(t.Context(), tx, a) }); err != nil {
			t.Fatal(err)
		}
	}
	put(first, 2)
	put(second, 1)
	s := refresh(t, c)
	if s.For(first).Int(AllocationMaxGPUs) != 1 || s.For(second).Int(AllocationMaxGPUs) != 8 || s.For(scope).Int(AllocationMaxGPUs) != 8 {
		t.Errorf("values are %v", s.Values())
	}
	subjects, err := c.Subjects(t.Context(), pool, []Scope{scope, "tenant:other"})
	if err != nil || len(subjects) != 1 || subjects[scope] != first {
		t.Errorf("subjects are %v: %v", subjects, err)
	}
	if scopes, err := c.ScopesOf(t.Context(), pool, []Scope{first}); err != nil || len(scopes) != 1 || scopes[0] != scope {
		t.Errorf("scopes are %v: %v", scopes, err)
	}

	// The name and the id of one tenant: neither value widens the other.
	set(t, c, pool, "allocation.max_gpus", first, 6)
	if got := refresh(t, c).For(first).Int(AllocationMaxGPUs); got != 1 {
		t.Errorf("by name 1, by id 6: %d", got)
	}
}

// An object that moves to another scope leaves no value behind.
func TestAMovedObjectSetsOneValue(t *testing.T) {
	t.Parallel()
	c, pool := setup(t)
	a := applied("allocation.max_gpus", Platform, 3)
	for _, scope := range []Scope{Platform, In(LevelTenant, "t")} {
		a.Scope, a.Subject = scope, scope
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return c.Set(t.Context(), tx, a) }); err != nil {
			t.Fatal(err)
		}
	}
	if s := refresh(t, c); len(s.Values()) != 1 || s.For().Int(AllocationMaxGPUs) != 8 {
		t.Errorf("values are %v", s.Values())
	}
}

// Another binary may know other bounds. Its value must not stop this one.
func TestForeignValuesAreLeftOut(t *testing.T) {
	t.Parallel()
	c, pool := setup(t)
	_, err := pool.Exec(t.Context(), `INSERT INTO policy_values (key, scope, subject, value, revision)
		VALUES ('no.such', 'platform', 'platform', '1', 1), ('allocation.max_gpus', 'platform', 'platform', '100000', 1)`)
	if err != nil {
		t.Fatal(err)
	}
	if s := refresh(t, c); s.For().Int(AllocationMaxGPUs) != 8 || len(s.Values()) != 0 {
		t.Errorf("values are %v", s.Values())
	}
}

// counted counts the queries of a snapshot.
type counted struct {
	*pgxpool.Pool
	mu      sync.Mutex
	queries int
}

func (c *counted) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	c.mu.Lock()
	c.queries++
	c.mu.Unlock()
	return c.Pool.Query(ctx, sql, args...)
}

func (c *counted) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	c.mu.Lock()
	c.queries++
	c.mu.Unlock()
	return c.Pool.QueryRow(ctx, sql, args...)
}

func TestSnapshotCostsNoQuery(t *testing.T) {
	t.Parallel()
	c, pool := setup(t)
	db := &counted{Pool: pool}
	c.DB = db
	for range 100 {
		if _, err := c.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if db.queries != 1 {
		t.Errorf("%d queries", db.queries)
	}
}

func TestRunFollowsHints(t *testing.T) {
	t.Parallel()
	c, pool := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()

	if _, err := c.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	set(t, c, pool, "node.report_seconds", Platform, 7)
	c.Hints.Send(Topic)
	deadline := time.After(10 * time.Second)
	for {
		s, err := c.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.For().Int(NodeReportSeconds) == 7 {
			break
		}
		select {
		case <-deadline:
			t.Fatal("the value was never read")
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("Run ended without a cause")
	}
}

// Two keys that are always set together must never be read apart, and a reader that has read a revision
// has read all earlier ones.
func TestReadersSeeWholeRevisions(t *testing.T) {
	t.Parallel()
	c, pool := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for range 3 {
		writers.Go(func() {
			for i := int64(1); ctx.Err() == nil; i++ {
				_ = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					if err := c.Set(ctx, tx, applied("payment.min_amount_minor", Platform, 1+i%100)); err != nil {
						return err
					}
					return c.Set(ctx, tx, applied("payment.max_amount_minor", Platform, 1001+i%100))
				})
			}
		})
	}
	seen := int64(-1)
	for n := 0; n < 200 || seen < 1; n++ { // readers may be faster than the first writer
		s := refresh(t, c)
		low, high := int64(s.For().Minor(PaymentMinAmountMinor)), int64(s.For().Minor(PaymentMaxAmountMinor))
		if s.Revision > 0 && high-low != 1000 {
			t.Errorf("revision %d mixes %d and %d", s.Revision, low, high)
		}
		if s.Revision < seen {
			t.Errorf("revision went from %d to %d", seen, s.Revision)
		}
		seen = s.Revision
	}
	cancel()
	writers.Wait()
}
