//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/e2e/check"
)

// Trouble on purpose, by the command line that people use for it.
func TestDriftFaultPartition(t *testing.T) {
	t.Parallel()
	t.Run("drift is healed", func(t *testing.T) {
		t.Parallel()
		drifts(t)
	})
	t.Run("a faulty GPU is not sold", func(t *testing.T) {
		t.Parallel()
		breaks(t)
	})
	t.Run("a partitioned slot is not sold before proof", func(t *testing.T) {
		t.Parallel()
		partitions(t)
	})
}

func (h *house) dev(t *testing.T, args ...string) {
	t.Helper()
	if got := h.cli(append([]string{"dev"}, args...)...); got.code != 0 {
		t.Fatalf("dev %v: exit %d\n%s%s", args, got.code, got.out, got.err)
	}
}

// one asks the database a question with one answer.
func one[T any](t *testing.T, h *house, sql string, args ...any) (v T) {
	t.Helper()
	db, err := h.sql(t.Context())
	must(t, err)
	defer db.Close(t.Context())
	must(t, db.QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

func drifts(t *testing.T) {
	h := newHouse(t)
	h.start()
	a := h.create(t, "t4", 2)
	h.becomes(t, a, "active")
	dir := h.agents() + "/gpu-t4-01"
	for i, way := range []string{sim.DriftKeys, sim.DriftAccount} {
		before, err := sim.Read(sim.Path(dir))
		must(t, err)
		h.dev(t, "drift", "gpu-t4-01", "--way", way)
		until(t, patience, way+" is healed", func() error {
			now, err := sim.Read(sim.Path(dir))
			if err != nil {
				return err
			}
			for name, was := range before.Accounts {
				if is := now.Accounts[name]; is == nil || is.UID != was.UID || len(is.Keys) != len(was.Keys) {
					return fmt.Errorf("%s is %+v", name, is)
				}
			}
			if n := one[int](t, h, `SELECT count(*) FROM drift WHERE object_id = $1 AND status = 'healed'`, a.ID); n != i+1 {
				return fmt.Errorf("%d drifts are written down as healed", n)
			}
			return nil
		})
	}
	h.converges(t, patience, check.Expect{Live: []string{a.Name}})
	h.release(t, a)
	h.becomes(t, a, "released")
	h.converges(t, patience, check.Expect{Rested: true})
}

func breaks(t *testing.T) {
	h := newHouse(t)
	h.start()
	const quarantined = `SELECT count(*) FROM slots s JOIN nodes n ON n.id = s.node_id WHERE n.name = 'gpu-t4-01' AND s.status = 'quarantined'`
	h.dev(t, "fault", "gpu-t4-01", "--gpu", "1", "--xid", "79")
	until(t, patience, "its slot is quarantined", func() error {
		if n := one[int](t, h, quarantined); n != 1 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	a := h.create(t, "t4", 3) // all that is left
	h.becomes(t, a, "active")
	var extra allocation
	if status, err := h.call("POST", "/api/v1/allocations", "extra", map[string]any{"sku": "t4", "gpus": 1, "name": "extra"}, &extra); err == nil {
		t.Errorf("a quarantined slot was sold: %d", status)
	}
	h.dev(t, "heal", "gpu-t4-01")
	until(t, patience, "it is for sale again", func() error {
		if n := one[int](t, h, quarantined); n != 0 {
			return fmt.Errorf("%d are quarantined", n)
		}
		return nil
	})
	b := h.create(t, "t4", 1)
	h.becomes(t, b, "active")
	for _, x := range []allocation{a, b} {
		h.release(t, x)
		h.becomes(t, x, "released")
	}
	h.converges(t, patience, check.Expect{Rested: true})
}

// partitions releases an allocation whose host hears nothing: its bill ends, its
// slots stay unsold until the host is back and proves them clean.
func partitions(t *testing.T) {
	h := newHouse(t)
	h.start()
	a := h.create(t, "t4", 4)
	h.becomes(t, a, "active")
	h.dev(t, "partition", "gpu-t4-01")
	until(t, patience, "the node is noticed to be silent", func() error {
		if s := one[string](t, h, `SELECT reachability FROM nodes WHERE name = 'gpu-t4-01'`); s == "reachable" {
			return errors.New(s)
		}
		return nil
	})
	h.release(t, a)
	for end := time.Now().Add(12 * time.Second); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		var sold allocation
		if status, err := h.call("POST", "/api/v1/allocations", "resold", map[string]any{"sku": "t4", "gpus": 1, "name": "resold"}, &sold); err == nil {
			t.Fatalf("a slot of a partitioned host was sold: %d", status)
		}
		if s := one[string](t, h, `SELECT status FROM allocations WHERE id = $1`, a.ID); s != "releasing" {
			t.Fatalf("without proof it is %s", s)
		}
	}
	if n := one[int](t, h, `SELECT count(*) FROM usage_records WHERE allocation_id = $1 AND end_s IS NULL`, a.ID); n != 0 {
		t.Error("it is charged on after the release was asked for")
	}
	h.dev(t, "heal", "gpu-t4-01")
	h.becomes(t, a, "released")
	b := h.create(t, "t4", 4)
	h.becomes(t, b, "active")
	h.release(t, b)
	h.becomes(t, b, "released")
	h.converges(t, patience, check.Expect{Rested: true})
}
