//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
)

// TestANewVersionUnderAnOpenTab: the server has a new version, without a part of the bundle that a tab has loaded. The tab
// offers a reload while the part is missing, opens the screen after it, and loses no input of a form.
func TestANewVersionUnderAnOpenTab(t *testing.T) {
	t.Parallel()
	var isNew atomic.Bool
	server := servePortal(t, func(path string) bool { return isNew.Load() && strings.Contains(path, "/assets/billing-") })
	b := newMeasuring(t)
	b.replies("success")
	b.window(1280, 1024)
	b.open(server + "/portal/projects")
	b.types(`form.panel input[maxlength="63"]`, "speech")
	isNew.Store(true)
	b.click(`header a[href="/portal/billing"]`)
	b.shows("/portal/billing", "A new version of the portal is available")
	isNew.Store(false)
	b.press("Reload")
	b.shows("/portal/billing", "Usage this month")
	b.open(server + "/portal/projects")
	b.find(`form.panel input[maxlength="63"]`)
	until(t, patience, "the form has its input", func() error {
		var input string
		if b.script(`return document.querySelector("form.panel input[maxlength=\"63\"]").value`, &input); input != "speech" {
			return fmt.Errorf("it has %q", input)
		}
		return nil
	})
}
