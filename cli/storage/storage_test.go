package storage

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

func TestPlaces(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]place{
		"a/b":            {path: "a/b"},
		"a/":             {path: "a", folder: true},
		"./a:b":          {path: "./a:b"},
		"/":              {path: "/", folder: true},
		"default:a/b":    {remote: true, project: "default", path: "a/b"},
		"default:":       {remote: true, project: "default", folder: true},
		":a/":            {remote: true, path: "a", folder: true},
		":/a":            {remote: true, path: "a"},
		"default:a/*.b":  {remote: true, project: "default", path: "a/*.b"},
		"alloc:otter:a/": {allocation: "otter", path: "a", folder: true},
		"alloc:otter:":   {allocation: "otter", path: ".", folder: true},
		"alloc:otter:/b": {allocation: "otter", path: "/b"},
		"alloc:otter:-b": {allocation: "otter", path: "-b"},
		"alloc:a/b":      {remote: true, project: "alloc", path: "a/b"},
	} {
		if got, err := parsePlace(arg); err != nil || got != want {
			t.Errorf("%q: %+v %v", arg, got, err)
		}
	}
	if p, err := parseRemote("a/b:c"); err != nil || p.path != "a/b:c" || p.project != "" {
		t.Errorf("%+v %v", p, err)
	}
	for _, arg := range []string{"", ":../a", ":a//b", "p:a\\b", "alloc::a", "alloc:otter:a\nb"} {
		if p, err := parsePlace(arg); err == nil {
			t.Errorf("%q: %+v", arg, p)
		}
	}
}

// The number of parts is at most 10,000, and their sums are those of their bytes.
func TestParts(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64]int64{0: 16 << 20, 160 << 30: 17 << 20, 5 << 40: 525 << 20} {
		if got := partSizeOf(size); got != want || size/got > 10_000 {
			t.Errorf("%d bytes: parts of %d", size, got)
		}
	}
	content := bytes.Repeat([]byte("0123456789abcde"), 2<<20)
	s, err := sumFile(t.Context(), bytes.NewReader(content), int64(len(content)))
	if err != nil || len(s.parts) != 2 {
		t.Fatal(len(s.parts), err)
	}
	whole, first, last := sha256.Sum256(content), sha256.Sum256(content[:16<<20]), sha256.Sum256(content[16<<20:])
	if !bytes.Equal(s.whole, whole[:]) || !bytes.Equal(s.parts[0], first[:]) || !bytes.Equal(s.parts[1], last[:]) {
		t.Error("other sums")
	}
	if s, err := sumFile(t.Context(), bytes.NewReader(nil), 0); err != nil || len(s.parts) != 1 {
		t.Errorf("an empty file has %d parts, %v", len(s.parts), err)
	}
}

// breaking serves a file, and ends each response after some bytes.
type breaking struct {
	mu     sync.Mutex
	text   string
	etag   string
	after  int
	ranges []string
}

func (b *breaking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ranges = append(b.ranges, r.Header.Get("Range"))
	from := 0
	if r.Header.Get("If-Range") == b.etag {
		_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(b.text)-from))
	if from > 0 {
		w.WriteHeader(http.StatusPartialContent)
	}
	_, _ = io.WriteString(w, b.text[from:min(from+b.after, len(b.text))])
}

// setup returns a transfer of a client of the server, and a folder.
func setup(t *testing.T, h http.Handler) (*transfer, *os.Root) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	env := map[string]string{"GPUAAS_URL": server.URL, "GPUAAS_TOKEN": "gpk_x", "GPUAAS_CONFIG_DIR": t.TempDir()}
	a := &output.Console{Out: io.Discard, Err: io.Discard, Env: func(name string) string { return env[name] }}
	c, err := client.Connect(a)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := newTransfer(a, c, 2, false)
	if err != nil {
		t.Fatal(err)
	}
	tr.progress = startProgress(a)
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return tr, root
}

func objectOf(text, etag string) oapi.StorageObject {
	sum := sha256.Sum256([]byte(text))
	shown := hex.EncodeToString(sum[:])
	return oapi.StorageObject{Path: "d/f", Type: "file", SizeBytes: int64(len(text)), Etag: etag, Sha256: &shown}
}

// A download that breaks off continues where it ended, also in another process. Bytes of another version are not mixed.
func TestDownloadContinues(t *testing.T) {
	t.Parallel()
	b := &breaking{text: "0123456789", etag: `"v1"`, after: 4}
	tr, root := setup(t, b)
	o := objectOf(b.text, b.etag)
	if err := root.WriteFile(".f.v1.part", []byte("01"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tr.receive(t.Context(), place{remote: true, path: "d/f"}, o, root, "f"); err != nil {
		t.Fatal(err)
	}
	if text, err := root.ReadFile("f"); err != nil || string(text) != b.text {
		t.Errorf("%q %v", text, err)
	}
	if got := strings.Join(b.ranges, " "); got != "bytes=2- bytes=6-" {
		t.Errorf("requested %q", got)
	}
	// The file changes between the list and the download.
	b.etag, b.text, b.after = `"v2"`, "abcdefghij", 100
	if err := root.WriteFile(".g.v1.part", []byte("01"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tr.receive(t.Context(), place{remote: true, path: "d/f"}, o, root, "g"); err == nil {
		t.Error("another version was accepted")
	}
	left, _ := filepath.Glob(filepath.Join(root.Name(), ".*.part"))
	if _, err := root.Stat("g"); err == nil || len(left) != 0 {
		t.Errorf("%v are left", left)
	}
}

// No name leaves the folder of a download, also through a link that exists there.
func TestDownloadStaysInItsFolder(t *testing.T) {
	t.Parallel()
	tr, root := setup(t, &breaking{text: "x", after: 1})
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(root.Name(), "link")); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"link/f", "../f"} {
		if err := tr.receive(t.Context(), place{remote: true, path: "d/f"}, objectOf("x", `"v"`), root, to); err == nil {
			t.Errorf("%s was written", to)
		}
	}
	if all, err := os.ReadDir(outside); err != nil || len(all) != 0 {
		t.Errorf("%v %v", all, err)
	}
}
