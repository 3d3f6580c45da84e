package access

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// NewSCP returns the command scp.
func NewSCP(a *output.Console) *cobra.Command {
	var recursive bool
	cmd := &cobra.Command{
		Use: "scp SOURCE… TARGET", Short: "Copy files from and to an allocation", Args: cobra.MinimumNArgs(2),
		Long:    "Copies files with scp through the installation. NAME:PATH is a path in an allocation. All of them must be of one allocation.",
		Example: "  gpuaas scp model.pt brave-otter:\n  gpuaas scp -r brave-otter:results .",
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := remoteOf(args)
			if err != nil {
				return err
			}
			t, err := find(cmd.Context(), a, name)
			if err != nil {
				return err
			}
			if err := t.prepare(cmd.Context(), false); err != nil {
				return err
			}
			paths := []string{"--"}
			if recursive {
				paths = []string{"-r", "--"}
			}
			for _, arg := range args {
				if path, remote := strings.CutPrefix(arg, name+":"); remote {
					arg = t.host() + ":" + path
				}
				paths = append(paths, arg)
			}
			return t.run(cmd.Context(), "scp", paths)
		},
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "copy folders")
	return cmd
}

// remoteOf returns the allocation of the paths.
func remoteOf(paths []string) (name string, err error) {
	for _, path := range paths {
		before, _, remote := strings.Cut(path, ":")
		switch {
		case !remote || strings.Contains(before, "/"):
		case name != "" && name != before:
			return "", errs.Invalid("path", "the paths are of the allocations %s and %s", name, before).Try("copy to a local folder first")
		default:
			name = before
		}
	}
	if name == "" {
		return "", errs.Invalid("path", "no path is of an allocation").Try("gpuaas scp FILE NAME:")
	}
	return name, nil
}
