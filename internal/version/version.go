// Package version returns the version of this build.
package version

import "runtime/debug"

// Version is set by the linker, from the nearest tag:
// -X github.com/gpuaas/gpuaas/internal/version.Version=v0.1.0
var Version = "devel"

// Revision returns the commit of the build, with "+dirty" if the work tree differed from it, or ""
// if the build had no checkout.
func Revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return revisionOf(info.Settings)
}

// shown is the length of an abbreviated commit hash.
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
