package version

import (
	"runtime/debug"
	"testing"
)

func TestRevision(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settings []debug.BuildSetting
		want     string
	}{
		"no checkout":       {want: ""},
		"only dirt":         {[]debug.BuildSetting{{Key: "vcs.modified", Value: "true"}}, ""},
		"a commit":          {[]debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}}, "0123456789ab"},
		"a short name":      {[]debug.BuildSetting{{Key: "vcs.revision", Value: "0123"}}, "0123"},
		"a changed tree":    {[]debug.BuildSetting{{Key: "vcs.revision", Value: "0123"}, {Key: "vcs.modified", Value: "true"}}, "0123+dirty"},
		"an unchanged tree": {[]debug.BuildSetting{{Key: "vcs.revision", Value: "0123"}, {Key: "vcs.modified", Value: "false"}}, "0123"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := revisionOf(c.settings); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestInstallable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ version, revision, want string }{
		{"v1.2.3", "0123456789ab", "v1.2.3"},
		{"v1.2.3-rc.1", "0123456789ab", "v1.2.3-rc.1"},
		{"v1.2.3-4-g0123456", "0123456789ab", "0123456789ab"},
		{"devel", "0123456789ab", "0123456789ab"},
		{"v1.2.3-dirty", "0123456789ab+dirty", ""},
		{"devel", "", ""},
	} {
		if got := installable(c.version, c.revision); got != c.want {
			t.Errorf("%s at %s: got %q, want %q", c.version, c.revision, got, c.want)
		}
	}
}
