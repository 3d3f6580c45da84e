//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// readings counts the calls of the page to the API, apart from the stream of events.
const readings = `return performance.getEntriesByType("resource").filter(({name}) => name.includes("/api/") && !name.includes("/api/v1/events")).length`

// TestPortalIsLive is AT-106: the page shows what another client changes, without a reload and without polls. The server
// restarts under the page, and nothing is lost. Two tabs share one stream, and the second one continues it.
func TestPortalIsLive(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	h := newInstallation(t, "--listen", fmt.Sprintf("127.0.0.1:%d", freePort(t))) // the page knows one address
	h.start()
	server, _ := h.addresses()
	b.open(server + "/portal/allocations")
	b.click(`button[value="dev@dev.localhost"]`)
	b.find(`[data-stream="live"]`)
	b.shows("/portal/allocations", "There is no allocation")
	b.script(`window.loaded = "once"`, nil)

	a := h.create(t, "t4", 1)
	b.hasRow(a.Name, "Active")
	b.accessible("live allocations")
	quiet := b.readings()
	time.Sleep(20 * time.Second) // longer than the interval of a screen without a stream
	if n := b.readings() - quiet; n != 0 {
		t.Errorf("the page polls: %d calls in 20 s", n)
	}

	h.stop()
	b.find(`[data-stream="connecting"], [data-stream="polling"]`)
	h.start()
	h.release(t, a)
	second := h.create(t, "t4", 1)
	b.hasRow(a.Name, "Released")
	b.hasRow(second.Name, "Active")
	b.find(`[data-stream="live"]`)
	var loaded string
	if b.script(`return window.loaded`, &loaded); loaded != "once" {
		t.Error("the page was loaded again")
	}

	b.newTab()
	b.open(server + "/portal/allocations")
	b.find(`[data-stream="live"]`)
	b.hasLocks(1, 1)
	b.closeOtherTabs()
	b.hasLocks(1, 0)
	h.release(t, second)
	b.hasRow(second.Name, "Released")
}

func (b *browser) readings() (n int) {
	b.t.Helper()
	b.script(readings, &n)
	return n
}

// hasRow waits for a row of a table with a name and a state.
func (b *browser) hasRow(name, state string) {
	b.t.Helper()
	until(b.t, patience, name+" is "+state, func() error {
		var rows []string
		b.script(fmt.Sprintf(`return [...document.querySelectorAll("tbody tr")].map((row) => row.innerText).filter((text) => text.includes(%q))`, name), &rows)
		for _, row := range rows {
			if strings.Contains(row, state) {
				return nil
			}
		}
		return fmt.Errorf("rows %q", rows)
	})
}

// hasLocks waits for the tabs that lead the stream, and those that wait to lead it.
func (b *browser) hasLocks(leading, pending int) {
	b.t.Helper()
	until(b.t, patience, "one tab leads", func() error {
		var got []int
		b.must("POST", "/execute/async", map[string]any{"args": []any{}, "script": `
			const done = arguments[0];
			navigator.locks.query().then((all) => done(Object.values(all).map((locks) => locks.filter(({name}) => name.startsWith("gpuaas.events")).length)))`}, &got)
		if len(got) != 2 || got[0] != leading || got[1] != pending {
			return fmt.Errorf("%v lead and wait", got)
		}
		return nil
	})
}

func (b *browser) newTab() {
	b.t.Helper()
	var made struct{ Handle string }
	b.must("POST", "/window/new", map[string]string{"type": "tab"}, &made)
	b.must("POST", "/window", map[string]string{"handle": made.Handle}, nil)
}

// closeOtherTabs leaves the present tab.
func (b *browser) closeOtherTabs() {
	b.t.Helper()
	var present string
	var all []string
	b.must("GET", "/window", nil, &present)
	b.must("GET", "/window/handles", nil, &all)
	for _, handle := range all {
		if handle != present {
			b.must("POST", "/window", map[string]string{"handle": handle}, nil)
			b.must("DELETE", "/window", nil, nil)
		}
	}
	b.must("POST", "/window", map[string]string{"handle": present}, nil)
	if len(all) < 2 {
		b.t.Error("there is no other tab")
	}
}
