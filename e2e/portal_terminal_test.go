//go:build e2e

package e2e

import "testing"

// terminalInABrowser types in a shell of the allocation, loads the page again, and ends the shell.
func terminalInABrowser(t *testing.T, b *browser, h *installation, server string) {
	t.Helper()
	of := queryOne[string](t, h, `SELECT id::text FROM allocations WHERE name = $1`, "calm-otter")
	b.open(server + "/portal/allocations/" + of + "/terminal")
	b.shows("", "Connected.")
	b.accessible("terminal")
	b.types(".xterm-helper-textarea", "status=5\ue007")
	b.open(server + "/portal/allocations/" + of + "/terminal")
	b.shows("", "Connected.")
	if n := queryOne[int](t, h, `SELECT count(*) FROM terminal_sessions WHERE allocation_id::text = $1`, of); n != 1 {
		t.Errorf("a reload opened %d sessions", n)
	}
	b.types(".xterm-helper-textarea", "exit $status\ue007")
	b.shows("", "The shell ended with status 5.")
}
