package observed_test

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/protocol"
)

var inUse = ids.New[ids.Allocation]()

func reading(util int, phase protocol.Phase) protocol.Report {
	return protocol.Report{
		Inventory:   protocol.Inventory{GPUs: []protocol.GPU{{UUID: "GPU-a", Utilisation: util, UsedMiB: 70000, PowerMW: 600000, Celsius: 64}, {UUID: "GPU-b", Utilisation: 1}}},
		Allocations: []protocol.AllocationReport{{Allocation: inUse, Phase: phase}},
	}
}

// Readings are stored for each minute, found by GPU and period, and overwritten a day later: the table does not grow.
// A node without an allocation in use leaves none.
func TestReadingsAreARingOfADay(t *testing.T) {
	t.Parallel()
	db, node := pgtest.Clone(t), ids.New[ids.Node]()
	now := time.Now().UTC().Truncate(time.Minute).Add(-10 * time.Minute)
	at := now
	store := &observed.Store{DB: db}
	live := &observed.Telemetry{DB: db, Clock: clock.At(func() time.Time { return at })}
	for i := range 13 { // two whole minutes, and the beginning of a third, which is not stored yet
		if err := live.Record(t.Context(), node, reading(i, protocol.Ready)); err != nil {
			t.Fatal(err)
		}
		at = at.Add(10 * time.Second)
	}
	all, err := store.Readings(t.Context(), node, []string{"GPU-a"}, now, now.Add(time.Hour))
	if err != nil || len(all["GPU-a"]) != 12 || len(all) != 1 {
		t.Fatalf("%d readings of %d GPUs, %v", len(all["GPU-a"]), len(all), err)
	}
	if got := all["GPU-a"][7]; got != (observed.Reading{At: now.Add(70 * time.Second), Utilisation: 7, UsedMiB: 70000, PowerMW: 600000, Celsius: 64}) {
		t.Errorf("%+v", got)
	}
	some, err := store.Readings(t.Context(), node, []string{"GPU-a"}, now.Add(30*time.Second), now.Add(50*time.Second))
	if err != nil || len(some["GPU-a"]) != 2 {
		t.Errorf("in 20 seconds: %d, %v", len(some["GPU-a"]), err)
	}
	// The same minutes of the next day overwrite these; a late server does not bring the older ones back.
	at = now.Add(24 * time.Hour)
	for range 3 {
		if err := live.Record(t.Context(), node, reading(99, protocol.Ready)); err != nil {
			t.Fatal(err)
		}
		at = at.Add(time.Minute)
	}
	var rows int
	if err := db.QueryRow(t.Context(), `SELECT count(*) FROM gpu_readings`).Scan(&rows); err != nil || rows != 3 {
		t.Errorf("%d rows, %v", rows, err)
	}
	idle := ids.New[ids.Node]()
	for range 3 {
		if err := live.Record(t.Context(), idle, reading(1, protocol.Gone)); err != nil {
			t.Fatal(err)
		}
		at = at.Add(time.Minute)
	}
	if none, err := store.Readings(t.Context(), idle, []string{"GPU-a"}, now, at); err != nil || len(none) != 0 {
		t.Errorf("an idle node left %v, %v", none, err)
	}
	if _, err := db.Exec(t.Context(), `UPDATE gpu_readings SET starts_at = now() - interval '25 hours'`); err != nil {
		t.Fatal(err)
	}
	if n, err := observed.ForgetReadings(t.Context(), db, 2); err != nil || n != 2 {
		t.Errorf("forgot %d, %v", n, err)
	}
}

