package rest_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/openapi"
)

const (
	// storedPath is the path of a file that a test uploads.
	storedPath = "stored.txt"
	// storedDeleted is the id of a deleted file that a test inserts.
	storedDeleted = "01990f48-1111-7222-8333-444455556666"
)

// join adds a parameter to a path.
func join(path, query string) string {
	if strings.Contains(path, "?") {
		return path + "&" + query
	}
	return path + "?" + query
}

// needsPath reports whether an operation needs the path of a file in its query.
func needsPath(op openapi.Operation) bool {
	if op.Operation == nil { // only a path
		return false
	}
	switch op.OperationID {
	case "statStorage", "downloadStorage", "uploadStorage", "deleteStorage":
		return true
	}
	return false
}

// writesFile reports whether If-Match would require a file at the new path.
func writesFile(op openapi.Operation) bool {
	return slices.Contains([]string{"uploadStorage", "uploadSignedStorage", "copyStorage", "createStorageUpload"}, op.OperationID)
}

// storedPathOf returns the path of an operation, after it has created the file that the operation reads or changes.
func (b *fixture) storedPathOf(t *testing.T, op openapi.Operation) string {
	t.Helper()
	b.upload(t, storedPath, "stored", nil)
	switch op.OperationID { // other tests use the file at the same time
	case "renameStorage":
		b.upload(t, "renamed.txt", "stored", nil)
	case "deleteStorage":
		name := unusedName("f")
		b.upload(t, name, "stored", nil)
		return op.Path + "?path=" + name
	}
	if op.OperationID == "restoreStorage" {
		b.sql(`INSERT INTO storage_objects (id, org_id, project_id, parent_id, name, folded, type, object_key, deleted_at, purge_at, deleted_path)
			SELECT $1, org_id, project_id, parent_id, 'x', 'x', 'file', object_key, now(), now() + interval '1 day', 'x' FROM storage_objects WHERE name = $2 AND deleted_at IS NULL
			ON CONFLICT (id) DO UPDATE SET deleted_at = now(), purge_at = now() + interval '1 day', deleted_path = 'x'`, storedDeleted, storedPath)
	}
	if strings.Contains(op.Path, "/storage/uploads/{id}") {
		return pathOf(openapi.Operation{Path: strings.Replace(op.Path, "{id}", b.beginUpload(t, op.OperationID), 1)})
	}
	switch op.OperationID {
	case "downloadSignedStorage":
		return b.sign(t, tokenOwner, `{"path":"`+storedPath+`"}`)
	case "uploadSignedStorage":
		return b.sign(t, tokenOwner, `{"path":"`+unusedName("f")+`","method":"PUT"}`)
	case "uploadStorage":
		return op.Path + "?path=" + unusedName("f")
	}
	return pathOf(op)
}

// beginUpload begins an upload of the bytes that bodyOf sends as a part. All but the upload of the part find it sent.
func (b *fixture) beginUpload(t *testing.T, operation string) string {
	t.Helper()
	w := b.do(t, call{
		method: "POST", path: "/api/v1/storage/uploads", token: tokenOwner, header: map[string]string{"X-Project-ID": project.String()},
		body: `{"path":"` + unusedName("f") + `","size_bytes":9}`,
	})
	var u oapi.StorageUpload
	must(t, json.Unmarshal(w.Body.Bytes(), &u))
	if w.Code != http.StatusCreated || u.State != oapi.StorageUploadStateOpen || *u.Parts != 1 {
		t.Fatalf("beginning an upload: %d %s", w.Code, w.Body)
	}
	if operation != "uploadStoragePart" {
		b.sendPart(t, u.Id.String(), "the bytes", nil)
	}
	return u.Id.String()
}

func (b *fixture) sendPart(t *testing.T, id, text string, header map[string]string) *httptest.ResponseRecorder {
	t.Helper()
	all := map[string]string{"X-Project-ID": project.String()}
	maps.Copy(all, header)
	return b.do(t, call{method: "PUT", path: "/api/v1/storage/uploads/" + id + "/parts/1", token: tokenOwner, body: text, header: all})
}

