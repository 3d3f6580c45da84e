// Package version says which build this is.
package version

import "runtime/debug"

// Version is set by the linker, from the nearest tag:
// -X github.com/gpuaas/gpuaas/internal/version.Version=v0.1.0
var Version = "devel"

// Revision is the commit that was built, with "+dirty" when the work tree held
// more than the commit, or "" when it was not built from a checkout.
func Revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return revisionOf(info.Settings)
}

// shown is how much of a commit's name git shows where it has room.
const shown = 12

func revisionOf(settings []debug.BuildSetting) string {
	var revision, dirty string
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(len(s.Value), shown)]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + dirty
}
