package storage_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/product/storage"
)

// After a restore of an older database the cleanup job ends the uploads that the database knows, and leaves their bytes in the object
// store: they may be those of files that it does not know. What no file can have again is deleted.
func TestARestoredDatabaseDeletesNothingUnknown(t *testing.T) {
	t.Parallel()
	f := setup(t)
	completed := f.begin(storage.NewUpload{Path: path("f"), Size: 3})
	f.mustPutPart(completed, 1, []byte("abc"))
	open := f.begin(storage.NewUpload{Path: path("g"), Size: 3})
	f.mustPutPart(open, 1, []byte("xyz"))
	key := uuid.Must(uuid.NewV7())
	f.exec(`INSERT INTO storage_reservations (object_key, org_id, project_id, bytes, expires_at) VALUES ($1, $2, $3, 0, now() + interval '1 hour')`, key, f.caller.Tenant, f.caller.Project)
	if _, err := f.blobs.Put(f.ctx(), key, strings.NewReader("abcd"), 4); err != nil {
		t.Fatal(err)
	}
	f.mustPut("a", "1")
	f.mustPut("a", "22")

	// The uploads become files after the backup, which is then restored.
	if _, _, err := f.complete(completed, nil); err != nil {
		t.Fatal(err)
	}
	f.exec(`DELETE FROM storage_objects WHERE object_key = $1`, completed.ID)
	f.exec(`UPDATE storage_uploads SET state = 'open', result = NULL WHERE id = $1`, completed.ID)
	f.exec(`INSERT INTO storage_reservations (object_key, org_id, project_id, bytes, expires_at) VALUES ($1, $2, $3, 0, now())`, completed.ID, f.caller.Tenant, f.caller.Project)
	f.exec(`UPDATE storage_history SET server_started = server_started - interval '1 second'`)
	f.cleanUp()
	for name, id := range map[string]uuid.UUID{"a completed upload": completed.ID, "an upload in one request": key} {
		if _, err := f.blobs.Stat(f.ctx(), id); err != nil {
			t.Errorf("the bytes of %s: %v", name, err)
		}
	}
	if n, _ := f.backend(); n != 3 {
		t.Errorf("%d backend objects, want one of a file and two that may be of files", n)
	}
	if n := f.backendUploads(); n != 1 {
		t.Errorf("%d uploads in the object store, want the open one", n)
	}
	if u := f.usage(); u.Reserved != 0 {
		t.Errorf("%d bytes are reserved", u.Reserved)
	}

	// What begins now is known.
	next := f.begin(storage.NewUpload{Path: path("h"), Size: 3})
	f.mustPutPart(next, 1, []byte("abc"))
	f.cleanUp()
	if n := f.backendUploads(); n != 1 {
		t.Errorf("%d uploads in the object store after the end of another one", n)
	}
}

// An operator has confirmed that no other database is to be restored.
func TestAConfirmationLetsTheCleanupGoOn(t *testing.T) {
	t.Parallel()
	f := setup(t)
	u := f.begin(storage.NewUpload{Path: path("f"), Size: 3})
	f.mustPutPart(u, 1, []byte("abc"))
	f.exec(`UPDATE storage_history SET written_by = '1'`)
	f.exec(`UPDATE storage_checks SET confirmed_until = now()`)
	f.cleanUp()
	if n := f.backendUploads(); n != 0 {
		t.Errorf("%d uploads in the object store", n)
	}
}