func (b *fixture) upload(t *testing.T, path, text string, header map[string]string) oapi.StorageObject {
	t.Helper()
	header = maps.Clone(header)
	if header == nil {
		header = map[string]string{}
	}
	header["X-Project-ID"] = project.String()
	w := b.do(t, call{method: "PUT", path: "/api/v1/storage/upload?path=" + path, token: tokenOwner, body: text, header: header})
	if w.Code != http.StatusOK && w.Code != http.StatusCreated {
		t.Fatalf("uploading %s: %d %s", path, w.Code, w.Body)
	}
	var o oapi.StorageObject
	must(t, json.Unmarshal(w.Body.Bytes(), &o))
	return o
}

// What a tenant has stored is an attachment of a type that no browser executes, in part or as a whole.
func TestDownloads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sum := sha256.Sum256([]byte("<script>alert(1)</script>"))
	digest := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	o := b.upload(t, "a%22%C3%BC.html", "<script>alert(1)</script>", map[string]string{"Content-Type": "text/html", "Content-Digest": digest})
	if o.Path != `a"ü.html` || *o.MediaType != "text/html" || *o.Sha256 != fmt.Sprintf("%x", sum) {
		t.Errorf("%+v", o)
	}
	get := func(method string, header map[string]string) (int, http.Header, string) {
		w := b.do(t, call{method: method, path: "/api/v1/storage/download?path=a%22%C3%BC.html", token: tokenOwner, header: header})
		return w.Code, w.Header(), w.Body.String()
	}
	code, h, text := get("GET", nil)
	if code != http.StatusOK || text != "<script>alert(1)</script>" || h.Get("Content-Length") != "25" {
		t.Errorf("%d %s", code, text)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "ETag": o.Etag, "Repr-Digest": digest,
		"Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'", "Content-Disposition": `attachment; filename="a__.html"; filename*=UTF-8''a%22%C3%BC.html`,
	} {
		if h.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, h.Get(name), want)
		}
	}
	for name, c := range map[string]struct {
		method string
		header map[string]string
		code   int
		text   string
	}{
		"a range":                {"GET", map[string]string{"Range": "bytes=1-6"}, http.StatusPartialContent, "script"},
		"the end":                {"GET", map[string]string{"Range": "bytes=-9"}, http.StatusPartialContent, "</script>"},
		"behind the end":         {"GET", map[string]string{"Range": "bytes=25-"}, http.StatusRequestedRangeNotSatisfiable, ""},
		"a range of other units": {"GET", map[string]string{"Range": "lines=1-6"}, http.StatusOK, "<script>alert(1)</script>"},
		"two ranges":             {"GET", map[string]string{"Range": "bytes=1-2,4-6"}, http.StatusOK, "<script>alert(1)</script>"},
		"another If-Match":       {"GET", map[string]string{"If-Match": `"0"`}, http.StatusOK, "<script>alert(1)</script>"},
		"another ETag":           {"GET", map[string]string{"Range": "bytes=1-6", "If-Range": `"0"`}, http.StatusOK, "<script>alert(1)</script>"},
		"unchanged":              {"GET", map[string]string{"If-None-Match": o.Etag}, http.StatusNotModified, ""},
		"HEAD":                   {"HEAD", nil, http.StatusOK, ""},
	} {
		code, _, text := get(c.method, c.header)
		if code != c.code || text != c.text && c.code != http.StatusRequestedRangeNotSatisfiable {
			t.Errorf("%s: %d %q", name, code, text)
		}
	}
}

// The list and the purge of deleted files exclude the parameters of a folder. Their defaults are none of them.
func TestDeletedFilesAreListedAndPurged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	name := unusedName("f")
	b.upload(t, name, "text", nil)
	at := map[string]string{"X-Project-ID": project.String()}
	w := b.do(t, call{method: "DELETE", path: "/api/v1/storage/delete?path=" + name, token: tokenOwner, header: at})
	var deleted oapi.StorageObject
	if must(t, json.Unmarshal(w.Body.Bytes(), &deleted)); w.Code != http.StatusOK {
		t.Fatalf("deleting: %d %s", w.Code, w.Body)
	}
	for query, code := range map[string]int{"": http.StatusOK, "&limit=100": http.StatusOK, "&recursive=true": http.StatusBadRequest, "&sort=updated_at": http.StatusBadRequest, "&prefix=a": http.StatusBadRequest} {
		w := b.do(t, call{method: "GET", path: "/api/v1/storage/list?deleted=true" + query, token: tokenOwner, header: at})
		if w.Code != code || code == http.StatusOK && !strings.Contains(w.Body.String(), `"`+name+`"`) {
			t.Errorf("%q: %d %s", query, w.Code, w.Body)
		}
	}
	remove := func(query string) int {
		return b.do(t, call{method: "DELETE", path: "/api/v1/storage/delete?id=" + deleted.Id.String() + query, token: tokenOwner, header: at}).Code
	}
	if code := remove("&recursive=true"); code != http.StatusBadRequest {
		t.Errorf("a purge with recursive: %d", code)
	}
	if code := remove(""); code != http.StatusOK {
		t.Errorf("a purge: %d", code)
	}
}

