package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is what the toolchain stamped into the binary: a tag, or a commit.
func version() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := build.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	revision, dirty := "", ""
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "+changes"
			}
		}
	}
	if revision == "" {
		return "development"
	}
	return revision + dirty
}

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Version of this binary", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": version(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			raw, err := encode(v)
			if err != nil {
				return err
			}
			if a.format() == "table" || a.format() == "wide" {
				_, err = fmt.Fprintf(a.Out, "gpuaas %s (%s, %s)\n", v["version"], v["go"], v["platform"])
				return err
			}
			return a.show(raw, table{names: []string{v["version"]}})
		},
	}
}
