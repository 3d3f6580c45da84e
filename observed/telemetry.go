package observed

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/protocol"
)

// Telemetry stores the readings of GPUs that allocations use: utilisation, memory, power, temperature. It
// collects the readings of a minute in memory and writes one row for each node and minute, the first readings of an
// allocation at once. The rows of a node are a ring of a day, so that the table does not grow with time. A crash loses
// a minute.
type Telemetry struct {
	DB    pg.Pool
	Clock clock.Clock

	mu      sync.Mutex
	minutes map[ids.Node]minute
}

// minute contains the readings of one node since the start of a minute that are not stored yet.
type minute struct {
	starts  time.Time
	samples []sample
	counts  map[ids.Allocation]int // readings of each allocation that uses the node, up to eager
}

// sample is one report: for each GPU utilisation, used MiB, milliwatts and degrees.
type sample struct {
	Second int                 `json:"s"`
	GPUs   map[string][4]int64 `json:"g"`
}

// Reading is the state of one GPU at one time.
type Reading struct {
	At          time.Time
	Utilisation int
	UsedMiB     int64
	PowerMW     int64
	Celsius     int
}

// mostSamples bounds a minute. The shortest report interval gives 30 samples.
const mostSamples = 32

// eager is the number of readings of an allocation that are stored at once, so that it soon has a chart. The first
// one is not in it: the allocation is recorded as active after the report that it is ready.
const eager = 3

// keepFor is the time for which readings are stored.
const keepFor = 24 * time.Hour

// Record adds the readings of a report of a node with allocations. The readings of an idle node are of no
// tenant and are dropped. The receiver may be nil.
func (t *Telemetry) Record(ctx context.Context, node ids.Node, r protocol.Report) error {
	if t == nil {
		return nil
	}
	ended := t.add(node, r, t.Clock.Now().UTC())
	if len(ended.samples) == 0 {
		return nil
	}
	text, err := json.Marshal(ended.samples)
	if err != nil {
		return fmt.Errorf("encoding the readings of %s: %w", node, err)
	}
	slot := ended.starts.Hour()*60 + ended.starts.Minute()
	if _, err := t.DB.Exec(ctx, putReadings, node, slot, ended.starts, text); err != nil {
		return fmt.Errorf("storing the readings of %s: %w", node, err)
	}
	return nil
}

