package storage_test

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/blob"
	"github.com/gpuaas/gpuaas/product/storage/blob/s3"
	"github.com/gpuaas/gpuaas/product/storage/blob/s3/s3test"
)

// A client sends parts to a real S3 server itself. The server rejects other bytes than those that were signed, and its list
// shows which parts have arrived.
func TestDirectPartsOfARealServer(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t, false)
	store, err := s3.New(s3.Config{
		Endpoint: server.URL, Region: server.Region, Bucket: server.Bucket, PathStyle: true,
		Credentials: func(context.Context) (string, string, error) { return server.Access, server.Secret, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	f := setupWith(t, store)
	f.limits.SignedURL = time.Minute
	u := f.beginContent("d/f")
	targets, err := f.api.PartTargets(f.ctx(), f.scope(), u.ID, []storage.PartRequest{{1, blob.MinPart, sumOf(part(1))}, {3, 100, sumOf(part(3))}})
	if err != nil || !targets[0].Direct || !targets[1].Direct {
		t.Fatalf("%+v %v", targets, err)
	}
	send := func(to storage.PartTarget, b []byte) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, to.Signed.URL, bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(r.Header, to.Signed.Headers)
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if code := send(targets[1], bytes.Repeat([]byte{1}, 100)); code < 400 {
		t.Errorf("other bytes: %d", code)
	}
	if got := f.arrived(u, 10); len(got) != 0 {
		t.Errorf("parts %v", got)
	}
	if one, three := send(targets[0], part(1)), send(targets[1], part(3)); one != http.StatusOK || three != http.StatusOK {
		t.Errorf("%d %d", one, three)
	}
	if got := f.arrived(u, 10); !slices.Equal(got, []int{1, 3}) {
		t.Errorf("parts %v", got)
	}
	f.mustPutPart(u, 2, part(2)) // through the server
	o, _, err := f.complete(u, nil)
	if err != nil || !bytes.Equal(o.SHA256, sumOf(content)) {
		t.Fatalf("%+v %v", o, err)
	}
	if text, err := f.read("d/f"); err != nil || text != string(content) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	f.wantUsage(int64(len(content)), 0, 2)
}
