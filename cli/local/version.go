package local

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/version"
)

// Build is the tag, with the commit where the binary knows it.
func Build() string {
	if r := version.Revision(); r != "" {
		return version.Version + " (" + r + ")"
	}
	return version.Version
}

func NewVersion(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": version.Version, "revision": version.Revision(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			raw, err := output.Encode(v)
			if err != nil {
				return err
			}
			if a.Format() == "table" || a.Format() == "wide" {
				_, err = fmt.Fprintf(a.Out, "gpuaas %s, %s, %s\n", Build(), v["go"], v["platform"])
				return err
			}
			return a.Show(raw, output.Table{Names: []string{v["version"]}})
		},
	}
}
