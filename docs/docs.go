// Package docs holds the tests that keep the documentation true: a link leads
// somewhere, a command exists with its flags, and what can be derived from the
// code is.
//
// They read files in process, so that the test cache knows what they rest on.
package docs

//go:generate go test -tags nomsgpack -run TestReference . -update
