package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/internal/version"
)

// build is the tag, with the commit where the binary knows it.
func build() string {
	if r := version.Revision(); r != "" {
		return version.Version + " (" + r + ")"
	}
	return version.Version
}

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Version of this binary", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": version.Version, "revision": version.Revision(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			raw, err := encode(v)
			if err != nil {
				return err
			}
			if a.format() == "table" || a.format() == "wide" {
				_, err = fmt.Fprintf(a.Out, "gpuaas %s, %s, %s\n", build(), v["go"], v["platform"])
				return err
			}
			return a.show(raw, table{names: []string{v["version"]}})
		},
	}
}
