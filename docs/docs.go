// Package docs holds the runbooks, which the API returns, and the
// tests that keep the documentation true: a link leads somewhere, a command exists
// with its flags, and what can be derived from the code is.
//
// The tests read files in process, so that the test cache knows what they rest on.
package docs

import "embed"

//go:generate go test -tags nomsgpack -run TestReference . -update

// Runbooks are the pages of the folder runbooks.
//
//go:embed runbooks/*.md
var Runbooks embed.FS