// A bad request changes nothing, and its error names what is wrong.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct {
		query, body string
		header      map[string]string
		code        oapi.ErrorCode
		field       string
	}{
		{"path=../a", "x", nil, "storage_path_traversal", "path"},
		{"path=%2e%2e/a", "x", nil, "storage_path_traversal", "path"},
		{"path=a%2F..%2Fb", "x", nil, "storage_path_traversal", "path"},
		{"path=/etc/passwd", "x", nil, "storage_path_traversal", "path"},
		{"path=a%5Cb", "x", nil, "storage_path_traversal", "path"},
		{"path=a%00b", "x", nil, "validation_error", "path"},
		{"path=con", "x", nil, "validation_error", "path"},
		{"path=a&path=b", "x", nil, "validation_error", "path"},
		{"path=a", "x", map[string]string{"Content-Digest": "sha-256=:AAAA:"}, "validation_error", "Content-Digest"},
		{"path=a", "x", map[string]string{"Content-Digest": "md5=:AAAA:"}, "validation_error", "Content-Digest"},
		{"path=a", "x", map[string]string{"Content-Digest": "sha-256=:" + base64.StdEncoding.EncodeToString(make([]byte, 32)) + ":"}, "validation_error", "Content-Digest"},
		{"path=a", "x", map[string]string{"Content-Type": "no type"}, "validation_error", "Content-Type"},
		{"path=a", "x", map[string]string{"If-Match": "*"}, "version_mismatch", "If-Match"},
	} {
		w := b.do(t, call{method: "PUT", path: "/api/v1/storage/upload?" + c.query, token: tokenOwner, body: c.body, header: c.header})
		p := problem(t, w)
		if p.Code != c.code || p.Details["field"] != c.field {
			t.Errorf("%s %v: %d %s at %v: %s", c.query, c.header, w.Code, p.Code, p.Details["field"], p.Message)
		}
	}
	// What is encoded twice is decoded once: the percent sign is part of the name.
	if o := b.upload(t, "%252e%252e", "x", nil); o.Path != "%2e%2e" {
		t.Errorf("%+v", o)
	}
	if n := read[int](b, `SELECT count(*) FROM storage_objects WHERE parent_id IS NOT NULL`); n != 1 {
		t.Errorf("%d files were stored", n)
	}
}

