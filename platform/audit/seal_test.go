package audit_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/audit"
)

// sealAll seals until no row is left. The horizon covers the whole cluster, so transactions of other
// tests may delay it.
func sealAll(t *testing.T, s *audit.Service) audit.Report {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if err := s.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := verify(t, s)
		if r.Unsealed == 0 || time.Now().After(until) {
			return r
		}
	}
}

func verify(t *testing.T, s *audit.Service, heads ...audit.Chain) audit.Report {
	t.Helper()
	r, err := s.Verify(t.Context(), ids.Tenant{}, heads)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSealTakesEveryTenantAndThePlatform(t *testing.T) {
	t.Parallel()
	s := &audit.Service{DB: pgtest.Clone(t)}
	if r := verify(t, s); !r.OK() || len(r.Chains) != 0 || r.Unsealed != 0 {
		t.Errorf("of nothing: %+v", r)
	}
	a, b := ids.New[ids.Tenant](), ids.New[ids.Tenant]()
	for range 2 {
		write(t, s.DB, entryOf(a), entryOf(b), entryOf(ids.Tenant{}), entryOf(a))
	}
	if r := verify(t, s); r.Unsealed != 8 {
		t.Errorf("before: %+v", r)
	}
	first := sealAll(t, s)
	counts := []int64{}
	for _, c := range first.Chains {
		counts = append(counts, c.Rows)
	}
	if !first.OK() || !slices.Equal(counts, []int64{2, 4, 2}) || first.Chains[0].Tenant != (ids.Tenant{}) {
		t.Errorf("got %+v", first)
	}
	// Twice equals once.
	again := sealAll(t, s)
	if !slices.Equal(again.Chains, first.Chains) {
		t.Errorf("again: %+v", again)
	}
	write(t, s.DB, entryOf(b))
	last := sealAll(t, s)
	if !last.OK() || last.Chains[2].Rows != 3 || last.Chains[1] != first.Chains[1] {
		t.Errorf("after one more: %+v", last)
	}
	// What was true of a chain stays so.
	if r := verify(t, s, append(first.Chains, last.Chains...)...); !r.OK() {
		t.Errorf("with the heads of before: %+v", r)
	}
	one, err := s.Verify(t.Context(), b, first.Chains)
	if err != nil || len(one.Chains) != 1 || one.Chains[0] != last.Chains[2] {
		t.Errorf("of one tenant: %+v, %v", one, err)
	}
}

func entryOf(t ids.Tenant) audit.Entry {
	return audit.Entry{Tenant: t, By: audit.By{Actor: "user:u", Client: audit.Client{Address: "203.0.113.7", UserAgent: "gpuaas/1"}}, Action: "a.b", Target: "t", Before: map[string]any{"n": 1}, After: "text"}
}

// A transaction that began before a seal and commits after it belongs to the next
// one: no chain is broken by it, and its rows are not left out.
func TestLateCommitBelongsToTheNextSeal(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	s := &audit.Service{DB: db}
	tenant := ids.New[ids.Tenant]()
	write(t, db, entryOf(tenant))
	sealAll(t, s)
	late, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	write(t, late, entryOf(tenant)) // a savepoint of it
	write(t, db, entryOf(tenant))   // later, and committed sooner
	if err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, s); !r.OK() || r.Chains[0].Rows != 1 {
		t.Errorf("while it is open: %+v", r)
	}
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := sealAll(t, s); !r.OK() || r.Chains[0].Rows != 3 {
		t.Errorf("afterwards: %+v", r)
	}
}

func TestEightWorkersSealOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	s := &audit.Service{DB: db}
	tenants := []ids.Tenant{{}, ids.New[ids.Tenant](), ids.New[ids.Tenant]()}
	var all errgroup.Group
	for range 8 {
		all.Go(func() error {
			for n := range 10 {
				b := &pgx.Batch{}
				for _, tenant := range tenants {
					audit.Queue(b, entryOf(tenant))
				}
				if err := db.SendBatch(t.Context(), b).Close(); err != nil {
					return err
				}
				if err := s.Seal(t.Context()); err != nil {
					return err
				}
				// Verify runs concurrently with the seals and must report no fault.
				if r, err := s.Verify(t.Context(), tenants[n%3], nil); err != nil || !r.OK() {
					return fmt.Errorf("%+v, %w", r, err)
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	r := sealAll(t, s)
	if !r.OK() || len(r.Chains) != 3 || r.Chains[0].Rows != 80 || r.Chains[1].Rows != 80 || r.Chains[2].Rows != 80 {
		t.Errorf("got %+v", r)
	}
}

// A database that was filled from a dump numbers its transactions from the beginning. A seal there would
// leave out rows.
func TestSealRejectsSealsOfAnotherNumbering(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	if _, err := db.Exec(t.Context(), `INSERT INTO audit_seals (up_to, org_id, total, rows, chain)
		VALUES ('999999999999', gen_random_uuid(), 1, repeat('x', 48)::bytea, repeat('x', 32)::bytea)`); err != nil {
		t.Fatal(err)
	}
	s := &audit.Service{DB: db}
	if err := s.Seal(t.Context()); err == nil {
		t.Error("sealed")
	}
}

// More rows than one round seals.
func TestSealGoesOnToTheEnd(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	s := &audit.Service{DB: db}
	for range 5 {
		fill(t, db, 900)
	}
	if r := sealAll(t, s); !r.OK() || r.Chains[0].Rows != 4500 || r.Chains[0].Seals < 2 {
		t.Errorf("got %+v", r)
	}
}
