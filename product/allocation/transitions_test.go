package allocation_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
)

// put forces an allocation into a state, as no server could.
func put(t *testing.T, tx pgx.Tx, id ids.Allocation, s allocation.State) {
	t.Helper()
	for _, sql := range []string{
		`ALTER TABLE allocations DISABLE TRIGGER allocations_transition_is_listed`,
		`UPDATE allocations SET status = $2, active_at = now(), ended_at = CASE WHEN $2 IN ('released', 'failed') THEN now() END WHERE id = $1`,
		`ALTER TABLE allocations ENABLE TRIGGER allocations_transition_is_listed`,
	} {
		args := []any{id, string(s)}
		if sql[0] == 'A' {
			args = nil
		}
		if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
}

// INV-04 by SQL: all 49 pairs of states. The database lets exactly those pass that
// some event makes, and none without its row in the history.
func TestINV04BySQL(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	w.Node(t, "node-1", 1)
	a := w.Request(t, 1)
	if _, err := w.DB.Exec(t.Context(), `ALTER TABLE allocations DISABLE TRIGGER allocations_transition_is_recorded`); err != nil {
		t.Fatal(err)
	}
	listed := map[[2]allocation.State]bool{}
	for _, s := range allocation.States() {
		listed[[2]allocation.State{s, s}] = true // no move
		for _, e := range allocation.Triggers() {
			if to, err := allocation.Next(s, e); err == nil {
				listed[[2]allocation.State{s, to}] = true
			}
		}
	}
	tx, err := w.DB.Begin(t.Context())
	must(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	for _, from := range allocation.States() {
		put(t, tx, a.ID, from)
		for _, to := range allocation.States() {
			err := pgx.BeginFunc(t.Context(), tx, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), `UPDATE allocations SET status = $2, active_at = now(), version = version + 1,
					ended_at = CASE WHEN $2 IN ('released', 'failed') THEN now() END WHERE id = $1`, a.ID, string(to))
				if err == nil {
					return pgx.ErrTxCommitRollback // tried, that is enough
				}
				return err
			})
			if passed := errors.Is(err, pgx.ErrTxCommitRollback); passed != listed[[2]allocation.State{from, to}] {
				t.Errorf("%s → %s: passed %v: %v", from, to, passed, err)
			}
		}
	}
}

func TestINV04NoMoveWithoutItsRow(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	w.Node(t, "node-1", 1)
	a := w.Request(t, 1)
	_, err := w.DB.Exec(t.Context(), `UPDATE allocations SET status = 'provisioning', version = version + 1 WHERE id = $1`, a.ID)
	var sql *pgconn.PgError
	if !errors.As(err, &sql) || sql.Code != "23514" {
		t.Errorf("moved silently: %v", err)
	}
	for _, change := range []string{`UPDATE allocation_transitions SET reason = 'x'`, `DELETE FROM allocation_transitions`} {
		if _, err := w.DB.Exec(t.Context(), change); err == nil {
			t.Errorf("history took %s", change)
		}
	}
}

// INV-04 through the service: in each of the seven states, each trigger either moves the row as listed,
// by one version and one transition, or changes nothing.
func TestINV04ByTheService(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	node := w.Node(t, "node-1", 8)
	s := w.Allocations
	for _, from := range allocation.States() {
		for event, c := range map[string]struct {
			do  func(pgx.Tx, allocation.Allocation) error
			via []allocation.Trigger
		}{
			"TaskPlaced": {func(tx pgx.Tx, a allocation.Allocation) error {
				_, err := s.TaskPlaced(t.Context(), tx, a)
				return err
			}, []allocation.Trigger{allocation.TaskQueued}},
			"NodeReady": {func(tx pgx.Tx, a allocation.Allocation) error {
				return s.NodeReady(t.Context(), tx, a, metering.Observation{})
			}, []allocation.Trigger{allocation.TaskQueued, allocation.NodeReady}},
			"SlotsGone": {func(tx pgx.Tx, a allocation.Allocation) error {
				return s.SlotsGone(t.Context(), tx, a, allocationtest.Proof(9, allocationtest.GPU(node, 0)))
			}, []allocation.Trigger{allocation.CleanupProved}},
			"Exhaust": {func(tx pgx.Tx, a allocation.Allocation) error { return s.Exhaust(t.Context(), tx, a, 1, "why") }, []allocation.Trigger{allocation.Exhausted}},
		} {
			want := from
			for _, e := range c.via { // the results of the triggers in the table
				if to, err := allocation.Next(want, e); err == nil {
					want = to
				}
			}
			if event == "NodeReady" && from != allocation.Requested && from != allocation.Provisioning {
				want = from
			}
			err := pgx.BeginFunc(t.Context(), w.DB, func(tx pgx.Tx) error {
				a := requestIn(t, w, tx, from)
				diff := pgtest.Diff(t, tx)
				if err := c.do(tx, a); err != nil {
					return err
				}
				now, err := s.Lock(t.Context(), tx, a.ID)
				if err != nil {
					return err
				}
				rows := oneIn[int](t, tx, `SELECT count(*)::int FROM allocation_transitions WHERE allocation_id = $1`, a.ID)
				if now.State != want || int(now.Version) != rows {
					t.Errorf("%s of a %s one: %s, want %s, version %d with %d rows of history", event, from, now.State, want, now.Version, rows)
				}
				if want == from && from != allocation.Failed && diff() != "" {
					t.Errorf("%s of a %s one changed\n%s", event, from, diff())
				}
				return pgx.ErrTxCommitRollback
			})
			if !errors.Is(err, pgx.ErrTxCommitRollback) {
				t.Errorf("%s of a %s one: %v", event, from, err)
			}
		}
	}
}

