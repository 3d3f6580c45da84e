// Package arch contains the tests of the architecture: imports between packages, tables that a
// statement may name, and what the node binary links.
//
// The tests read the sources in process. A test that runs `go list` would be answered from the test
// cache and would pass after a violation. Files that a test itself opens are part of the cache
// key.
package arch
