//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestANewcomerReachesAShell is AT-104: at most six clicks from the sign-in, and no text entered, lead to a shell that
// executes a command.
func TestANewcomerReachesAShell(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	h := newInstallation(t)
	h.start()
	server, _ := h.addresses()
	b.open(server + "/sign-in")
	clicks := 0
	for _, target := range []string{
		`button[value="dev@dev.localhost"]`,
		`header a[href="/portal/launch"]`,
		`input[name="sku"][value="t4"]`,
		`form.stack > section button[type="submit"]:not(:disabled)`,
		`main a[href$="/terminal"]`,
	} {
		b.click(target)
		clicks++
	}
	b.shows("", "Connected.")
	b.types(".xterm-helper-textarea", "exit 5\ue007")
	b.shows("", "The shell ended with status 5.")
	if clicks > 6 {
		t.Errorf("%d clicks", clicks)
	}
	keyboardAlone(b, server)
}

// keyboardAlone is the same journey without a mouse, in a window of 320 pixels: it launches, enters the shell, leaves it,
// and releases. Each control that has the focus shows it, and has a name for screen readers.
func keyboardAlone(b *browser, server string) {
	b.t.Helper()
	b.must("DELETE", "/cookie", nil, nil)
	b.window(320, 640)
	b.open(server + "/sign-in")
	b.reaches(`button[value="dev@dev.localhost"]`, keyEnter)
	b.shows("/portal/", "(dev@dev.localhost)")
	b.reaches(`header a[href="/portal/launch"]`, keyEnter)
	b.shows("/portal/launch", "NVIDIA")
	b.hasFocus("h1")
	b.reaches(`input[name="sku"]`, keySpace)
	for range 8 {
		if b.focused(`[value="t4"]`) {
			break
		}
		b.keys(keyDown)
	}
	b.shows("/portal/launch", "It fits now")
	b.named()
	b.reaches(`form.stack > section button[type="submit"]`, keyEnter)
	b.shows("", "gpuaas ssh ")
	b.must("POST", "/back", nil, nil) // to an empty form: what was sent is not sent again
	b.shows("/portal/launch", "Choose an SKU first.")
	b.must("POST", "/forward", nil, nil)
	b.shows("", "gpuaas ssh ")
	b.named()
	b.reaches(`main a[href$="/terminal"]`, keyEnter)
	b.shows("", "Connected.")
	b.hasFocus(".xterm-helper-textarea")
	b.named()
	b.keys("true" + keyEnter)
	b.keys(keyEscape + keyTab)
	b.reaches(`main a[href^="/portal/allocations/"]`, keyEnter)
	b.shows("", "gpuaas ssh ")
	releaseByKeys(b)
}

// releaseByKeys releases the allocation of the screen. Cancel returns the focus.
func releaseByKeys(b *browser) {
	b.t.Helper()
	var name string
	b.script(`
		[...document.querySelectorAll("main button")].find((button) => button.textContent === "Release").dataset.test = "release";
		return document.querySelector("h1").textContent`, &name)
	b.reaches(`[data-test="release"]`, keyEnter)
	b.hasFocus(`[role="dialog"] input`)
	b.named()
	b.keys(keyEscape)
	b.hasFocus(`[data-test="release"]`)
	b.keys(keyEnter)
	b.hasFocus(`[role="dialog"] input`)
	b.keys(name)
	b.reaches(`[role="dialog"] button[type="submit"]`, keyEnter)
	until(b.t, patience, "a screen reader reads that it is released", func() error {
		if spoken := b.live(); !strings.Contains(spoken, name) {
			return fmt.Errorf("it reads %q", spoken)
		}
		return nil
	})
	b.shows("", "Released")
}
