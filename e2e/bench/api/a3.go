package api

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// repeats is the number of repeated creates, and of reads, in each run of A3. together is the
// number of requests with one key at the same time.
const (
	repeats  = 10_000
	together = 64
)

// Replays compares the repetition of POST /api/v1/allocations with GET by id, and counts the rows
// that concurrent repetitions add.
func Replays(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	n := l.Scaled(repeats, 10*lab.Connections)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := Stall(ctx, l, "a3")
	if err != nil {
		return nil, err
	}
	defer func() { cancel(); s.Stop() }()
	// Each tenant creates one allocation and repeats that request.
	again := lab.LoadParameters{Address: s.address, Count: lab.Stalls.Tenants, Connections: lab.Connections, Tenants: lab.Stalls.Tenants, Keys: "again", Distinct: lab.Stalls.Tenants}
	if _, err := sendLoad(ctx, l, again); err != nil {
		return nil, err
	}
	paths, err := lab.One[[]string](ctx, s.Url, `SELECT array_agg('/api/v1/allocations/' || id ORDER BY org_id) FROM allocations`)
	if err != nil {
		return nil, err
	}
	before, err := s.left(ctx)
	if err != nil {
		return nil, err
	}
	again.Count = n
	read := lab.LoadParameters{Address: s.address, Count: n, Connections: lab.Connections, Tenants: lab.Stalls.Tenants, Paths: paths}
	p, err := l.Alternate(ctx, lab.LeastPairs, func(context.Context) error { return nil },
		func(ctx context.Context) (time.Duration, error) { return repeatLoad(ctx, l, again) },
		func(ctx context.Context) (time.Duration, error) { return sendLoad(ctx, l, read) })
	if err != nil {
		return nil, err
	}
	after, err := s.left(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(before, after) {
		return nil, fmt.Errorf("repetitions left rows: %v became %v in %v", before, after, grown)
	}
	effects, err := s.effects(ctx)
	if err != nil {
		return nil, err
	}
	r := lab.Throughput(p, n, "A3", "idempotent replay of POST allocation / GET allocation by id").AtLeast(0.8)
	r.Note = fmt.Sprintf("%d requests a run over %d connections", n, lab.Connections)
	return []lab.Row{r, {
		ID: "A3-effects", Path: fmt.Sprintf("second effects of one key under %d parallel creates and %d parallel replays", together, together),
		Ours: effects, Ratio: effects, Min: effects, Max: effects, Goal: "0", Met: new(effects == 0),
	}}, nil
}

// repeatLoad sends requests that all have been answered before.
func repeatLoad(ctx context.Context, l *lab.Lab, o lab.LoadParameters) (time.Duration, error) {
	done, err := tryLoad(ctx, l, o)
	if err == nil && done.Replayed != o.Count {
		err = fmt.Errorf("%d of %d repetitions were replayed; a rejection: %s", done.Replayed, o.Count, done.Such)
	}
	return done.Took, err
}

// effects returns the number of rows that many requests of one key add beyond those of a single
// request. The server rejects the requests that arrive during the first one, and replays its
// response to later ones.
func (s *apiServer) effects(ctx context.Context) (float64, error) {
	before, err := s.left(ctx)
	if err != nil {
		return 0, err
	}
	o := lab.LoadParameters{Address: s.address, Count: together, Connections: together, Tenants: 1, Keys: "together", Distinct: 1}
	if _, err := tryLoad(ctx, s.lab, o); err != nil {
		return 0, err
	}
	if _, err := repeatLoad(ctx, s.lab, o); err != nil {
		return 0, err
	}
	after, err := s.left(ctx)
	if err != nil {
		return 0, err
	}
	more := 0
	for i := range after {
		more += max(after[i]-before[i]-1, 0)
	}
	return float64(more), nil
}

// left counts the rows of creates in each table.
func (s *apiServer) left(ctx context.Context) (counts []int, err error) {
	for _, table := range append(slices.Clone(grown), claimedSlots) {
		count, err := lab.One[int](ctx, s.Url, `SELECT count(*) FROM `+table)
		if err != nil {
			return nil, err
		}
		counts = append(counts, count)
	}
	return counts, nil
}
