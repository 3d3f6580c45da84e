package policies

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
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
		return c.Set(t.Context(), tx, key, scope, value, "user:x")
	})
	if err != nil {
		t.Fatal(err)
	}
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
	for key, want := range map[string]errs.Code{"no.such": errs.NotFound, "allocation.max_gpus": errs.ValidationError} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			return c.Set(t.Context(), tx, key, Platform, -1, "user:x")
		})
		if errs.CodeOf(err) != want {
			t.Errorf("%s: %v, want %s", key, err, want)
		}
	}
	if s := refresh(t, c); s.Revision != 0 {
		t.Errorf("revision is %d", s.Revision)
	}
}

// Another binary may know other bounds. Its value must not stop this one.
func TestForeignValuesAreLeftOut(t *testing.T) {
	t.Parallel()
	c, pool := setup(t)
	_, err := pool.Exec(t.Context(), `INSERT INTO policy_values (key, scope, value, revision)
		VALUES ('no.such', 'platform', '1', 1), ('allocation.max_gpus', 'platform', '100000', 1)`)
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

// Two keys that are always set together must never be read apart, and a reader that has seen a revision
// has seen all earlier ones.
func TestReadersSeeWholeRevisions(t *testing.T) {
	t.Parallel()
	c, pool := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for range 3 {
		writers.Go(func() {
			for i := int64(1); ctx.Err() == nil; i++ {
				_ = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					if err := c.Set(ctx, tx, "payment.min_amount_minor", Platform, 1+i%100, "user:x"); err != nil {
						return err
					}
					return c.Set(ctx, tx, "payment.max_amount_minor", Platform, 1001+i%100, "user:x")
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
