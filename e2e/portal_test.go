//go:build e2e

package e2e

import (
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// axe checks the accessibility of a page. It is compressed, because 650 kB of it are never read.
//
//go:embed testdata/axe-4.14.1.min.js.gz
var axe string

func axeScript(t testing.TB) string {
	t.Helper()
	r, err := gzip.NewReader(strings.NewReader(axe))
	must(t, err)
	script, err := io.ReadAll(r)
	must(t, err)
	return string(script)
}

// accessible runs axe on the page in both schemes, of which the second one differs in its contrast only.
func (b *browser) accessible(screen string) {
	b.t.Helper()
	b.script(axeScript(b.t)+"; return null", nil)
	for _, c := range []struct{ scheme, rules string }{{"light", ""}, {"dark", `, runOnly: ["color-contrast"]`}} {
		b.prefers(c.scheme)
		var found []string
		b.must("POST", "/execute/async", map[string]any{"args": []any{}, "script": `
			const done = arguments[0];
			axe.run({resultTypes: ["violations"]` + c.rules + `}).then(({violations}) => done(violations.map((v) =>
				v.id + ": " + v.help + " " + v.nodes.map((n) => n.html.slice(0, 200) + " " + n.failureSummary).join(" | "))), (e) => done([String(e)]))`}, &found)
		for _, violation := range found {
			b.t.Errorf("%s, %s: %s", screen, c.scheme, violation)
		}
	}
}

// prefers sets the scheme of the system, and waits for the page to follow.
func (b *browser) prefers(scheme string) {
	b.t.Helper()
	b.must("POST", "/goog/cdp/execute", map[string]any{"cmd": "Emulation.setEmulatedMedia", "params": map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}},
	}}, nil)
	until(b.t, patience, "the page is "+scheme, func() error {
		var now string
		if b.script(`return document.documentElement.dataset.mantineColorScheme`, &now); now != scheme {
			return fmt.Errorf("it is %s", now)
		}
		return nil
	})
}

// complaints returns what the browser has logged about the policy of the portal, and errors of its scripts.
func (b *browser) complaints() (all []string, err error) {
	var entries []struct{ Level, Message, Source string }
	err = b.ask("POST", "/se/log", map[string]any{"type": "browser"}, &entries)
	for _, e := range entries {
		policy := strings.Contains(e.Message, "Content Security Policy")
		if strings.Contains(e.Message, "/portal/") && (policy || e.Source == "javascript") {
			all = append(all, e.Message)
		}
	}
	return all, err
}

// press clicks the button with a text. React handles a click of a script as one of a user.
func (b *browser) press(text string) {
	b.t.Helper()
	b.script(fmt.Sprintf(`
		const button = [...document.querySelectorAll("button")].find((b) => b.textContent === %q && b.offsetParent);
		button.focus();
		button.click()`, text), nil)
}