// add returns the readings to store: those of a minute that ended, the first ones of an allocation, and the last ones
// of a node that no allocation uses any more.
func (t *Telemetry) add(node ids.Node, r protocol.Report, now time.Time) (ended minute) {
	var used []ids.Allocation
	for _, a := range r.Allocations {
		if a.Phase == protocol.Ready {
			used = append(used, a.Allocation)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.minutes[node]
	if len(used) == 0 {
		delete(t.minutes, node)
		return at
	}
	if t.minutes == nil {
		t.minutes = map[ids.Node]minute{}
	}
	fresh := at.count(used)
	if starts := now.Truncate(time.Minute); !at.starts.Equal(starts) {
		ended, at = at, minute{starts: starts, counts: at.counts}
	}
	if len(at.samples) < mostSamples {
		at.samples = append(at.samples, sampleOf(r, now))
	}
	if fresh && len(ended.samples) == 0 {
		ended, at.samples = at, nil
	}
	t.minutes[node] = at
	return ended
}

// count adds a reading to each allocation, and reports whether one of them is among its first.
func (m *minute) count(used []ids.Allocation) (fresh bool) {
	for _, a := range used {
		fresh = fresh || m.counts[a] < eager
	}
	if !fresh && len(used) == len(m.counts) {
		return false
	}
	next := make(map[ids.Allocation]int, len(used))
	for _, a := range used {
		next[a] = min(m.counts[a]+1, eager)
	}
	m.counts = next
	return fresh
}

func sampleOf(r protocol.Report, now time.Time) sample {
	s := sample{Second: now.Second(), GPUs: map[string][4]int64{}}
	for _, g := range r.Inventory.GPUs {
		if g.Utilisation < 0 || g.Utilisation > 100 || g.MIG == "enabled" {
			continue // not read: a driver reports no utilisation of a GPU that is cut into slices
		}
		s.GPUs[g.UUID] = [4]int64{int64(g.Utilisation), g.UsedMiB, g.PowerMW, int64(g.Celsius)}
	}
	return s
}

// Readings returns the stored readings of GPUs of a node in a period, by the UUID of the GPU and sorted by time.
func (s *Store) Readings(ctx context.Context, node ids.Node, gpus []string, from, to time.Time) (map[string][]Reading, error) {
	rows, err := s.DB.Query(ctx, selectReadings, node, from, to, keepFor)
	if err != nil {
		return nil, fmt.Errorf("reading the readings of %s: %w", node, err)
	}
	all := map[string][]Reading{}
	var starts time.Time
	var text []byte
	if _, err := pgx.ForEachRow(rows, []any{&starts, &text}, func() error {
		var samples []sample
		if err := json.Unmarshal(text, &samples); err != nil {
			return err
		}
		for _, one := range samples {
			one.appendTo(all, gpus, starts, from, to)
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("reading the readings of %s: %w", node, err)
	}
	for _, list := range all {
		slices.SortFunc(list, func(a, b Reading) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	}
	return all, nil
}

// idleChunk bounds what one statement reads: most allocations are in use in the last of these periods.
const idleChunk = 30 * time.Minute

// Idle reports whether GPUs of a node were idle in a whole period: no reading is above the utilisation, and between the
// readings of a GPU there is no gap. A period without readings is no evidence of anything.
func (s *Store) Idle(ctx context.Context, node ids.Node, gpus []string, from, to time.Time, utilisation int, gap time.Duration) (bool, error) {
	for end := to; end.After(from); end = end.Add(-idleChunk) {
		start := end.Add(-idleChunk - gap) // the periods overlap, so that a gap at the end of one is found
		if start.Before(from) {
			start = from
		}
		readings, err := s.Readings(ctx, node, gpus, start, end)
		if err != nil {
			return false, err
		}
		for _, uuid := range gpus {
			if !idle(readings[uuid], start, end, utilisation, gap) {
				return false, nil
			}
		}
	}
	return len(gpus) > 0, nil
}

func idle(list []Reading, from, to time.Time, utilisation int, gap time.Duration) bool {
	last := from
	for _, one := range append(list, Reading{At: to}) {
		if one.Utilisation > utilisation || one.At.Sub(last) > gap {
			return false
		}
		last = one.At
	}
	return true
}

// appendTo adds the readings of the named GPUs, if the sample is in the period.
func (one sample) appendTo(all map[string][]Reading, gpus []string, starts, from, to time.Time) {
	at := starts.Add(time.Duration(one.Second) * time.Second).UTC()
	if at.Before(from) || !at.Before(to) {
		return
	}
	for _, uuid := range gpus {
		if v, read := one.GPUs[uuid]; read {
			all[uuid] = append(all[uuid], Reading{At: at, Utilisation: int(v[0]), UsedMiB: v[1], PowerMW: v[2], Celsius: int(v[3])})
		}
	}
}

// ForgetReadings deletes some rows of nodes that no longer report, and returns how many.
func ForgetReadings(ctx context.Context, q pg.Queryer, most int) (int64, error) {
	tag, err := q.Exec(ctx, deleteReadings, keepFor, most)
	if err != nil {
		return 0, fmt.Errorf("deleting old readings: %w", err)
	}
	return tag.RowsAffected(), nil
}

const (
	// The slot is the minute of the day. A node whose reports move to another server within a minute has two parts
	// of it.
	putReadings = `
		INSERT INTO gpu_readings AS g (node_id, slot, starts_at, readings) VALUES ($1, $2, $3, $4)
		ON CONFLICT (node_id, slot) DO UPDATE SET starts_at = excluded.starts_at,
			readings = CASE WHEN g.starts_at = excluded.starts_at THEN g.readings || excluded.readings ELSE excluded.readings END
		WHERE g.starts_at <= excluded.starts_at`
	selectReadings = `
		SELECT starts_at, readings FROM gpu_readings
		WHERE node_id = $1 AND starts_at > $2::timestamptz - interval '1 minute' AND starts_at < $3 AND starts_at > now() - $4::interval ORDER BY starts_at`
	deleteReadings = `
		DELETE FROM gpu_readings WHERE (node_id, slot) IN (
			SELECT node_id, slot FROM gpu_readings WHERE starts_at < now() - $1::interval LIMIT $2)`
)
