package access

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

const openText = `Opens an allocation in an editor on this computer, or its terminal in the browser. Editors connect through
the configuration that gpuaas ssh-config writes, and need forwarding (terminal.forwarding_enabled).`

// places lists where an allocation opens: a program with its arguments, or an address.
var places = map[string]func(t *target) []string{
	"vscode": func(t *target) []string { return []string{"code", "--remote", "ssh-remote+" + t.name()} },
	"cursor": func(t *target) []string { return []string{"cursor", "--remote", "ssh-remote+" + t.name()} },
	"jetbrains": func(t *target) []string {
		return []string{"jetbrains-gateway://connect#" + url.Values{"type": {"ssh"}, "host": {t.name()}, "port": {"22"}, "user": {t.allocation.Login}}.Encode()}
	},
	"browser": func(t *target) []string {
		return []string{strings.TrimRight(t.client.Settings.URL, "/") + "/portal/allocations/" + t.allocation.Id.String() + "/terminal"}
	},
}

// NewOpen returns the command open.
func NewOpen(a *output.Console) *cobra.Command {
	var in string
	var printed bool
	names := strings.Join(slices.Sorted(maps.Keys(places)), ", ")
	cmd := &cobra.Command{
		Use: "open NAME --in PLACE", Short: "Open an allocation in an editor or in the browser", Long: openText, Args: cobra.ExactArgs(1),
		Example: "  gpuaas open brave-otter --in vscode\n  gpuaas open brave-otter --in browser --print",
		RunE: func(cmd *cobra.Command, args []string) error {
			place, ok := places[in]
			if !ok {
				return errs.Invalid("in", "%q is not one of %s", in, names)
			}
			t, err := find(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			if in != "browser" {
				if err := configured(); err != nil {
					return err
				}
			}
			words := place(t)
			switch {
			case printed:
				return a.Write(t.line(words) + "\n")
			case in == "browser":
				a.Visit(words[0], a.Browser(), "Open this page:")
				return nil
			case len(words) == 1:
				a.Visit(words[0], a.Viewer(), "Open this address:")
				return nil
			}
			return t.launch(cmd.Context(), words)
		},
	}
	cmd.Flags().StringVar(&in, "in", "", "where to open it: "+names)
	cmd.Flags().BoolVar(&printed, "print", false, "print the command or the address instead")
	_ = cmd.MarkFlagRequired("in")
	return cmd
}

// name is the name by which ssh finds the allocation after ssh-config.
func (t *target) name() string { return t.allocation.Name + hostSuffix }

// configured reports whether ssh finds allocations by name.
func configured() error {
	home, err := os.UserHomeDir()
	if err == nil {
		_, err = os.Stat(filepath.Join(home, ".ssh", configFile))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return errs.New(errs.Conflict, "ssh does not find allocations by name yet").Try("gpuaas ssh-config")
	}
	return err
}

func (*target) line(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = quote(word)
	}
	return strings.Join(quoted, " ")
}

func (t *target) launch(ctx context.Context, words []string) error {
	path, err := exec.LookPath(words[0])
	if err != nil {
		return &output.CommandError{Message: words[0] + " is not installed", Code: string(errs.Unavailable), Try: "install it and its command for the shell, or add --print", Exit: output.ExitFailure}
	}
	run := exec.CommandContext(ctx, path, words[1:]...) //nolint:gosec // the user's own editor, with our arguments
	run.Stdout, run.Stderr = t.console.Out, t.console.Err
	return run.Run()
}