// The first readings of an allocation are stored at once, also if another one uses the node, and the last ones when no
// allocation uses the node any more.
func TestReadingsAreStoredAtBothEnds(t *testing.T) {
	t.Parallel()
	db, node := pgtest.Clone(t), ids.New[ids.Node]()
	begin := time.Now().UTC().Truncate(time.Minute).Add(-10 * time.Minute)
	at := begin
	store := &observed.Store{DB: db}
	live := &observed.Telemetry{DB: db, Clock: clock.At(func() time.Time { return at })}
	a, b := ids.New[ids.Allocation](), ids.New[ids.Allocation]()
	for i, c := range []struct {
		used []ids.Allocation
		want int
	}{
		{[]ids.Allocation{a}, 1},
		{[]ids.Allocation{a}, 2},
		{[]ids.Allocation{a}, 3},
		{[]ids.Allocation{a}, 3},
		{[]ids.Allocation{a}, 3},
		{[]ids.Allocation{a, b}, 6},
		{[]ids.Allocation{a, b}, 7},
		{[]ids.Allocation{b, a}, 8},
		{[]ids.Allocation{b, a}, 8},
		{nil, 9},
		{nil, 9},
		{[]ids.Allocation{a}, 10},
	} {
		r := reading(1, protocol.Ready)
		r.Allocations = nil
		for _, one := range c.used {
			r.Allocations = append(r.Allocations, protocol.AllocationReport{Allocation: one, Phase: protocol.Ready})
		}
		if err := live.Record(t.Context(), node, r); err != nil {
			t.Fatal(err)
		}
		all, err := store.Readings(t.Context(), node, []string{"GPU-a"}, begin, begin.Add(time.Hour))
		if err != nil || len(all["GPU-a"]) != c.want {
			t.Errorf("report %d: %d readings, want %d, %v", i, len(all["GPU-a"]), c.want, err)
		}
		at = at.Add(10 * time.Second)
	}
}

// GPUs are idle in a period only if each was read in all of it. What a driver cannot read is not a reading.
func TestIdleNeedsEveryReading(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	store, begin := &observed.Store{DB: db}, time.Now().UTC().Truncate(time.Minute).Add(-100*time.Minute)
	minutes := func(n int) time.Time { return begin.Add(time.Duration(n) * time.Minute) }
	for _, c := range []struct {
		name   string
		change func(at time.Time, r *protocol.Report)
		gpus   []string
		want   bool
	}{
		{"idle", nil, []string{"GPU-a", "GPU-b"}, true},
		{"no GPU", nil, nil, false},
		{"another GPU", nil, []string{"GPU-a", "GPU-c"}, false},
		{"in use once", func(at time.Time, r *protocol.Report) {
			if at.Equal(minutes(40)) {
				r.Inventory.GPUs[1].Utilisation = 6
			}
		}, []string{"GPU-a", "GPU-b"}, false},
		{"in use, but not of this allocation", func(_ time.Time, r *protocol.Report) { r.Inventory.GPUs[1].Utilisation = 99 }, []string{"GPU-a"}, true},
		{"reports stop", func(at time.Time, r *protocol.Report) {
			if at.After(minutes(85)) {
				r.Allocations = nil
			}
		}, []string{"GPU-a"}, false},
		{"reports begin late", func(at time.Time, r *protocol.Report) {
			if at.Before(minutes(11)) {
				r.Allocations = nil
			}
		}, []string{"GPU-a"}, false},
		{"a gap across two periods", func(at time.Time, r *protocol.Report) {
			if at.After(minutes(60).Add(-20*time.Second)) && at.Before(minutes(60).Add(30*time.Second)) {
				r.Allocations = nil
			}
		}, []string{"GPU-a"}, false},
		{"not read", func(_ time.Time, r *protocol.Report) { r.Inventory.GPUs[0].Utilisation = protocol.UnreadUtilisation }, []string{"GPU-a"}, false},
		{"cut into slices", func(_ time.Time, r *protocol.Report) { r.Inventory.GPUs[0].MIG = "enabled" }, []string{"GPU-a"}, false},
	} {
		node, at := ids.New[ids.Node](), begin
		live := &observed.Telemetry{DB: db, Clock: clock.At(func() time.Time { return at })}
		for ; at.Before(minutes(95)); at = at.Add(10 * time.Second) {
			r := reading(5, protocol.Ready)
			if c.change != nil {
				c.change(at, &r)
			}
			if err := live.Record(t.Context(), node, r); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := store.Idle(t.Context(), node, c.gpus, minutes(10), minutes(90), 5, 30*time.Second); err != nil || got != c.want {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
}
