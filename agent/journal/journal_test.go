package journal_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/agent/wire"
	"github.com/gpuaas/gpuaas/internal/ids"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func record(fence int64) journal.Record {
	id := ids.New[ids.Allocation]()
	return journal.Record{Allocation: id, Tasks: []journal.Entry{{
		Envelope: wire.Envelope{Allocation: id, Fence: fence, ExpiresAt: noon, Params: []byte(`{}`)}, Begun: []string{"account"},
	}}}
}

func TestJournalRemembersAcrossOpenings(t *testing.T) {
	t.Parallel()

	dir, node := t.TempDir(), ids.New[ids.Node]()
	j, err := journal.Open(dir, node, uuid.Nil, noon)
	if err != nil {
		t.Fatal(err)
	}
	want := record(7)
	if err := j.Put(want); err != nil {
		t.Fatal(err)
	}
	again, err := journal.Open(dir, node, j.ID(), noon)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := again.Get(want.Allocation); !ok || cmp.Diff(want, got) != "" {
		t.Errorf("%v", cmp.Diff(want, got))
	}
	if j.Boot() != noon.Unix()+1 || again.Boot() != noon.Unix()+2 {
		t.Errorf("boots %d and %d", j.Boot(), again.Boot())
	}
}

func TestLostJournalIsRefused(t *testing.T) {
	t.Parallel()

	node := ids.New[ids.Node]()
	fresh := func() (string, *journal.Journal) {
		dir := t.TempDir()
		j, err := journal.Open(dir, node, uuid.Nil, noon)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Put(record(1)); err != nil {
			t.Fatal(err)
		}
		return dir, j
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for rule, harm := range map[string]func(dir string){
		"removed":  func(dir string) { must(os.RemoveAll(dir)) },
		"head cut": func(dir string) { must(os.Truncate(filepath.Join(dir, "journal.json"), 3)) },
		"replaced": func(dir string) {
			must(os.RemoveAll(dir))
			_, err := journal.Open(dir, node, uuid.Nil, noon)
			must(err)
		},
		"a record cut": func(dir string) { must(os.Truncate(one(t, dir), 10)) },
		"renamed": func(dir string) {
			must(os.Rename(one(t, dir), filepath.Join(dir, "allocation-"+uuid.NewString()+".json")))
		},
		"a record's NUL": func(dir string) { must(os.WriteFile(one(t, dir), make([]byte, 100), 0o600)) },
	} {
		dir, j := fresh()
		harm(dir)
		if _, err := journal.Open(dir, node, j.ID(), noon); !errors.Is(err, journal.ErrLost) {
			t.Errorf("%s: %v", rule, err)
		}
	}
	dir, j := fresh()
	if _, err := journal.Open(dir, ids.New[ids.Node](), j.ID(), noon); err == nil {
		t.Error("another node took the journal")
	}
}

func one(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "allocation-*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	return files[0]
}

func TestForgetKeepsWhatMayStillBeAsked(t *testing.T) {
	t.Parallel()

	j, err := journal.Open(t.TempDir(), ids.New[ids.Node](), uuid.Nil, noon)
	if err != nil {
		t.Fatal(err)
	}
	over, live := record(1), record(2)
	for _, r := range []journal.Record{over, live} {
		if err := j.Put(r); err != nil {
			t.Fatal(err)
		}
	}
	isOver := func(r journal.Record) bool { return r.Last().Envelope.Fence == 1 }
	if err := j.Forget(noon, isOver); err != nil || len(j.All()) != 2 {
		t.Errorf("forgot a task that was fresh: %v", err)
	}
	if err := j.Forget(noon.Add(time.Second), isOver); err != nil || len(j.All()) != 1 {
		t.Errorf("%d records, %v", len(j.All()), err)
	}
}
