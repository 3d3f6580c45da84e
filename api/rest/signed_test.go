package rest_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest"
)

// sign returns the path of a signed URL.
func (b *fixture) sign(t *testing.T, token, body string) string {
	t.Helper()
	w := b.do(t, call{method: "POST", path: "/api/v1/storage/sign", token: token, body: body, header: map[string]string{"X-Project-ID": project.String()}})
	if w.Code != http.StatusOK {
		t.Fatalf("signing %s: %d %s", body, w.Code, w.Body)
	}
	var s oapi.StorageSignedUrl
	must(t, json.Unmarshal(w.Body.Bytes(), &s))
	at, err := url.Parse(s.Url)
	must(t, err)
	return at.RequestURI()
}

// A signed URL returns the bytes of one file, without a token and without a database.
func TestSignedDownloads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.upload(t, "a.html", "<script>1</script>", map[string]string{"Content-Type": "text/html"})
	at := b.sign(t, tokenMember, `{"path":"a.html"}`)
	upload := b.sign(t, tokenOwner, `{"path":"b.txt","method":"PUT"}`)
	if n := read[int](b, `SELECT count(*) FROM audit_logs WHERE action = 'storage_object.sign'`); n != 2 {
		t.Errorf("%d audit rows", n)
	}
	b.database.fail("", 0, errors.New("PostgreSQL is away"))
	w := b.do(t, call{method: "GET", path: at, header: map[string]string{"Range": "bytes=1-6"}})
	if w.Code != http.StatusPartialContent || w.Body.String() != "script" || w.Header().Get("Content-Security-Policy") == "" || w.Header().Get("Content-Type") != "application/octet-stream" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
	for name, c := range map[string]call{
		"changed":        {method: "GET", path: at[:len(at)-3] + "AAA"},
		"shortened":      {method: "GET", path: at[:len(at)-1]},
		"another method": {method: "PUT", path: at, body: "x"},
		"of an upload":   {method: "GET", path: upload},
	} {
		if p := problem(t, b.do(t, c)); p.Code != "forbidden" || p.Details["field"] != "grant" {
			t.Errorf("%s: %s %v", name, p.Code, p.Details)
		}
	}
	b.now = b.now.Add(5*time.Minute + time.Second)
	if w := b.do(t, call{method: "GET", path: at}); w.Code != http.StatusForbidden {
		t.Errorf("after its end: %d", w.Code)
	}
}

