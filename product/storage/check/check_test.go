package check_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/product/storage/blob"
	"github.com/gpuaas/gpuaas/product/storage/blob/files"
	"github.com/gpuaas/gpuaas/product/storage/check"
)

type fixture struct {
	*check.Service

	t     *testing.T
	db    *pgxpool.Pool
	blobs *old
}

// old is an object store whose objects are two days old.
type old struct{ blob.Store }

func (o *old) List(ctx context.Context, after uuid.UUID) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		for info, err := range o.Store.List(ctx, after) {
			info.Modified = time.Now().Add(-48 * time.Hour)
			if !yield(info, err) {
				return
			}
		}
	}
}

func setup(t *testing.T) *fixture {
	t.Helper()
	store, err := files.Open(t.TempDir(), clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	f := &fixture{t: t, db: pgtest.Clone(t), blobs: &old{store}}
	f.Service = &check.Service{DB: pgtest.As(t, f.db, "gpuaas_work"), Blobs: f.blobs, UploadLife: func() time.Duration { return time.Hour }}
	f.exec(`SELECT storage_known_since()`)
	f.exec(`UPDATE storage_history SET written_by = pg_current_xact_id(), since = now() - interval '3 hours'`)
	return f
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.db.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatal(err)
	}
}

// put stores a backend object with an id of now.
func (f *fixture) put(text string) uuid.UUID {
	f.t.Helper()
	id := uuid.Must(uuid.NewV7())
	if _, err := f.blobs.Put(f.t.Context(), id, strings.NewReader(text), int64(len(text))); err != nil {
		f.t.Fatal(err)
	}
	return id
}

// file inserts the row of a file.
func (f *fixture) file(key uuid.UUID, text, sum string) {
	f.t.Helper()
	f.exec(`INSERT INTO storage_objects (id, org_id, project_id, parent_id, name, folded, type, size_bytes, object_key, sha256)
		SELECT $1, p, p, p, $2, $2, 'file', $3, $1, sha256($4) FROM (SELECT gen_random_uuid() AS p) p`, key, key.String(), len(text), []byte(sum))
}

func (f *fixture) pass() check.State {
	f.t.Helper()
	if err := f.Slice(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	st, err := f.State(f.t.Context())
	if err != nil || st.FinishedAt == nil {
		f.t.Fatal(st, err)
	}
	return st
}

func (f *fixture) exists(key uuid.UUID) bool {
	_, err := f.blobs.Stat(f.t.Context(), key)
	return err == nil
}

// A backend object without a file is deleted if the database has run since before it. After a restore, also of a database that is
// a second older, it stays until an operator confirms.
func TestObjectsWithoutAFile(t *testing.T) {
	t.Parallel()
	for name, restore := range map[string]string{
		"of files or by failover": `UPDATE storage_history SET server_started = server_started - interval '1 second', written_by = pg_current_xact_id()`,
		"of a dump":               `UPDATE storage_history SET written_by = '1'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			used, reserved, stray := f.put("used"), f.put("reserved"), f.put("stray")
			f.file(used, "used", "used")
			f.exec(`INSERT INTO storage_reservations (object_key, org_id, project_id, bytes, expires_at) VALUES ($1, $1, $1, 0, now())`, reserved)
			forgotten, err := f.blobs.Begin(t.Context(), uuid.Must(uuid.NewV7()))
			if err != nil {
				t.Fatal(err)
			}
			f.Clock = clock.At(func() time.Time { return time.Now().Add(48 * time.Hour) })
			// The time since which the history is known can be neither earlier nor later than the second of the restore.
			f.exec(restore)
			for range 2 {
				if st := f.passWithUploads(); st.Unknown != 2 || st.Collected != 0 || !f.exists(stray) || time.Since(st.HistorySince) > time.Minute {
					t.Errorf("after a restore: %+v", st)
				}
			}
			if _, err := f.blobs.Parts(t.Context(), forgotten); err != nil {
				t.Errorf("an upload after a restore: %v", err)
			}
			f.exec(`UPDATE storage_checks SET confirmed_until = now() + interval '1 minute'`)
			if st := f.passWithUploads(); st.Unknown != 0 || st.Collected != 1 || f.exists(stray) {
				t.Errorf("confirmed: %+v", st)
			}
			if _, err := f.blobs.Parts(t.Context(), forgotten); !errors.Is(err, blob.ErrNotFound) {
				t.Errorf("an upload after the confirmation: %v", err)
			}
			if !f.exists(used) || !f.exists(reserved) {
				t.Error("an object with a file or a reservation was deleted")
			}
		})
	}
}

func (f *fixture) passWithUploads() check.State {
	f.t.Helper()
	if err := f.AbortForgotten(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	return f.pass()
}

func TestAnObjectOfACoveredTimeIsCollected(t *testing.T) {
	t.Parallel()
	f := setup(t)
	stray := f.put("stray")
	if st := f.pass(); st.Collected != 1 || f.exists(stray) {
		t.Errorf("%+v", st)
	}
	young := f.put("young")
	f.Blobs = f.blobs.Store
	if st := f.pass(); st.Collected != 1 || !f.exists(young) {
		t.Errorf("an object of today: %+v", st)
	}
}

// Files whose bytes are lost or changed are flagged, and stay.
func TestFilesWithoutTheirBytes(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.exec(`UPDATE storage_history SET written_by = pg_current_xact_id(), since = now()`) // it leaves what no file has
	sound, short, changed, lost := f.put("sound"), f.put("short"), f.put("changed"), uuid.Must(uuid.NewV7())
	f.file(sound, "sound", "sound")
	f.file(short, "longer", "longer")
	f.file(lost, "lost", "lost")
	if st := f.pass(); st.Missing != 1 || st.Damaged != 1 {
		t.Errorf("%+v", st)
	}
	f.exec(`DELETE FROM storage_objects WHERE object_key IN ($1, $2)`, sound, short)
	f.file(changed, "changed", "another")
	f.exec(`UPDATE storage_objects SET sha256 = NULL WHERE object_key = $1`, lost)
	if st := f.pass(); st.Missing != 1 || st.Damaged != 1 {
		t.Errorf("after the deletion of the others, with a changed file: %+v", st)
	}
	if _, err := f.blobs.Put(t.Context(), lost, strings.NewReader("lost"), 4); err != nil {
		t.Fatal(err)
	}
	if st := f.pass(); st.Missing != 0 || st.Damaged != 1 {
		t.Errorf("restored: %+v", st)
	}
	var files int
	if err := f.db.QueryRow(t.Context(), `SELECT count(*) FROM storage_objects`).Scan(&files); err != nil || files != 2 {
		t.Errorf("%d files, %v", files, err)
	}
}

// Backend objects that another package has stored stay, and are no difference.
func TestObjectsOfOtherPackagesStay(t *testing.T) {
	t.Parallel()
	f := setup(t)
	other, stray := f.put("other"), f.put("stray")
	f.Others = func(_ context.Context, keys []uuid.UUID) ([]uuid.UUID, error) {
		return slices.DeleteFunc(slices.Clone(keys), func(key uuid.UUID) bool { return key != other }), nil
	}
	c, err := f.Compare(t.Context(), uuid.Nil, check.Question{Limit: 10})
	if err != nil || len(c.Differences) != 1 || c.Differences[0].Key != stray {
		t.Errorf("%+v, %v", c, err)
	}
	f.exec(`UPDATE storage_checks SET confirmed_until = now() + interval '1 minute'`)
	if st := f.pass(); st.Unknown != 0 || st.Collected != 1 || f.exists(stray) || !f.exists(other) {
		t.Errorf("%+v", st)
	}
}
