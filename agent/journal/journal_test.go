package journal_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func record(fence int64) journal.Record {
	id := ids.New[ids.Allocation]()
	return journal.Record{Allocation: id, Tasks: []journal.Entry{{
		Envelope: protocol.Envelope{Allocation: id, Fence: fence, ExpiresAt: noon, Params: []byte(`{}`)}, Begun: []string{"account"},
	}}}
}

func TestJournalRemembersAcrossOpenings(t *testing.T) {
	t.Parallel()

	dir, node := t.TempDir(), ids.New[ids.Node]()
	j, err := journal.Open(journal.Options{Dir: dir, Node: node, Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	want := record(7)
	if err := j.Put(want); err != nil {
		t.Fatal(err)
	}
	again, err := journal.Open(journal.Options{Dir: dir, Node: node, Expect: j.ID(), Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	want.Write = 1
	if got, ok := again.Get(want.Allocation); !ok || cmp.Diff(want, got) != "" {
		t.Errorf("%v", cmp.Diff(want, got))
	}
	if j.Boot() != noon.Unix()+1 || again.Boot() != noon.Unix()+2 {
		t.Errorf("boots %d and %d", j.Boot(), again.Boot())
	}
}

// INV-77: a boot number from a clock that was ahead, which the control plane rejects, is corrected by a
// new enrolment, and by nothing else.
func TestEnrolmentCorrectsTheBootNumber(t *testing.T) {
	t.Parallel()
	dir, node := t.TempDir(), ids.New[ids.Node]()
	boot := func(now time.Time, enrolled bool) int64 {
		t.Helper()
		j, err := journal.Open(journal.Options{Dir: dir, Node: node, Now: now, Anchor: filepath.Join(dir, "anchor"), Enrolled: enrolled})
		if err != nil {
			t.Fatal(err)
		}
		return j.Boot()
	}
	ahead := boot(noon.AddDate(10, 0, 0), false)
	if again := boot(noon, false); again != ahead+1 {
		t.Errorf("boot %d after %d", again, ahead)
	}
	for range 2 {
		if again := boot(noon, true); again != noon.Unix() {
			t.Errorf("boot %d after an enrolment at %d", again, noon.Unix())
		}
	}
}

func TestLostJournalIsRejected(t *testing.T) {
	t.Parallel()

	node := ids.New[ids.Node]()
	fresh := func() (string, *journal.Journal) {
		dir := t.TempDir()
		j, err := journal.Open(journal.Options{Dir: dir, Node: node, Now: noon})
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
			_, err := journal.Open(journal.Options{Dir: dir, Node: node, Now: noon})
			must(err)
		},
		"a record cut": func(dir string) { must(os.Truncate(onlyFile(t, dir), 10)) },
		"renamed": func(dir string) {
			must(os.Rename(onlyFile(t, dir), filepath.Join(dir, "allocation-"+uuid.NewString()+".json")))
		},
		"a record removed": func(dir string) { must(os.Remove(onlyFile(t, dir))) },
		"a record altered": func(dir string) {
			text, err := os.ReadFile(onlyFile(t, dir))
			must(err)
			must(os.WriteFile(onlyFile(t, dir), bytes.Replace(text, []byte(`"fence":1`), []byte(`"fence":0`), 1), 0o600))
		},
		"given up": func(dir string) {
			j, err := journal.Open(journal.Options{Dir: dir, Node: node, Now: noon})
			must(err)
			must(j.MarkLost("a later boot was reported"))
		},
		"a record's NUL": func(dir string) { must(os.WriteFile(onlyFile(t, dir), make([]byte, 100), 0o600)) },
	} {
		dir, j := fresh()
		harm(dir)
		if _, err := journal.Open(journal.Options{Dir: dir, Node: node, Expect: j.ID(), Now: noon}); !errors.Is(err, journal.ErrLost) {
			t.Errorf("%s: %v", rule, err)
		}
	}
	dir, j := fresh()
	if _, err := journal.Open(journal.Options{Dir: dir, Node: ids.New[ids.Node](), Expect: j.ID(), Now: noon}); err == nil {
		t.Error("another node took the journal")
	}
}

func onlyFile(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "allocation-*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	return files[0]
}

func TestRemovalLeavesWhatMayBeRequested(t *testing.T) {
	t.Parallel()

	j, err := journal.Open(journal.Options{Dir: t.TempDir(), Node: ids.New[ids.Node](), Now: noon})
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
	if err := j.Delete(noon, isOver); err != nil || len(j.All()) != 2 {
		t.Errorf("forgot a task that was fresh: %v", err)
	}
	if err := j.Delete(noon.Add(time.Second), isOver); err != nil || len(j.All()) != 1 {
		t.Errorf("%d records, %v", len(j.All()), err)
	}
}

// INV-43: a directory that was restored from a copy is recognised by the record in memory while the node runs; after a
// start of the node it reports the time of its last record.
func TestINV43AnOlderCopyIsRecognised(t *testing.T) {
	t.Parallel()

	dir, copied, anchor, node := filepath.Join(t.TempDir(), "journal"), t.TempDir(), filepath.Join(t.TempDir(), "anchor"), ids.New[ids.Node]()
	open := func() (*journal.Journal, error) {
		return journal.Open(journal.Options{Dir: dir, Node: node, Anchor: anchor, Now: noon})
	}
	j, err := open()
	if err != nil || !j.Since().IsZero() {
		t.Fatal(err, "a new journal has nothing older than itself", j.Since())
	}
	if err := j.Put(record(1)); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(copied, "a"), os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := j.Put(record(2)); err != nil {
		t.Fatal(err)
	}
	if j, err = open(); err != nil || !j.Since().IsZero() {
		t.Fatalf("a restart of the process: %v, since %v", err, j.Since())
	}

	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(copied, "a"))); err != nil {
		t.Fatal(err)
	}
	if _, err := open(); !errors.Is(err, journal.ErrLost) {
		t.Errorf("an older copy: %v", err)
	}
	if err := os.Remove(anchor); err != nil { // the node starts
		t.Fatal(err)
	}
	if j, err = open(); err != nil || !j.Since().Equal(noon) {
		t.Errorf("after a start: %v, %v", err, j.Since())
	}
}

// INV-43: a task of a deleted record is older than what the journal accepts, also after a restart. The clock may have
// been ahead when the record was deleted.
func TestINV43ADeletedRecordRejectsItsTasks(t *testing.T) {
	t.Parallel()

	dir, node := t.TempDir(), ids.New[ids.Node]()
	open := func() *journal.Journal {
		j, err := journal.Open(journal.Options{Dir: dir, Node: node, Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	j := open()
	old, last := record(1), record(2)
	last.Tasks[0].Envelope.NotBefore = noon.Add(-time.Hour)
	for _, r := range []journal.Record{last, old} {
		if err := j.Put(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Delete(noon.Add(time.Hour), func(journal.Record) bool { return true }); err != nil {
		t.Fatal(err)
	}
	next := last.Tasks[0].Envelope
	next.NotBefore = next.NotBefore.Add(time.Second)
	for range 2 {
		if since := j.Since(); !last.Tasks[0].Envelope.SignedBefore(since) || !old.Tasks[0].Envelope.SignedBefore(since) || next.SignedBefore(since) {
			t.Errorf("since %s", since)
		}
		j = open()
	}
}

// Read returns the records of an open journal, and rejects what Open rejects.
func TestReadWithoutOpening(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	j, err := journal.Open(journal.Options{Dir: dir, Node: ids.New[ids.Node](), Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	want := record(7)
	if err := j.Put(want); err != nil {
		t.Fatal(err)
	}
	want.Write = 1
	if got, err := journal.Read(dir); err != nil || cmp.Diff([]journal.Record{want}, got) != "" {
		t.Errorf("%v: %v", err, cmp.Diff([]journal.Record{want}, got))
	}
	if err := os.Truncate(onlyFile(t, dir), 10); err != nil {
		t.Fatal(err)
	}
	if got, err := journal.Read(dir); !errors.Is(err, journal.ErrLost) {
		t.Errorf("of a record that was cut: %v, %v", got, err)
	}
}
