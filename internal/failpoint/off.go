//go:build !failpoint

package failpoint

// Hit does nothing in a binary that was not built for fault tests.
func Hit(string) {}
