package event_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/event"
)

// A transaction that receives its numbers early and commits late is missed by a reader that uses numbers
// alone.
func TestINV27LateCommitIsNotSkipped(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	store := &event.Store{DB: db}
	slow, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Rollback(t.Context()) }()
	late, early := requested(1), requested(2)
	state(t, slow, late)
	state(t, db, early)

	held, err := store.After(t.Context(), tenantA, event.Position{}, 10)
	if err != nil || len(held) != 0 {
		t.Fatalf("showed %v during an open transaction, %v", held, err)
	}
	if err := slow.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all := after(t, store, tenantA, event.Position{}, 2); len(all) != 2 || all[0].ID != late.ID {
		t.Errorf("got %v", all)
	}
}

func TestINV27FiftySlowAndFastTransactions(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	store := &event.Store{DB: db}
	const writers, each = 50, 20
	var wg sync.WaitGroup
	stated := make([][]ids.Event, writers)
	gate := make(chan struct{}, 8) // connections that writers may use at once
	for w := range writers {
		wg.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			for i := range each {
				f := requested(int64(i))
				err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
					b := &pgx.Batch{}
					event.Queue(b, f)
					if err := tx.SendBatch(t.Context(), b).Close(); err != nil {
						return err
					}
					if w%2 == 0 { // stays open while others commit
						_, err := tx.Exec(t.Context(), "SELECT pg_sleep($1)", rand.Float64()/500)
						return err
					}
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
				stated[w] = append(stated[w], f.ID)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()

	seen := map[ids.Event]int{}
	var at event.Position
	read := func() int {
		events, err := store.After(t.Context(), tenantA, at, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			seen[e.ID]++
			at = e.Position
		}
		return len(events)
	}
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
			if read() == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	}
	eventually(t, "all events are visible", func() bool { read(); return len(seen) >= writers*each })
	for read() > 0 { // none may be read twice, either
	}
	for w := range stated {
		for _, id := range stated[w] {
			if seen[id] != 1 {
				t.Errorf("event %s of writer %d was read %d times", id, w, seen[id])
			}
		}
	}
	if len(seen) != writers*each {
		t.Errorf("saw %d facts of %d", len(seen), writers*each)
	}
}
