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

// TestDriftFaultPartition injects drift, faults and partitions with the command line that operators use.
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

func (h *installation) dev(t *testing.T, args ...string) {
	t.Helper()
	if got := h.cli(append([]string{"dev"}, args...)...); got.code != 0 {
		t.Fatalf("dev %v: exit %d\n%s%s", args, got.code, got.out, got.err)
	}
}

// queryOne runs a query that returns one value.
func queryOne[T any](t *testing.T, h *installation, sql string, args ...any) (v T) {
	t.Helper()
	db, err := h.sql(t.Context())
	must(t, err)
	defer db.Close(t.Context())
	must(t, db.QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

// INV-17 gives a minute to see what differs and two to put it right.
const (
	noticedWithin = time.Minute
	actedWithin   = 2 * time.Minute
)

// INV-17: a change by hand, to a node's state directory, its Git declaration or a row, is detected and
// healed in time, or reported to an operator.
func drifts(t *testing.T) {
	h := newInstallation(t)
	h.start()
	a := h.create(t, "t4", 2)
	h.becomes(t, a, "active")
	dir := h.agents() + "/gpu-t4-01"
	node := queryOne[string](t, h, `SELECT id::text FROM nodes WHERE name = 'gpu-t4-01'`)
	policy := queryOne[string](t, h, `SELECT uid::text FROM desired_objects WHERE kind = 'Policy' AND spec->>'key' = 'node.report_seconds'`)
	for _, c := range []struct{ object, field, way, edit string }{
		{a.ID, "keys", sim.DriftKeys, ""},
		{a.ID, "account", sim.DriftAccount, ""},
		{a.ID, "access", sim.DriftAccess, ""},
		{a.ID, "process", sim.DriftProcess, ""},
		{node, "spec.cordoned", "", `UPDATE nodes SET spec = spec || '{"cordoned": true}' WHERE name = 'gpu-t4-01'`},
		{policy, "spec.value", "", `UPDATE policy_values SET value = '7' WHERE key = 'node.report_seconds'`},
	} {
		before, err := sim.Read(sim.Path(dir))
		must(t, err)
		began := time.Now()
		if c.way != "" {
			h.dev(t, "drift", "gpu-t4-01", "--way", c.way)
		} else {
			h.edit(t, c.edit)
		}
		until(t, actedWithin, c.field+" is healed", func() error {
			if n := queryOne[int](t, h, `SELECT count(*) FROM drift WHERE object_id = $1 AND field = $2 AND status = 'healed' AND healed_at > $3`, c.object, c.field, began); n != 1 {
				return fmt.Errorf("%d are written down as healed", n)
			}
			return nil
		})
		if late := queryOne[time.Time](t, h, `SELECT max(opened_at) FROM drift WHERE object_id = $1 AND field = $2`, c.object, c.field).Sub(began); late > noticedWithin {
			t.Errorf("%s was detected after %s", c.field, late)
		}
		now, err := sim.Read(sim.Path(dir))
		must(t, err)
		for name, was := range before.Accounts {
			if is := now.Accounts[name]; is == nil || is.UID != was.UID || len(is.Keys) != len(was.Keys) {
				t.Errorf("%s: %s is %+v", c.field, name, is)
			}
		}
	}
	h.converges(t, patience, check.Expect{Live: []string{a.Name}})
	h.dev(t, "drift", "gpu-t4-01", "--way", sim.DriftGPU)
	until(t, noticedWithin, "an operator is notified of the missing GPU", func() error {
		if n := queryOne[int](t, h, `SELECT count(*) FROM drift WHERE object_id = $1 AND field = 'gpus' AND status = 'open' AND (desired, observed, owner) = ('4', '3', 'operator') AND cost_minor > 0`, node); n != 1 {
			return fmt.Errorf("%d drifts are open", n)
		}
		return nil
	})
	h.release(t, a)
	h.becomes(t, a, "released")
}

// edit is a hand in the database.
func (h *installation) edit(t *testing.T, sql string) {
	t.Helper()
	db, err := h.sql(t.Context())
	must(t, err)
	defer db.Close(t.Context())
	_, err = db.Exec(t.Context(), sql)
	must(t, err)
}

func breaks(t *testing.T) {
	h := newInstallation(t)
	h.start()
	const quarantined = `SELECT count(*) FROM slots s JOIN nodes n ON n.id = s.node_id WHERE n.name = 'gpu-t4-01' AND s.status = 'quarantined'`
	h.dev(t, "fault", "gpu-t4-01", "--gpu", "1", "--xid", "62") // local: 79 would put the whole node out of service
	until(t, patience, "its slot is quarantined", func() error {
		if n := queryOne[int](t, h, quarantined); n != 1 {
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
		if n := queryOne[int](t, h, quarantined); n != 0 {
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

// partitions releases an allocation of a partitioned node: charging ends, and its slots stay unsold
// until the node is reachable again and proves them clean.
func partitions(t *testing.T) {
	h := newInstallation(t)
	h.start()
	a := h.create(t, "t4", 4)
	h.becomes(t, a, "active")
	h.dev(t, "partition", "gpu-t4-01")
	until(t, patience, "the node is noticed to be silent", func() error {
		if s := queryOne[string](t, h, `SELECT reachability FROM nodes WHERE name = 'gpu-t4-01'`); s == "reachable" {
			return errors.New(s)
		}
		return nil
	})
	h.release(t, a)
	for end := time.Now().Add(12 * time.Second); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		var sold allocation
		if status, err := h.call("POST", "/api/v1/allocations", "resold", map[string]any{"sku": "t4", "gpus": 1, "name": "resold"}, &sold); err == nil {
			t.Fatalf("a slot of a partitioned node was sold: %d", status)
		}
		if s := queryOne[string](t, h, `SELECT status FROM allocations WHERE id = $1`, a.ID); s != "releasing" {
			t.Fatalf("without proof it is %s", s)
		}
	}
	if n := queryOne[int](t, h, `SELECT count(*) FROM usage_records WHERE allocation_id = $1 AND end_s IS NULL`, a.ID); n != 0 {
		t.Error("it is still charged after the release was requested")
	}
	h.dev(t, "heal", "gpu-t4-01")
	h.becomes(t, a, "released")
	b := h.create(t, "t4", 4)
	h.becomes(t, b, "active")
	h.release(t, b)
	h.becomes(t, b, "released")
	h.converges(t, patience, check.Expect{Rested: true})
}
