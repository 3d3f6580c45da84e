//go:build e2e

package acceptance

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

const files = "/api/v1/storage/"

func atPath(operation, path string) string {
	return files + operation + "?path=" + url.QueryEscape(path)
}

func upload(t *testing.T, path, content string, header map[string]string) reply {
	t.Helper()
	return request{method: "PUT", path: atPath("upload", path), body: []byte(content), header: header}.send(t)
}

func download(t *testing.T, path string) reply {
	t.Helper()
	return request{method: "GET", path: atPath("download", path)}.send(t)
}

// listed returns the paths in a folder.
func listed(t *testing.T, folder string) (paths []string) {
	t.Helper()
	var list struct{ Items []struct{ Path string } }
	get(t, files+"list?prefix="+url.QueryEscape(folder), &list)
	for _, i := range list.Items {
		paths = append(paths, i.Path)
	}
	return paths
}

func TestAT060(t *testing.T) {
	proves(t)
	const content = "a file \x00 of bytes"
	if r := upload(t, "at-060/a.bin", content, nil); r.status != http.StatusCreated {
		t.Fatalf("upload: %d %s", r.status, r.body)
	}
	if got := listed(t, "at-060"); len(got) != 1 || got[0] != "at-060/a.bin" {
		t.Errorf("listed %q", got)
	}
	if r := download(t, "at-060/a.bin"); r.status != http.StatusOK || string(r.body) != content {
		t.Errorf("download: %d %q", r.status, r.body)
	}
	if r := (request{method: "POST", path: files + "rename", body: map[string]any{"from": "at-060/a.bin", "to": "at-060/b.bin"}}).send(t); r.status != http.StatusOK {
		t.Fatalf("rename: %d %s", r.status, r.body)
	}
	if r := download(t, "at-060/b.bin"); r.status != http.StatusOK || string(r.body) != content {
		t.Errorf("download after the rename: %d %q", r.status, r.body)
	}
	if r := (request{method: "DELETE", path: atPath("delete", "at-060/b.bin")}).send(t); r.status != http.StatusOK && r.status != http.StatusNoContent {
		t.Fatalf("delete: %d %s", r.status, r.body)
	}
	for _, path := range []string{"at-060/a.bin", "at-060/b.bin"} {
		if r := download(t, path); r.status != http.StatusNotFound || !strings.Contains(string(r.body), "storage_object_not_found") {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}

// setQuota sets the bytes that the project of the user may store.
func setQuota(t *testing.T, bytes int64) {
	t.Helper()
	const key = "/api/v1/admin/policies/storage.quota_bytes"
	scope := "project:" + profiles["default"].Project
	r := request{as: "admin", method: "PUT", path: key, body: map[string]any{"scope": scope, "value": bytes}}.send(t)
	if r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	until(t, "the quota is in force", func() bool {
		var usage struct {
			QuotaBytes int64 `json:"quota_bytes"`
		}
		get(t, files+"usage", &usage)
		return usage.QuotaBytes == bytes
	})
}

func storedBytes(t *testing.T) (bytes int64) {
	t.Helper()
	var usage struct {
		Bytes int64 `json:"bytes"`
	}
	get(t, files+"usage", &usage)
	return usage.Bytes
}

func TestAT061(t *testing.T) {
	proves(t)
	for _, path := range []string{"../a", "a/../../b", "/a", `a\b`, "a//b", "a/./b"} {
		if r := upload(t, path, "x", nil); r.status != http.StatusBadRequest || !strings.Contains(string(r.body), "storage_path_traversal") {
			t.Errorf("%q: %d %s", path, r.status, r.body)
		}
	}
	const unlimited, size = 100 << 30, 1000
	before := storedBytes(t)
	setQuota(t, before+10*size)
	t.Cleanup(func() { setQuota(t, unlimited) })
	var wg sync.WaitGroup
	statuses := make([]reply, 40)
	for i := range statuses {
		wg.Go(func() { statuses[i] = upload(t, fmt.Sprintf("at-061/%d", i), strings.Repeat("x", size), nil) })
	}
	wg.Wait()
	counts := map[int]int{}
	for _, r := range statuses {
		counts[r.status]++
		if r.status == http.StatusBadRequest && !strings.Contains(string(r.body), "storage_quota_exceeded") {
			t.Errorf("%s", r.body)
		}
	}
	if counts[http.StatusCreated] != 10 || counts[http.StatusBadRequest] != 30 || storedBytes(t) != before+10*size {
		t.Errorf("%v, and %d bytes more", counts, storedBytes(t)-before)
	}

	var project struct{ ID string }
	r := request{method: "POST", path: "/api/v1/projects", body: map[string]any{"name": "at-061"}}.send(t)
	if r.into(t, &project); r.status != http.StatusCreated {
		t.Fatalf("%d %s", r.status, r.body)
	}
	elsewhere := request{method: "GET", path: atPath("download", "at-061/0"), header: map[string]string{"X-Project-ID": project.ID}}.send(t)
	if elsewhere.status != http.StatusNotFound {
		t.Errorf("the path in another project: %d %s", elsewhere.status, elsewhere.body)
	}
}

// An S3 client uploads, and the API lists. e2e.TestPortalFilesInABrowser does it with the portal.
func TestAT064(t *testing.T) {
	proves(t)
	var key struct {
		AccessKeyID string `json:"access_key_id"`
		Secret      string `json:"secret_access_key"`
		ID          string `json:"id"`
	}
	r := request{method: "POST", path: files + "keys", body: map[string]any{"name": "at-064", "ttl_seconds": 3600}}.send(t)
	if r.into(t, &key); r.status != http.StatusCreated {
		t.Fatalf("%d %s", r.status, r.body)
	}
	endpoint, err := url.Parse(fmt.Sprint(services["storage_url"]))
	if err != nil {
		t.Fatal(err)
	}
	s3, err := minio.New(endpoint.Host, &minio.Options{Creds: credentials.NewStaticV4(key.AccessKeyID, key.Secret, "")})
	if err != nil {
		t.Fatal(err)
	}
	const content = "from an S3 tool"
	if _, err := s3.PutObject(t.Context(), profiles["default"].Project, "at-064/x", strings.NewReader(content), int64(len(content)), minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := listed(t, "at-064"); len(got) != 1 || got[0] != "at-064/x" {
		t.Errorf("listed %q", got)
	}
	if r := (request{method: "DELETE", path: files + "keys/" + key.ID}).send(t); r.status != http.StatusNoContent {
		t.Fatalf("%d %s", r.status, r.body)
	}
	until(t, "the key is revoked", func() bool {
		_, err := s3.StatObject(context.WithoutCancel(t.Context()), profiles["default"].Project, "at-064/x", minio.StatObjectOptions{})
		return minio.ToErrorResponse(err).StatusCode == http.StatusForbidden // the response to HEAD has no code
	})
}

// mounted creates an allocation with the folder at-065 of the project at data.
func mounted(t *testing.T, sku string) (a allocation) {
	t.Helper()
	r := request{method: "POST", path: allocations, body: map[string]any{
		"sku": sku, "gpus": 1, "name": "at-065-" + sku, "mounts": []any{map[string]any{"path": "at-065", "at": "data"}},
	}}.send(t)
	if r.status != http.StatusCreated {
		t.Fatalf("%d %s", r.status, r.body)
	}
	r.into(t, &a)
	t.Cleanup(func() {
		release(t, a)
		a.becomes(t, "released")
	})
	a.becomes(t, "active")
	return a
}

// The nodes are simulated. Their shells mount by rclone and FUSE of this computer. Another test, TestMounts, uses a node.
func TestAT065(t *testing.T) {
	proves(t)
	if _, err := exec.LookPath("rclone"); err != nil {
		t.Skip("this computer has no rclone")
	}
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		t.Skip("this computer has no FUSE: " + err.Error())
	} else {
		_ = f.Close()
	}
	if r := upload(t, "at-065/train.json", `{"rows":3}`, nil); r.status != http.StatusCreated {
		t.Fatalf("%d %s", r.status, r.body)
	}
	first := mounted(t, skuOfAT030)
	if screen, _ := first.typed(t, "sed s/3/4/ data/train.json >data/result.json; cat data/result.json\nexit\n"); !strings.Contains(screen, `{"rows":4}`) {
		t.Fatalf("on the first node: %q", screen)
	}
	until(t, "the result is stored", func() bool { return string(download(t, "at-065/result.json").body) == `{"rows":4}` })
	release(t, first)
	first.becomes(t, "released")

	second := mounted(t, skuOfAT010)
	if first.Node == second.Node || second.Node == "" {
		t.Errorf("both on node %q", second.Node)
	}
	if screen, _ := second.typed(t, "cat data/*\nexit\n"); !strings.Contains(screen, `{"rows":4}{"rows":3}`) {
		t.Errorf("on the second node: %q", screen)
	}
}
