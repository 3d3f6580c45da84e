// Package docs contains the runbooks, which the API returns. Its tests check the documentation: a link
// leads somewhere, a command exists with its flags, and generated pages are up to date.
//
// The tests read files in process, so that the test cache depends on these files.
package docs

import "embed"

//go:generate go test -tags nomsgpack -run TestReference . -update

// Runbooks are the pages of the folder runbooks.
//
//go:embed runbooks/*.md
var Runbooks embed.FS
