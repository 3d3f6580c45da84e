package check_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/product/storage/check"
)

// compare returns the faults by backend object, in the scope of an operator and with the rights of the API.
func (f *fixture) compare(q check.Question) map[uuid.UUID]string {
	f.t.Helper()
	s := check.Service{DB: pgtest.Scoped(f.t, f.db), Blobs: f.Blobs, Clock: f.Clock}
	if q.Limit == 0 {
		q.Limit = 50
	}
	faults := map[uuid.UUID]string{}
	for after, end := uuid.Nil, false; !end; {
		c, err := s.Compare(pg.WithScope(f.t.Context(), pg.Platform), after, q)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, d := range c.Differences {
			if (d.Fault == check.Unknown) != (d.Object == uuid.Nil && d.Files == 0) {
				f.t.Errorf("%+v", d)
			}
			faults[d.Key] = d.Fault
		}
		after, end = c.Next, c.Next == uuid.Nil
	}
	return faults
}

func same(t *testing.T, got, want map[uuid.UUID]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for key, fault := range want {
		if got[key] != fault {
			t.Errorf("%s is %q, want %q", key, got[key], fault)
		}
	}
}

// Compare finds each fault, with checksums also bytes of the right size, and neither deletes nor flags.
func TestCompareFindsFaultsAndChangesNothing(t *testing.T) {
	t.Parallel()
	f := setup(t)
	sound, short, changed, lost := f.put("sound"), f.put("short"), f.put("changed"), uuid.Must(uuid.NewV7())
	reserved, stray := f.put("reserved"), f.put("stray")
	f.file(sound, "sound", "sound")
	f.file(short, "longer", "longer")
	f.file(changed, "changed", "another")
	f.file(lost, "lost", "lost")
	f.exec(`INSERT INTO storage_reservations (object_key, org_id, project_id, bytes, expires_at) VALUES ($1, $1, $1, 0, now())`, reserved)
	now := time.Now().Unix()
	f.exec(`INSERT INTO usage_ticks (from_s, to_s) VALUES ($1, $2)`, now-300, now+300) // a time of which Slice would delete
	changes := pgtest.Diff(t, f.db)

	same(t, f.compare(check.Question{}), map[uuid.UUID]string{short: "damaged", lost: "missing", stray: check.Unknown})
	same(t, f.compare(check.Question{Checksums: true}), map[uuid.UUID]string{short: "damaged", changed: "damaged", lost: "missing", stray: check.Unknown})
	same(t, f.compare(check.Question{Limit: 1}), map[uuid.UUID]string{short: "damaged", lost: "missing", stray: check.Unknown})
	if !f.exists(stray) {
		t.Error("an object was deleted")
	}
	if diff := changes(); diff != "" {
		t.Errorf("rows changed: %s", diff)
	}
	f.Blobs = f.blobs.Store // of today
	same(t, f.compare(check.Question{}), map[uuid.UUID]string{short: "damaged", lost: "missing"})
}

// The comparison of a project has its files only.
func TestCompareOfAProject(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.put("stray")
	mine, other := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	f.file(mine, "mine", "mine")
	f.file(other, "other", "other")
	var project uuid.UUID
	if err := f.db.QueryRow(t.Context(), `SELECT project_id FROM storage_objects WHERE object_key = $1`, mine).Scan(&project); err != nil {
		t.Fatal(err)
	}
	same(t, f.compare(check.Question{Project: project}), map[uuid.UUID]string{mine: "missing"})
}
