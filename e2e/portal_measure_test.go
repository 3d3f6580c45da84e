//go:build e2e

package e2e

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/api/rest/bare"
	"github.com/gpuaas/gpuaas/api/rest/portal"
	"github.com/gpuaas/gpuaas/e2e/layout"
	"github.com/gpuaas/gpuaas/web"
)

// brokenLayouts is a page with parts that break the rules of a layout.
//
//go:embed testdata/layout-faults.html
var brokenLayouts []byte

// servePortal serves the embedded portal with the headers of the server, apart from what is missing.
func servePortal(t *testing.T, isMissing func(path string) bool) string {
	t.Helper()
	p, err := web.NewPortal()
	must(t, err)
	screens, mux := bare.Portal(p), http.NewServeMux()
	mux.HandleFunc(portal.Path, func(w http.ResponseWriter, r *http.Request) {
		if isMissing(r.URL.Path) {
			http.NotFound(w, r)
			return
		}
		screens.ServeHTTP(w, r)
	})
	mux.HandleFunc("/faults", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(brokenLayouts) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// nothing is missing in a portal that is complete.
func nothing(string) bool { return false }

// newMeasuring starts a browser whose pages answer their calls by themselves. They have no scroll bars, which would move what
// is centred.
func newMeasuring(t *testing.T) *browser {
	t.Helper()
	b := newBrowser(t)
	b.cdp("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": "light"}}})
	b.cdp("Emulation.setScrollbarsHidden", map[string]any{"hidden": true})
	b.before(layout.Page)
	b.before(axeScript(t))
	return b
}

// replies makes each page answer its calls as in a state, from the next one that is opened.
func (b *browser) replies(state string) {
	b.t.Helper()
	all, err := layout.Replies(state)
	must(b.t, err)
	text, err := json.Marshal(all)
	must(b.t, err)
	b.before("window.replies = " + string(text))
	first := layout.SizesOf(state)[0]
	b.window(first.Width, first.Height)
}

// before runs a script before those of each page.
func (b *browser) before(script string) {
	b.t.Helper()
	b.cdp("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": script})
}

// cdp sends a command of the protocol of Chromium.
func (b *browser) cdp(command string, parameters map[string]any) {
	b.t.Helper()
	b.must("POST", "/goog/cdp/execute", map[string]any{"cmd": command, "params": parameters}, nil)
}

// findsFaults proves that each rule finds a page that breaks it, and nothing on a page that breaks none.
func (b *browser) findsFaults(server string) {
	b.t.Helper()
	b.window(320, 640)
	b.open(server + "/faults")
	var found []struct {
		Want   string
		Faults []string
	}
	b.script(`return [...document.querySelectorAll("template")].map(({title, content}) => {
		document.querySelector("main").replaceChildren(content.cloneNode(true));
		return {Want: title, Faults: measure().Faults};
	})`, &found)
	if len(found) < 10 {
		b.t.Errorf("only %d templates", len(found))
	}
	for _, f := range found {
		if f.Want == "" && len(f.Faults) > 0 || !strings.Contains(strings.Join(f.Faults, "\n"), f.Want) {
			b.t.Errorf("want the fault %q, found %q", f.Want, f.Faults)
		}
	}
}

// schemesOf are the schemes in which axe reads a screen. Each needs as much time as all measures, so a successful screen has
// two of them, and another state one. A screen with long texts has the elements of a successful one.
func schemesOf(state string, turn int) []string {
	colours := []string{"light", "dark", "contrast", "darkContrast"}
	switch state {
	case "success":
		return []string{"rtl", colours[1+turn%3]}
	case "overlong":
		return []string{}
	}
	return []string{colours[turn%len(colours)]}
}

// rows opens a screen in a state, measures it from the widest window to the narrowest, or back, and reads it with axe.
func (b *browser) rows(s layoutScreen, state string, turn int) []layout.Row {
	b.t.Helper()
	sizes := layout.SizesOf(state)
	at := make([]layout.Measured, len(sizes))
	for n := range sizes {
		i := n
		if turn%2 == 1 {
			i = len(sizes) - 1 - n
		}
		call := inspection{Schemes: []string{}, Loading: state == "loading"}
		if len(sizes) > 1 {
			b.window(sizes[i].Width, sizes[i].Height)
			call.Width = sizes[i].Width
		}
		if n == 0 {
			call.Path = s.Example
		}
		if n == len(sizes)-1 {
			call.Schemes = schemesOf(state, turn)
		}
		at[i] = b.inspects(s.Route+" "+state, call)
	}
	rows, faults := layout.Rows(at)
	for _, f := range faults {
		b.t.Errorf("%s %s, %s", s.Route, state, f)
	}
	return rows
}

// inspection is the argument of inspect in layout/page.js.
type inspection struct {
	Path    string   `json:"path"`
	Width   int      `json:"width"`
	Loading bool     `json:"loading"`
	Schemes []string `json:"schemes"`
}

func (b *browser) inspects(where string, call inspection) layout.Measured {
	b.t.Helper()
	var got struct {
		layout.Measured
		Failure    string
		Violations []string
	}
	b.must("POST", "/execute/async", map[string]any{"args": []any{call}, "script": `
		const [call, done] = arguments;
		inspect(call).then(done, (failure) => done({Failure: String(failure)}))`}, &got)
	if got.Failure != "" {
		b.t.Errorf("%s: %s", where, got.Failure)
	}
	for _, v := range got.Violations {
		b.t.Errorf("%s, %s", where, v)
	}
	return got.Measured
}
