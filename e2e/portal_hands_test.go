//go:build e2e

package e2e

// editInABrowser labels the allocation of the screen, and opens the dialog of a fault.
func editInABrowser(b *browser) {
	b.t.Helper()
	b.press("Change name and labels")
	b.types(`form textarea`, "team=speech")
	b.accessible("allocation with a form")
	b.press("Save")
	b.shows("", "team=speech")
	b.press("Report a fault")
	b.find(`[role="dialog"] textarea`)
	b.accessible("report of a fault")
	b.press("Cancel")
}

// handsInABrowser reads the shortcuts, and goes to a screen with the command palette.
func handsInABrowser(b *browser) {
	b.t.Helper()
	b.press("Keyboard")
	b.shows("", "Open Allocations")
	b.accessible("help sheet")
	b.click(`[role="dialog"] button[aria-label="Close"]`)
	b.press("Commands")
	b.find(`[role="combobox"]`)
	b.accessible("command palette")
	b.types(`[role="combobox"]`, "otter")
	b.click(`[role="option"][id^="found-"]`)
	b.shows("", "gpuaas ssh calm-otter")
}
