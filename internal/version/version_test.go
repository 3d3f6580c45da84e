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
