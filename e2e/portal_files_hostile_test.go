//go:build e2e

package e2e

import (
	"os"
	"testing"
	"time"
)

// storedScripts are files that mark the storage of their origin where a browser executes them, with the cookies that they read.
var storedScripts = map[string]string{
	"page.html":  `<!doctype html><title>ran</title><script>localStorage.setItem("ran", "html " + document.cookie)</script>`,
	"page.xhtml": `<html xmlns="http://www.w3.org/1999/xhtml"><body><script>localStorage.setItem("ran", "xhtml " + document.cookie)</script></body></html>`,
	"image.svg":  `<svg xmlns="http://www.w3.org/2000/svg" onload='localStorage.setItem("ran", "svg " + document.cookie)'/>`,
	"script.js":  `localStorage.setItem("ran", "js " + document.cookie)`,
	"feed.xml":   `<?xml version="1.0"?><x xmlns:h="http://www.w3.org/1999/xhtml"><h:script>localStorage.setItem("ran", "xml " + document.cookie)</h:script></x>`,
	"data.json":  `localStorage.setItem("ran", "json " + document.cookie)`,
	"table.csv":  `localStorage.setItem("ran", "csv " + document.cookie)`,
	"image.png":  `<script>localStorage.setItem("ran", "png " + document.cookie)</script>`,
}

// mediaTypes has the type of each that a client can have declared.
var mediaTypes = map[string]string{
	"page.html": "text/html", "page.xhtml": "application/xhtml+xml", "image.svg": "image/svg+xml", "script.js": "text/javascript", "feed.xml": "application/xml",
	"data.json": "application/json", "table.csv": "text/csv", "image.png": "image/png",
}

// embed shows an address in each way that can execute it, and returns when all have loaded or failed.
const embed = `
	const [url, done] = arguments;
	const ways = ["iframe", "object", "embed", "script", "img"].map((tag) => {
		const element = document.createElement(tag);
		element[tag === "object" ? "data" : "src"] = url;
		const ended = new Promise((resolve) => { element.onload = element.onerror = resolve; setTimeout(resolve, 2000); });
		document.body.append(element);
		return ended;
	});
	Promise.all(ways).then(() => done(localStorage.getItem("ran")), (failure) => done(String(failure)));`

// TestStoredFilesRunNothingInOurOrigin: a person who has signed in opens files with scripts at the address of the API, and a page of
// the portal embeds them. No script runs, and none reads a cookie.
func TestStoredFilesRunNothingInOurOrigin(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	h := newInstallation(t)
	h.start()
	server, _ := h.addresses()
	b.signsIn(server, "dev@dev.localhost")
	marked := func(what string) {
		t.Helper()
		var ran *string
		if b.script(`return localStorage.getItem("ran")`, &ran); ran != nil {
			t.Errorf("%s runs a script: %s", what, *ran)
			b.script(`localStorage.removeItem("ran")`, nil)
		}
	}
	for name, text := range storedScripts {
		must(t, os.WriteFile(h.path(name), []byte(text), 0o600))
		if r := h.cli("storage", "cp", h.path(name), ":"+name); r.code != 0 {
			t.Fatalf("%s: %d %s", name, r.code, r.err)
		}
		h.retype(t, name, mediaTypes[name])
		var signed struct{ URL string }
		status, err := h.call("POST", "/api/v1/storage/sign", "sign-"+name, map[string]any{"path": name, "method": "GET"}, &signed)
		if err != nil || status != 200 {
			t.Fatalf("signing %s: %d %v", name, status, err)
		}
		for what, url := range map[string]string{"a signed URL": signed.URL, "a download": server + "/api/v1/storage/download?path=" + name} {
			b.open(server + "/portal/")
			_ = b.ask("POST", "/url", map[string]any{"url": url}, nil) // the end of a navigation that became a download is an error of some drivers
			time.Sleep(300 * time.Millisecond)                         // nothing signals that nothing happens
			b.open(server + "/portal/")
			marked(what + " of " + name)
			var ran *string
			b.must("POST", "/execute/async", map[string]any{"script": embed, "args": []any{url}}, &ran)
			if ran != nil {
				t.Errorf("%s of %s is executed where a page embeds it: %s", what, name, *ran)
				b.script(`localStorage.removeItem("ran")`, nil)
			}
		}
	}
	// The policy of the portal blocks what a page embeds. The browser would fail its test for that otherwise.
	if all, err := b.complaints(); err != nil || len(all) == 0 {
		t.Errorf("the policy has blocked %q, %v", all, err)
	}
	// The mark itself works.
	b.script(`localStorage.setItem("ran", "self")`, nil)
	var self *string
	if b.script(`return localStorage.getItem("ran")`, &self); self == nil {
		t.Error("the page cannot store a mark")
	}
}

// retype sets the media type of a file, as an upload in parts or an S3 tool can.
func (h *installation) retype(t *testing.T, name, mediaType string) {
	t.Helper()
	db, err := h.sql(t.Context())
	must(t, err)
	defer db.Close(t.Context())
	tag, err := db.Exec(t.Context(), `UPDATE storage_objects SET media_type = $2 WHERE name = $1`, name, mediaType)
	if must(t, err); tag.RowsAffected() != 1 {
		t.Fatalf("there are %d files named %s", tag.RowsAffected(), name)
	}
}