// requestIn makes an allocation and leads it to a state inside tx.
func requestIn(t *testing.T, w *allocationtest.Fixture, tx pgx.Tx, s allocation.State) allocation.Allocation {
	t.Helper()
	inside := *w.Server()
	inside.DB = poolOf{tx}
	inside.Inventory.DB = poolOf{tx}
	a, err := inside.Request(t.Context(), allocation.Request{Caller: w.Caller, SKU: allocationtest.SKU, GPUs: 1, Name: fmt.Sprintf("in-%s", ids.New[ids.Task]())})
	must(t, err)
	path := map[allocation.State][]func(allocation.Allocation) error{}
	ready := func(a allocation.Allocation) error {
		return inside.NodeReady(t.Context(), tx, a, metering.Observation{})
	}
	placed := func(a allocation.Allocation) error { _, err := inside.TaskPlaced(t.Context(), tx, a); return err }
	release := func(a allocation.Allocation) error {
		_, err := inside.Release(t.Context(), w.Caller, identity.Key{}, a.ID, nil)
		return err
	}
	giveUp := func(a allocation.Allocation) error { return inside.Exhaust(t.Context(), tx, a, 1, "why") }
	gone := func(a allocation.Allocation) error {
		return inside.SlotsGone(t.Context(), tx, a, allocationtest.Proof(9))
	}
	path[allocation.Provisioning] = append(path[allocation.Provisioning], placed)
	path[allocation.Active] = append(path[allocation.Active], ready)
	path[allocation.Releasing] = append(path[allocation.Releasing], ready, release)
	path[allocation.Released] = append(path[allocation.Released], ready, release, gone)
	path[allocation.Failed] = append(path[allocation.Failed], placed, giveUp)
	path[allocation.ReleaseFailed] = append(path[allocation.ReleaseFailed], ready, release, giveUp)
	for _, step := range path[s] {
		must(t, step(a))
		a, err = inside.Lock(t.Context(), tx, a.ID)
		must(t, err)
	}
	if a.State != s {
		t.Fatalf("led to %s, not to %s", a.State, s)
	}
	return a
}

// poolOf lets a service work inside a transaction of the test.
type poolOf struct{ pgx.Tx }

func oneIn[T any](t *testing.T, tx pgx.Tx, sql string, args ...any) (v T) {
	t.Helper()
	must(t, tx.QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

// A release by the user: the result in each state.
func TestReleaseByState(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	w.Node(t, "node-1", 8)
	for from, code := range map[allocation.State]errs.Code{
		allocation.Requested: "", allocation.Provisioning: "", allocation.Active: "", allocation.ReleaseFailed: "",
		allocation.Releasing: errs.AllocationAlreadyReleasing, allocation.Released: errs.AllocationFinal, allocation.Failed: errs.AllocationFinal,
	} {
		err := pgx.BeginFunc(t.Context(), w.DB, func(tx pgx.Tx) error {
			a := requestIn(t, w, tx, from)
			s := *w.Server()
			s.DB = poolOf{tx}
			diff := pgtest.Diff(t, tx)
			got, err := s.Release(t.Context(), w.Caller, identity.Key{}, a.ID, nil)
			switch {
			case errs.CodeOf(err) != code:
				t.Errorf("a %s one: %v", from, err)
			case code != "" && diff() != "":
				t.Errorf("rejected for a %s one, and left\n%s", from, diff())
			case code == "" && got.State != allocation.Releasing:
				t.Errorf("a %s one is %s", from, got.State)
			}
			return pgx.ErrTxCommitRollback
		})
		if !errors.Is(err, pgx.ErrTxCommitRollback) {
			t.Error(err)
		}
	}
}

// An id of another tenant is answered as one that does not exist.
func TestForeignIsUnknown(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	w.Node(t, "node-1", 1)
	a := w.Active(t, 1)
	stranger := w.Caller
	stranger.Tenant = ids.New[ids.Tenant]()
	none := ids.New[ids.Allocation]()
	diff := pgtest.Diff(t, w.DB)
	for name, call := range map[string]func(ids.Allocation) error{
		"get": func(id ids.Allocation) error { _, err := w.Allocations.Get(t.Context(), stranger, id); return err },
		"release": func(id ids.Allocation) error {
			_, err := w.Allocations.Release(t.Context(), stranger, identity.Key{}, id, nil)
			return err
		},
		"timeline": func(id ids.Allocation) error {
			_, err := w.Allocations.Timeline(t.Context(), stranger, id)
			return err
		},
	} {
		foreign, missing := call(a.ID), call(none)
		if errs.CodeOf(foreign) != errs.NotFound || foreign.Error() != missing.Error() {
			t.Errorf("%s: %v, of one that does not exist %v", name, foreign, missing)
		}
	}
	if list, err := w.Allocations.List(t.Context(), stranger, allocation.Filter{Limit: 10}); err != nil || len(list) != 0 {
		t.Errorf("listed %v, %v", list, err)
	}
	if left := diff(); left != "" {
		t.Error(left)
	}
}
