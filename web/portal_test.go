package web_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gpuaas/gpuaas/web"
)

// Limits of the portal in bytes, gzipped (goal W1).
const (
	firstScripts    = 200_000
	firstStyles     = 30_000
	routeScripts    = 60_000
	terminalScripts = 90_000
)

// TestPortalIsComplete: each file that the page names is embedded in three codings, and gzip has the bytes of the file.
func TestPortalIsComplete(t *testing.T) {
	t.Parallel()

	p := builtPortal(t)
	if strings.Count(string(p.Page("n")), `content="n"`) != 1 {
		t.Error("the page has no nonce")
	}
	if page := string(p.Page("")); !strings.Contains(page, "<noscript>") || !strings.Contains(page, "gpuaas alloc list") {
		t.Error("the page without scripts names no command")
	}
	for name, a := range p.Assets {
		text := strings.HasSuffix(name, ".js") || strings.HasSuffix(name, ".css")
		if a.ETag == "" || a.ContentType == "" || text && len(a.Encodings) != 3 {
			t.Errorf("%s: tag %q, type %q, codings %v", name, a.ETag, a.ContentType, slices.Collect(maps.Keys(a.Encodings)))
			continue
		}
		if !text {
			continue
		}
		r, err := gzip.NewReader(bytes.NewReader(a.Encodings["gzip"]))
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := io.ReadAll(r); err != nil || !bytes.Equal(plain, a.Encodings[""]) {
			t.Errorf("%s.gz has other bytes than the file: %v", name, err)
		}
	}
}

// TestFirstLoadIsSmall is W1: the files that the page names are the first load; each other file belongs to screens.
func TestFirstLoadIsSmall(t *testing.T) {
	t.Parallel()

	p := builtPortal(t)
	first := map[string]int{}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile(`/portal/(assets/[^"]+)`).FindAllSubmatch(p.Page(""), -1) {
		name := string(m[1])
		named[name] = true
		first[name[strings.LastIndex(name, "."):]] += len(p.Assets[name].Encodings["gzip"])
	}
	t.Logf("first load, gzipped: %d bytes of scripts, %d of styles", first[".js"], first[".css"])
	if first[".js"] == 0 || first[".js"] > firstScripts || first[".css"] == 0 || first[".css"] > firstStyles {
		t.Errorf("the first load has %v bytes, and at most %d of scripts and %d of styles are allowed", first, firstScripts, firstStyles)
	}
	for name, a := range p.Assets {
		most := routeScripts
		if strings.HasPrefix(name, "assets/terminal-") {
			most = terminalScripts
		}
		if size := len(a.Encodings["gzip"]); !named[name] && size > most {
			t.Errorf("%s has %d bytes, and at most %d are allowed", name, size, most)
		}
	}
}

// TestUnbuiltPortal: a program without the bundle starts, and knows that the portal has no page.
func TestUnbuiltPortal(t *testing.T) {
	t.Parallel()

	p, err := web.PortalOf(fstest.MapFS{".keep": {}})
	if err != nil || p.Built() {
		t.Errorf("%v, %v", p, err)
	}
	if _, err := web.PortalOf(fstest.MapFS{"index.html": {Data: []byte("<html>")}}); err == nil {
		t.Error("a page without the place of its nonce is accepted")
	}
}

// TestScriptsReachNoOtherSite: the portal loads nothing from elsewhere, and evaluates no text.
func TestScriptsReachNoOtherSite(t *testing.T) {
	t.Parallel()

	p := builtPortal(t)
	if page := string(p.Page("")); regexp.MustCompile(`<script(>| [^>]*>[^<])`).MatchString(page) || strings.Contains(page, "<style") || strings.Contains(page, `="http`) {
		t.Errorf("the page has inline code, or names another site:\n%s", page)
	}
}

// TestVersionsAreExact: package.json names exact versions, and docs/dependencies.md lists them.
func TestVersionsAreExact(t *testing.T) {
	t.Parallel()

	var manifest struct{ Dependencies, DevDependencies map[string]string }
	text, err := os.ReadFile("package.json")
	if err == nil {
		err = json.Unmarshal(text, &manifest)
	}
	documented, errDoc := os.ReadFile("../docs/dependencies.md")
	if err != nil || errDoc != nil {
		t.Fatal(err, errDoc)
	}
	maps.Copy(manifest.Dependencies, manifest.DevDependencies)
	for name, version := range manifest.Dependencies {
		if !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(version) {
			t.Errorf("%s has the version %s, which is not exact", name, version)
		}
		if !strings.Contains(string(documented), "| `"+name+"` | "+version+" |") {
			t.Errorf("%s %s is not in docs/dependencies.md", name, version)
		}
	}
}

func builtPortal(t *testing.T) *web.Portal {
	t.Helper()
	p, err := web.NewPortal()
	if err != nil {
		t.Fatal(err)
	}
	if !p.Built() {
		t.Skip("the bundle is not built: make portal")
	}
	return p
}
