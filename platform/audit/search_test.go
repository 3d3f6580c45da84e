package audit_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/audit"
)

func write(t *testing.T, db pg.DB, entries ...audit.Entry) {
	t.Helper()
	b := &pgx.Batch{}
	for _, e := range entries {
		audit.Queue(b, e)
	}
	if err := pg.Commit(t.Context(), db, b, func() {}); err != nil {
		t.Fatal(err)
	}
}

// AT-081: every filter alone and together, page by page.
func TestSearchFindsByEveryFilter(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	s := &audit.Service{DB: db}
	a, b := ids.New[ids.Tenant](), ids.New[ids.Tenant]()
	named := ids.New[ids.Project]().String()
	targets := []string{"t0", "t1", "t2", "t3", "core42:aicloud:eu-1:-:-:project:" + named}
	entry := func(tenant ids.Tenant, n int) audit.Entry {
		return audit.Entry{
			Tenant: tenant, By: audit.By{Actor: fmt.Sprintf("user:%d", n%2), CorrelationID: fmt.Sprint(n)}, Action: fmt.Sprintf("thing.verb%d", n%3), Target: targets[n%5],
			After: map[string]any{"n": n},
		}
	}
	for n := range 10 {
		write(t, db, entry(a, n), entry(b, n), entry(ids.Tenant{}, n)) // three with one time: the id decides
	}
	all := search(t, s, audit.Query{Limit: 100})
	if len(all) != 30 || !slices.IsSortedFunc(all, func(x, y audit.Record) int { return y.At.Compare(x.At) }) {
		t.Fatalf("%d records, or not the newest first", len(all))
	}
	if r := all[0]; string(r.After) != `{"n": 9}` || r.Before != nil || r.CorrelationID != "9" {
		t.Errorf("got %+v", r)
	}
	middle := all[14].At
	for name, c := range map[string]struct {
		q    audit.Query
		fits func(audit.Record) bool
	}{
		"tenant":         {audit.Query{Tenant: a}, func(r audit.Record) bool { return r.Tenant == a }},
		"actor":          {audit.Query{Actor: "user:1"}, func(r audit.Record) bool { return r.Actor == "user:1" }},
		"action":         {audit.Query{Action: "thing.verb2"}, func(r audit.Record) bool { return r.Action == "thing.verb2" }},
		"target":         {audit.Query{Target: "t3"}, func(r audit.Record) bool { return r.Target == "t3" }},
		"kind of action": {audit.Query{Action: "thing."}, func(audit.Record) bool { return true }},
		"no part":        {audit.Query{Action: "thin"}, func(audit.Record) bool { return false }},
		"id":             {audit.Query{Target: named}, func(r audit.Record) bool { return r.Target == targets[4] }},
		"other id":       {audit.Query{Target: ids.New[ids.Project]().String()}, func(audit.Record) bool { return false }},
		"from":           {audit.Query{From: middle}, func(r audit.Record) bool { return !r.At.Before(middle) }},
		"to":             {audit.Query{To: middle}, func(r audit.Record) bool { return r.At.Before(middle) }},
		"all": {audit.Query{Tenant: b, Actor: "user:0", Action: "thing.verb0", Target: "t1", From: all[29].At, To: all[0].At.Add(1)}, func(r audit.Record) bool {
			return r.Tenant == b && r.Actor == "user:0" && r.Action == "thing.verb0" && r.Target == "t1"
		}},
		"nothing": {audit.Query{Actor: "user:' OR true --"}, func(audit.Record) bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := slices.DeleteFunc(slices.Clone(all), func(r audit.Record) bool { return !c.fits(r) })
			var got []audit.Record
			for q := c.q; ; q.After = got[len(got)-1].Place() {
				q.Limit = 4
				page := search(t, s, q)
				got = append(got, page...)
				if len(page) < q.Limit {
					break
				}
			}
			same(t, "paged", got, want)
			got = nil
			if err := s.Export(t.Context(), c.q, func(r audit.Record) error { got = append(got, r); return nil }); err != nil {
				t.Fatal(err)
			}
			same(t, "exported", got, want)
		})
	}
}

func search(t *testing.T, s *audit.Service, q audit.Query) []audit.Record {
	t.Helper()
	records, err := s.Search(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func same(t *testing.T, how string, got, want []audit.Record) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(x, y audit.Record) bool { return x.ID == y.ID }) {
		t.Errorf("%s: %d records, want %d", how, len(got), len(want))
	}
}

// fill writes n rows by one statement.
func fill(t *testing.T, db pg.Queryer, n int) {
	t.Helper()
	if _, err := db.Exec(t.Context(), `INSERT INTO audit_logs (id, actor, action, target_urn, after)
		SELECT gen_random_uuid(), 'user:u', 'a.b', 't', jsonb_build_object('text', repeat('x', 500)) FROM generate_series(1, $1) i`, n); err != nil {
		t.Fatal(err)
	}
}

// AT-082. Not parallel: it reads the memory of the process.
func TestExportOfManyRowsKeepsMemoryFlat(t *testing.T) { //nolint:paralleltest // see above
	db := pgtest.Clone(t)
	fill(t, db, 10_000)
	s := &audit.Service{DB: db}
	var least, most uint64
	rows := 0
	err := s.Export(t.Context(), audit.Query{}, func(r audit.Record) error {
		if rows++; rows%1000 == 0 {
			if open := db.Stat().AcquiredConns(); open != 0 {
				return fmt.Errorf("%d connections are in use while a record is being written", open)
			}
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if least == 0 {
				least = m.HeapAlloc
			}
			most = max(most, m.HeapAlloc)
		}
		return nil
	})
	if err != nil || rows != 10_000 {
		t.Fatalf("%d rows: %v", rows, err)
	}
	if grown := int64(most) - int64(least); grown > 2<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

func TestExportEndsWithItsReader(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	fill(t, db, 3)
	gone, taken := errors.New("the reader has gone"), 0
	s := &audit.Service{DB: db}
	err := s.Export(t.Context(), audit.Query{}, func(audit.Record) error { taken++; return gone })
	if !errors.Is(err, gone) || taken != 1 {
		t.Errorf("took %d: %v", taken, err)
	}
	taken = 0
	if err := s.Export(t.Context(), audit.Query{Limit: 2}, func(audit.Record) error { taken++; return nil }); err != nil || taken != 2 {
		t.Errorf("took %d of at most 2: %v", taken, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Export(ended, audit.Query{}, func(audit.Record) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
