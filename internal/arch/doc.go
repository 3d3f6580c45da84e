// Package arch holds the tests that keep the house in its shape: who may import
// whom, whose tables a statement may name, what the node binary links.
//
// They read the sources in process. A test that ran `go list` would be answered
// from the test cache and keep passing after a violation; files that a test
// opens itself belong to the cache's key.
package arch
