// Package version returns the version of this build.
package version

import (
	"regexp"
	"runtime/debug"
	"strings"
)

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

// release matches the version of a release. git describe adds to it what was committed since.
var release = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)[.0-9]*)?$`)

// Installable returns the version by which "go install" finds this build: its release, or its commit. It
// returns "" for a build of a changed work tree, which nothing can download.
func Installable() string { return installable(Version, Revision()) }

func installable(version, revision string) string {
	if release.MatchString(version) {
		return version
	}
	if strings.HasSuffix(revision, "+dirty") {
		return ""
	}
	return revision
}

// commitLength is the length of an abbreviated commit hash.
const commitLength = 12

func revisionOf(settings []debug.BuildSetting) string {
	var revision, dirty string
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(len(s.Value), commitLength)]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + dirty
}