// A client that resumes reads which parts have arrived, and every step can be repeated.
func TestUploadInParts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	post := func(path, body, key string) (*httptest.ResponseRecorder, map[string]any) {
		w := b.do(t, call{method: "POST", path: "/api/v1/storage/uploads" + path, token: tokenOwner, body: body, header: map[string]string{"X-Project-ID": project.String(), "Idempotency-Key": key}})
		var shown map[string]any
		must(t, json.Unmarshal(w.Body.Bytes(), &shown))
		return w, shown
	}
	sum := sha256.Sum256([]byte("the bytes"))
	begun, u := post("", fmt.Sprintf(`{"path":"d/f","size_bytes":9,"sha256":"%x","media_type":"text/plain"}`, sum), "one")
	again, v := post("", fmt.Sprintf(`{"path":"d/f","size_bytes":9,"sha256":"%x","media_type":"text/plain"}`, sum), "one")
	if begun.Code != http.StatusCreated || u["id"] != v["id"] || again.Header().Get("Idempotency-Replayed") != "true" || u["parts"] != 1.0 || begun.Header().Get("Location") != "/api/v1/storage/uploads/"+u["id"].(string) {
		t.Errorf("%d %s, then %d %s", begun.Code, begun.Body, again.Code, again.Body)
	}
	id := u["id"].(string)
	signed, targets := post("/"+id+"/sign", fmt.Sprintf(`{"parts":[{"number":1,"size_bytes":9,"sha256":"%x"}]}`, sum), "")
	target := targets["targets"].([]any)[0].(map[string]any)
	digest := target["headers"].(map[string]any)["Content-Digest"].(string)
	if signed.Code != http.StatusOK || target["url"] != "/api/v1/storage/uploads/"+id+"/parts/1" || target["direct"] != false {
		t.Errorf("%d %s", signed.Code, signed.Body)
	}
	for name, c := range map[string]struct {
		text   string
		header map[string]string
		code   oapi.ErrorCode
	}{
		"short":          {"the byte", nil, "validation_error"},
		"another digest": {"THE BYTES", map[string]string{"Content-Digest": digest}, "validation_error"},
		"no digest":      {"the bytes", map[string]string{"Content-Digest": "md5=:AAAA:"}, "validation_error"},
	} {
		w := b.sendPart(t, id, c.text, c.header)
		if p := problem(t, w); p.Code != c.code {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if w, p := post("/"+id+"/complete", "", "two"); w.Code != http.StatusConflict {
		t.Errorf("without parts: %d %v", w.Code, p)
	}
	if w := b.sendPart(t, id, "the bytes", map[string]string{"Content-Digest": digest}); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	list := b.do(t, call{method: "GET", path: "/api/v1/storage/uploads/" + id + "/parts", token: tokenOwner})
	if !strings.Contains(list.Body.String(), fmt.Sprintf(`"number":1,"sha256":"%x"`, sum)) {
		t.Errorf("%d %s", list.Code, list.Body)
	}
	done, o := post("/"+id+"/complete", "", "two")
	replayed, _ := post("/"+id+"/complete", "", "two")
	other, p := post("/"+id+"/complete", "", "three")
	if done.Code != http.StatusOK || o["path"] != "d/f" || o["media_type"] != "text/plain" || replayed.Header().Get("Idempotency-Replayed") != "true" ||
		replayed.Body.String() != done.Body.String() || other.Code != http.StatusOK || p["etag"] != o["etag"] || p["id"] != o["id"] {
		t.Errorf("%d %s, then %d %s, then %d %s", done.Code, done.Body, replayed.Code, replayed.Body, other.Code, other.Body)
	}
	if w := b.do(t, call{method: "DELETE", path: "/api/v1/storage/uploads/" + id, token: tokenOwner}); w.Code != http.StatusConflict {
		t.Errorf("aborting: %d %s", w.Code, w.Body)
	}
	if list := b.do(t, call{method: "GET", path: "/api/v1/storage/uploads", token: tokenOwner}); list.Code != http.StatusOK || strings.Contains(list.Body.String(), id) {
		t.Errorf("%d %s", list.Code, list.Body)
	}
}

// A new access key names the URL of the S3 endpoint, where the installation knows it. A list has neither.
func TestANewAccessKeyNamesTheEndpoint(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for _, url := range []string{"", "https://s3.gpuaas.example"} {
		b.services.StorageKeys.MountURL = func() string { return url }
		w := b.do(t, call{method: "POST", path: "/api/v1/storage/keys", token: tokenOwner, body: `{"name":"` + unusedName("k") + `"}`})
		var made map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != http.StatusCreated {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if got, named := made["endpoint"]; named != (url != "") || named && got != url {
			t.Errorf("the endpoint is %v, want %q", got, url)
		}
	}
	list := b.do(t, call{method: "GET", path: "/api/v1/storage/keys", token: tokenOwner})
	if list.Code != http.StatusOK || strings.Contains(list.Body.String(), "endpoint") {
		t.Errorf("%d %s", list.Code, list.Body)
	}
}

// A repeated creation of a folder gets the stored response, and the key of another request is rejected.
func TestARepeatedFolderHasOneEffect(t *testing.T) {
	t.Parallel()
	w := setup(t)
	create := func(key, name string) *httptest.ResponseRecorder {
		return w.do(t, call{method: "POST", path: "/api/v1/storage/mkdir", token: tokenOwner, body: `{"path":"` + name + `"}`, header: map[string]string{"X-Project-ID": "default", "Idempotency-Key": key}})
	}
	first, again := create("folder-1", "data"), create("folder-1", "data")
	if first.Code != http.StatusCreated || again.Code != first.Code || again.Body.String() != first.Body.String() {
		t.Errorf("%d %s, repeated %d %s", first.Code, first.Body, again.Code, again.Body)
	}
	if other := create("folder-1", "models"); other.Code < 400 {
		t.Errorf("another body with the key: %d %s", other.Code, other.Body)
	}
}