// TestPortalInABrowser is the journey of a newcomer through the embedded portal: sign in, launch, watch, change the expiry,
// release, manage keys, projects and members, and read the bill. Each screen has no violation of axe, and no page one of its policy.
func TestPortalInABrowser(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	h := newInstallation(t)
	h.start()
	server, _ := h.addresses()
	b.open(server + "/portal/launch")
	b.click(`button[value="dev@dev.localhost"]`) // the sign-in leads to the requested screen
	b.shows("/portal/launch", "NVIDIA")
	b.accessible("launch")

	b.click(`input[name="sku"][value="t4"]`)
	b.shows("/portal/launch", "It fits now")
	b.types(`input[maxlength="63"]`, "calm-otter")
	b.shows("/portal/launch", "--sku t4 --gpus 1 --ttl 2h --name calm-otter")
	b.accessible("launch with a preview")
	// Two clicks in one turn of the page create one allocation.
	b.script(`const b = document.querySelector("form.stack > section button[type=submit]"); b.click(); b.click()`, nil)
	b.shows("", "gpuaas ssh calm-otter")
	if n := queryOne[int](t, h, `SELECT count(*) FROM allocations WHERE name = $1`, "calm-otter"); n != 1 {
		t.Errorf("a double click created %d allocations", n)
	}
	until(t, 2*patience, "readings of the GPU", func() error {
		var canvas int
		if b.script(`return document.querySelectorAll("canvas").length`, &canvas); canvas != 3 {
			return fmt.Errorf("%d charts", canvas)
		}
		return nil
	})
	b.accessible("allocation")

	b.types(`form.panel input`, "5")
	b.script(`document.querySelector("form.panel button[type=submit]").click()`, nil)
	b.shows("", "The allocation expires")
	before := queryOne[time.Time](t, h, `SELECT expires_at FROM allocations WHERE name = $1`, "calm-otter")
	b.press("Undo")
	until(t, patience, "the former expiry", func() error {
		if now := queryOne[time.Time](t, h, `SELECT expires_at FROM allocations WHERE name = $1`, "calm-otter"); !now.Before(before.Add(-time.Hour)) {
			return fmt.Errorf("it expires at %s", now)
		}
		return nil
	})
	editInABrowser(b)
	terminalInABrowser(t, b, h, server)
	recordingInABrowser(t, b, h, server)

	b.open(server + "/portal/allocations?status=active")
	b.shows("/portal/allocations?status=active", "calm-otter")
	b.accessible("allocations")
	selectionInABrowser(b)
	b.open(server + "/portal/allocations?status=failed")
	b.shows("/portal/allocations?status=failed", "No allocation matches the filters.")
	b.open(server + "/portal/allocations?status=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E")
	b.shows("", "Error ")
	b.accessible("allocations with an error")

	b.open(server + "/portal/")
	b.shows("/portal/", "calm-otter")
	b.accessible("home")
	handsInABrowser(b)
	keysInABrowser(t, b, server)
	projectsInABrowser(b, server)
	membersInABrowser(b, server)
	b.open(server + "/portal/billing")
	b.shows("/portal/billing", "test_credit")
	b.accessible("billing")
	limitsInABrowser(b)
	b.script(`localStorage.setItem("gpuaas.contrast", "high"); document.documentElement.dir = "rtl"`, nil)
	b.accessible("billing from right to left")
	b.open(server + "/portal/billing")
	b.shows("/portal/billing", "test_credit")
	b.accessible("billing with high contrast")
	b.open(server + "/portal/nothing")
	b.shows("/portal/nothing", "This screen does not exist")
	b.accessible("unknown screen")

	b.open(server + "/portal/")
	b.shows("/portal/", "calm-otter")
	b.script(`[...document.querySelectorAll("a")].find((a) => a.textContent === "calm-otter").click()`, nil)
	b.shows("", "gpuaas ssh calm-otter")
	b.press("Release")
	b.find(`[role="dialog"] input`)
	b.accessible("release")
	b.press("Cancel")
	until(t, patience, "the focus returns", func() error {
		var focused string
		if b.script(`return document.activeElement.textContent`, &focused); focused != "Release" {
			return fmt.Errorf("%.100q has it", focused)
		}
		return nil
	})
	b.press("Release")
	b.types(`[role="dialog"] input`, "calm-otter")
	b.script(`document.querySelector("[role=dialog] button[type=submit]").click()`, nil)
	b.shows("", "Released")
	b.shows("", "Public key of the node")
	b.accessible("finished allocation")
	statementInABrowser(t, b, h, server)
}

// TestPortalIsOff: the API and the pages without scripts are served alone.
func TestPortalIsOff(t *testing.T) {
	t.Parallel()
	h := newInstallation(t)
	h.start("GPUAAS_PORTAL=off")
	server, _ := h.addresses()
	for path, want := range map[string]int{"/portal/": 404, "/": 200, "/readyz": 200} {
		if got := status(t, "GET", server+path, ""); got != want {
			t.Errorf("%s: %d", path, got)
		}
	}
}
