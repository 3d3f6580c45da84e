package storage_test

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/blob"
)

// signing is an object store to which clients send parts themselves.
type signing struct {
	blob.Store

	mu     sync.Mutex
	signed []blob.Request
	sums   map[int]string // what the object store has compared
}

func (s *signing) Sign(_ context.Context, r blob.Request) (blob.Signed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signed = append(s.signed, r)
	return blob.Signed{URL: "https://bucket/part"}, nil
}

func (s *signing) Parts(ctx context.Context, u blob.Upload) ([]blob.Part, error) {
	all, err := s.Store.Parts(ctx, u)
	for i := range all {
		all[i].SHA256 = s.sums[all[i].Number]
	}
	return all, err
}

// A client sends parts to the object store itself. The list of the object store decides which have arrived.
func TestDirectParts(t *testing.T) {
	t.Parallel()
	f := setup(t)
	store := &signing{Store: f.blobs, sums: map[int]string{}}
	f.api.Blobs = store
	for _, size := range []int64{int64(len(content)), -1} {
		f.directParts(t, store, size)
	}
	f.api.Blobs = f.blobs
	u := f.begin(storage.NewUpload{Path: path("g"), Size: 3})
	targets, err := f.api.PartTargets(f.ctx(), f.scope(), u.ID, []storage.PartRequest{{Number: 1, Size: 3, SHA256: sumOf(nil)}})
	if err != nil || len(targets) != 1 || targets[0].Direct {
		t.Errorf("an object store without signatures: %+v %v", targets, err)
	}
}

func (f *fixture) directParts(t *testing.T, store *signing, size int64) {
	t.Helper()
	u := f.begin(storage.NewUpload{Path: path("f"), Size: size, PartSize: blob.MinPart, SHA256: sumOf(content)})
	wanted := []storage.PartRequest{{1, blob.MinPart, sumOf(part(1))}, {2, blob.MinPart, sumOf(part(2))}, {3, 100, sumOf(part(3))}}
	for name, bad := range map[string][]storage.PartRequest{
		"none": nil, "twice": {wanted[0], wanted[0]}, "without a SHA-256": {{1, blob.MinPart, nil}}, "no size": {{1, -1, sumOf(nil)}}, "part 10,001": {{10_001, 1, sumOf(nil)}},
	} {
		_, err := f.api.PartTargets(f.ctx(), f.scope(), u.ID, bad)
		wantCode(t, name, err, errs.ValidationError)
	}
	store.signed = nil
	for range 2 {
		targets, err := f.api.PartTargets(f.ctx(), f.scope(), u.ID, wanted)
		if err != nil || len(targets) != 3 || !targets[2].Direct || targets[2].Signed.URL == "" {
			t.Fatalf("%+v %v", targets, err)
		}
	}
	if r := store.signed[1]; r.Method != http.MethodPut || r.ID != u.ID || r.Part != 2 || r.Size != blob.MinPart || !bytes.Equal(r.SHA256, wanted[1].SHA256) || r.Upload == "" {
		t.Errorf("signed %+v", r)
	}
	reserved := f.usage().Reserved
	if reserved != int64(len(content)) || len(f.arrived(u, 10)) != 0 {
		t.Errorf("%d bytes are reserved, %v", reserved, f.arrived(u, 10))
	}
	send := func(number int, b []byte) {
		if _, err := f.blobs.PutPart(f.ctx(), blob.Upload{ID: u.ID, Handle: store.signed[0].Upload}, number, bytes.NewReader(b), int64(len(b))); err != nil {
			t.Fatal(err)
		}
	}
	send(1, part(1))
	send(3, part(3))
	if got := f.arrived(u, 10); !slices.Equal(got, []int{1, 3}) {
		t.Errorf("parts %v", got)
	}
	if size >= 0 {
		_, _, err := f.complete(u, nil)
		wantCode(t, "a missing part", err, errs.Conflict)
	}
	// The object store has compared another SHA-256 than the last announced one.
	store.sums[2] = "AAAA"
	send(2, part(2))
	if got := f.arrived(u, 10); !slices.Equal(got, []int{1, 3}) {
		t.Errorf("parts %v", got)
	}
	delete(store.sums, 2)
	if o, _, err := f.complete(u, nil); err != nil || o.Size != int64(len(content)) || !bytes.Equal(o.SHA256, sumOf(content)) {
		t.Errorf("%+v %v", o, err)
	}
	f.wantUsage(int64(len(content)), 0, 1)
}

// waitForLock returns when a statement that contains the text waits for a lock.
func (f *fixture) waitForLock(text string) {
	f.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		var waits bool
		if err := f.db.QueryRow(f.ctx(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND strpos(query, $1) > 0)`, text).Scan(&waits); err != nil {
			f.t.Fatal(err)
		}
		if waits {
			return
		}
	}
	f.t.Fatalf("nothing waits with %q", text)
}

// Parts that are announced while the upload ends wait for the end, and do not lock parts meanwhile.
func TestAnnouncedPartsWaitForTheEnd(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.api.Blobs = &signing{Store: f.blobs, sums: map[int]string{}}
	u := f.begin(storage.NewUpload{Path: path("f"), Size: int64(len(content)), PartSize: blob.MinPart})
	announce := func(sum []byte, numbers ...int) error {
		var wanted []storage.PartRequest
		for _, n := range numbers {
			wanted = append(wanted, storage.PartRequest{Number: n, Size: blob.MinPart, SHA256: sum})
		}
		_, err := f.api.PartTargets(f.ctx(), f.scope(), u.ID, wanted)
		return err
	}
	if err := announce(sumOf(nil), 1); err != nil {
		t.Fatal(err)
	}
	err := pgx.BeginFunc(f.ctx(), f.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(f.ctx(), `SELECT FROM storage_uploads WHERE id = $1 FOR UPDATE`, u.ID); err != nil {
			return err
		}
		announced := make(chan error, 1)
		go func() { announced <- announce(sumOf([]byte("other")), 1, 2) }()
		t.Cleanup(func() {
			if err := <-announced; err != nil {
				t.Errorf("the announcement: %v", err)
			}
		})
		f.waitForLock("INSERT INTO storage_parts")
		_, err := tx.Exec(f.ctx(), `DELETE FROM storage_parts WHERE upload_id = $1`, u.ID)
		return err
	})
	if err != nil {
		t.Errorf("the end: %v", err)
	}
}
