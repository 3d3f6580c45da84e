package check_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/e2e/check"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/protocol"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// agents creates the folder of a fleet with one simulated node. Its journal contains one record
// that the agent's own code writes.
func agents(t *testing.T, e journal.Entry) (dir string) {
	t.Helper()

	dir = t.TempDir()
	state, node := filepath.Join(dir, "gpu-t4-01"), ids.New[ids.Node]()
	must(t, os.Mkdir(state, 0o700))
	_, err := sim.Open(state, node, "t4-4", "gpu-t4-01")
	must(t, err)
	j, err := journal.Open(journal.Options{Dir: filepath.Join(state, "journal"), Node: node, Now: noon})
	must(t, err)
	e.Envelope.Allocation = ids.New[ids.Allocation]()
	must(t, j.Put(journal.Record{Allocation: e.Envelope.Allocation, Tasks: []journal.Entry{e}}))
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()

	if err != nil {
		t.Fatal(err)
	}
}

func TestHostsReadsWhatAnAgentWrites(t *testing.T) {
	t.Parallel()

	release := protocol.Envelope{Type: protocol.RevokeUser}
	for rule, c := range map[string]struct {
		entry journal.Entry
		found int
	}{
		"a release that was acknowledged":   {journal.Entry{Envelope: release, Result: &protocol.Result{Outcome: protocol.Succeeded}, Acked: true}, 0},
		"a release without acknowledgement": {journal.Entry{Envelope: release, Result: &protocol.Result{Outcome: protocol.Succeeded}}, 1},
		"a release that has not ended":      {journal.Entry{Envelope: release}, 1},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()

			found, err := check.Nodes(agents(t, c.entry), nil)
			if err != nil || len(found) != c.found {
				t.Errorf("%v, %v; expected %d", found, err, c.found)
			}
		})
	}
}

// TestUnjournalledReadsWhatAnAgentWrites checks that an account without a task in the journal is a
// finding, and that an account with one is not.
func TestUnjournalledReadsWhatAnAgentWrites(t *testing.T) {
	t.Parallel()

	dir := agents(t, journal.Entry{Envelope: protocol.Envelope{Type: protocol.ProvisionUser, Params: []byte(`{"user":"u1"}`)}})
	for login, want := range map[string]int{"u1": 0, "u2": 1} {
		must(t, sim.Edit(sim.Path(filepath.Join(dir, "gpu-t4-01")), func(h *sim.Host) error {
			h.Accounts = map[string]*sim.Account{login: {UID: 200001}}
			return nil
		}))
		if found, err := check.Unjournalled(dir); err != nil || len(found) != want {
			t.Errorf("%s: %v, %v", login, found, err)
		}
	}
}

// TestWatcherReadsWhatHasChanged checks that a Watcher finds what an unwatched read finds after each change, also after it has
// read the same files many times.
func TestWatcherReadsWhatHasChanged(t *testing.T) {
	t.Parallel()

	dir := agents(t, journal.Entry{Envelope: protocol.Envelope{Type: protocol.ProvisionUser, Params: []byte(`{"user":"u1"}`)}})
	w := check.Watcher{Agents: dir}
	for i, login := range []string{"u1", "u2", "u1", "u2"} {
		must(t, sim.Edit(sim.Path(filepath.Join(dir, "gpu-t4-01")), func(h *sim.Host) error {
			h.Accounts = map[string]*sim.Account{login: {UID: 200001}}
			return nil
		}))
		for range 2 {
			if found, err := w.Unjournalled(); err != nil || len(found) != i%2 {
				t.Errorf("%s: %v, %v", login, found, err)
			}
			time.Sleep(100 * time.Millisecond) // the files are old now
		}
	}
	must(t, os.RemoveAll(filepath.Join(dir, "gpu-t4-01", "journal")))
	if found, err := w.Unjournalled(); err != nil || len(found) != 1 {
		t.Errorf("without a journal: %v, %v", found, err)
	}
}

// TestBlindChecksFailAtOnce checks that a check that cannot read its data returns ErrBlind without
// waiting for a time limit.
func TestBlindChecksFailAtOnce(t *testing.T) {
	t.Parallel()

	cut := agents(t, journal.Entry{Envelope: protocol.Envelope{Type: protocol.RevokeUser}})
	records, err := filepath.Glob(filepath.Join(cut, "*", "journal", "allocation-*"))
	if err != nil || len(records) != 1 {
		t.Fatalf("%v, %v", records, err)
	}
	must(t, os.Truncate(records[0], 10))
	db, err := pgx.Connect(t.Context(), pgtest.URL(t))
	must(t, err)
	defer db.Close(context.WithoutCancel(t.Context()))
	_, err = db.Exec(t.Context(), `ALTER TABLE slot_claims RENAME TO claims_of_slots`)
	must(t, err)

	for rule, judge := range map[string]func() ([]check.Finding, error){
		"a journal that was cut": func() ([]check.Finding, error) { return check.Nodes(cut, nil) },
		"a table that is gone":   func() ([]check.Finding, error) { return check.Database(t.Context(), db, check.Expect{}) },
	} {
		checks := 0
		_, err := check.Await(t.Context(), time.Hour, func() ([]check.Finding, error) { checks++; return judge() })
		if !errors.Is(err, check.ErrBlind) || checks != 1 {
			t.Errorf("%s: checked %d times: %v", rule, checks, err)
		}
	}
}

// TestAwaitWaitsForWhatMayHeal checks that Await repeats the check after any other error and after
// a finding.
func TestAwaitWaitsForWhatMayHeal(t *testing.T) {
	t.Parallel()

	checks := 0
	found, err := check.Await(t.Context(), time.Millisecond, func() ([]check.Finding, error) {
		checks++
		switch checks {
		case 1:
			return nil, errors.New("the database is starting")
		case 2:
			return []check.Finding{{Promise: "INV-19 no task waits", What: "one does"}}, nil
		}
		return nil, nil
	})
	if err != nil || len(found) > 0 || checks != 3 {
		t.Errorf("checked %d times: %v, %v", checks, found, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	found, err = check.Await(ctx, time.Hour, func() ([]check.Finding, error) {
		return []check.Finding{{Promise: "INV-19 no task waits", What: "one does"}}, nil
	})
	if err != nil || len(found) != 1 || !strings.Contains(found[0].String(), "INV-19") {
		t.Errorf("%v, %v", found, err)
	}
}

// TestRulesReadTheSchema runs every rule against the current schema, because a rule that no longer
// parses would check nothing.
func TestRulesReadTheSchema(t *testing.T) {
	t.Parallel()

	db, err := pgx.Connect(t.Context(), pgtest.URL(t))
	must(t, err)
	defer db.Close(context.WithoutCancel(t.Context()))
	found, err := check.Database(t.Context(), db, check.Expect{Rested: true})
	if err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}