// An upload by a signed URL needs the rights that the signer has at that time.
func TestSignedUploads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	put := func(at, text string, header map[string]string) (int, string) {
		w := b.do(t, call{method: "PUT", path: at, body: text, header: header})
		return w.Code, w.Body.String()
	}
	at := b.sign(t, tokenMember, `{"path":"in/a.txt","method":"PUT","expires_seconds":60}`)
	if code, text := put(at, "first", nil); code != http.StatusNoContent {
		t.Fatalf("%d %s", code, text)
	}
	if code, _ := put(at, "second", map[string]string{"If-None-Match": "*"}); code != http.StatusPreconditionFailed {
		t.Errorf("replacing: %d", code)
	}
	by := read[string](b, `SELECT created_by FROM storage_objects WHERE name = 'a.txt' AND size_bytes = 5`)
	if by != "user:"+users[tokenMember].String() {
		t.Errorf("created by %s", by)
	}
	for body, code := range map[string]int{
		`{"path":"../a","method":"PUT"}`:            http.StatusBadRequest,
		`{"path":"in","method":"PUT"}`:              http.StatusConflict,
		`{"path":"missing"}`:                        http.StatusNotFound,
		`{"path":"in/a.txt","expires_seconds":301}`: http.StatusBadRequest,
		`{"path":"in/a.txt","method":"DELETE"}`:     http.StatusBadRequest,
	} {
		if w := b.do(t, call{method: "POST", path: "/api/v1/storage/sign", token: tokenMember, body: body, header: map[string]string{"X-Project-ID": project.String()}}); w.Code != code {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	b.sql(`UPDATE project_memberships SET role = 'viewer' WHERE user_id = $1`, users[tokenMember])
	b.services.Identity.RightsChanged()
	if w := b.do(t, call{method: "POST", path: "/api/v1/storage/sign", token: tokenMember, body: `{"path":"b","method":"PUT"}`, header: map[string]string{"X-Project-ID": project.String()}}); w.Code != http.StatusForbidden {
		t.Errorf("a viewer: %d %s", w.Code, w.Body)
	}
	if code, text := put(at, "third", nil); code != http.StatusForbidden {
		t.Errorf("a member who is a viewer now: %d %s", code, text)
	}
	b.sql(`UPDATE users SET disabled_at = now() WHERE id = $1`, users[tokenMember])
	if code, text := put(at, "third", nil); code != http.StatusForbidden {
		t.Errorf("a disabled member: %d %s", code, text)
	}
}

// Where the profile names an origin for files, browsers receive stored bytes from it, and nothing else is there.
func TestOriginOfFiles(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *fixture, c *rest.Config) { c.Profile.Storage.PublicURL = "https://files.example" })
	b.upload(t, "a.txt", "a", nil)
	_, session := b.start(tokenOwner)
	w := b.do(t, call{method: "GET", path: "/api/v1/storage/download?path=a.txt", header: map[string]string{"Host": "localhost", "Cookie": "gpuaas_session=" + session, "X-Project-ID": project.String()}})
	at := w.Header().Get("Location")
	path, found := strings.CutPrefix(at, "https://files.example")
	if w.Code != http.StatusFound || !found {
		t.Fatalf("%d %s %s", w.Code, at, w.Body)
	}
	for to, code := range map[string]int{path: http.StatusOK, "/api/v1/storage/download?path=a.txt": http.StatusNotFound, "/portal/": http.StatusNotFound, "/": http.StatusNotFound} {
		if w := b.do(t, call{method: "GET", path: to, token: tokenOwner, header: map[string]string{"Host": "FILES.example"}}); w.Code != code {
			t.Errorf("%s: %d, want %d", to, w.Code, code)
		}
	}
	if w := b.do(t, call{method: "GET", path: "/api/v1/storage/download?path=a.txt", token: tokenOwner}); w.Code != http.StatusOK {
		t.Errorf("a program: %d", w.Code)
	}
}

// A folder is downloaded as an archive of the files below it.
func TestArchives(t *testing.T) {
	t.Parallel()
	b := setup(t)
	want := map[string]string{"in/a.txt": "a", "in/deep/ü.txt": "u", "in/deep/": "", "in/z": strings.Repeat("z", 1<<20)}
	for name, text := range want {
		if !strings.HasSuffix(name, "/") {
			b.upload(t, url.QueryEscape("out/"+name), text, nil)
		}
	}
	b.upload(t, "other", "o", nil)
	w := b.do(t, call{method: "GET", path: "/api/v1/storage/archive?prefix=out/in", token: tokenMember, header: map[string]string{"X-Project-ID": project.String()}})
	if got := w.Header().Get("Content-Disposition"); w.Code != http.StatusOK || got != `attachment; filename="in.zip"; filename*=UTF-8''in.zip` {
		t.Fatalf("%d %s %s %s", w.Code, got, w.Body, b.log)
	}
	in, err := zip.NewReader(bytes.NewReader(w.Body.Bytes()), int64(w.Body.Len()))
	must(t, err)
	for _, f := range in.File {
		r, err := f.Open()
		must(t, err)
		text, err := io.ReadAll(r)
		must(t, err)
		if expected, ok := want[f.Name]; !ok || expected != string(text) {
			t.Errorf("%s has %d bytes", f.Name, len(text))
		}
		delete(want, f.Name)
	}
	if len(want) > 0 {
		t.Errorf("without %v", want)
	}
	if w := b.do(t, call{method: "GET", path: "/api/v1/storage/archive?prefix=other", token: tokenOwner, header: map[string]string{"X-Project-ID": project.String()}}); w.Code != http.StatusConflict {
		t.Errorf("of a file: %d", w.Code)
	}
}
