package local

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/local/scaffold"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/deploy/ci"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/version"
)

const initText = `Writes a fleet repository: one valid environment, examples, the schema for editors, a
README, and the pipeline of the forge for pull requests. The command needs no server. It
overwrites nothing: if one of the files exists, it writes none.`

func NewInit(a *output.Console) *cobra.Command {
	o := scaffold.Options{Version: version.Installable()}
	cmd := &cobra.Command{
		Use: "init DIR", Short: "Create a fleet repository", Long: initText, Args: cobra.ExactArgs(1),
		Example: "  gpuaas init fleet\n  gpuaas init fleet --forge gitlab --environment staging --region eu-2",
		RunE:    func(_ *cobra.Command, args []string) error { return begin(a, args[0], o) },
	}
	cmd.Flags().StringVar(&o.Environment, "environment", "production", "name of the first environment")
	cmd.Flags().StringVar(&o.Forge, "forge", "github", "forge of the repository: "+strings.Join(ci.Forges(), ", "))
	cmd.Flags().StringVar(&o.Region, "region", "eu-1", "region of the environment")
	cmd.Flags().StringVar(&o.TrustDomain, "trust-domain", "gpuaas.example", "domain of the certificates of its nodes")
	cmd.Flags().StringVar(&o.Source, "source", "fleet", "name of the Git source on the server")
	_ = cmd.RegisterFlagCompletionFunc("forge", cobra.FixedCompletions(ci.Forges(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// As cue/schema has them. What is given here becomes a folder, too.
var (
	labels  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	domains = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`)
)

func begin(a *output.Console, dir string, o scaffold.Options) error {
	for _, given := range []struct {
		flag, value string
		form        *regexp.Regexp
	}{{"environment", o.Environment, labels}, {"region", o.Region, labels}, {"source", o.Source, labels}, {"trust-domain", o.TrustDomain, domains}} {
		if !given.form.MatchString(given.value) {
			return output.UsageError("--%s %q is no name of lower-case letters, digits and hyphens", given.flag, given.value)
		}
	}
	if !slices.Contains(ci.Forges(), o.Forge) {
		return output.UsageError("--forge %q is none of %s", o.Forge, strings.Join(ci.Forges(), ", "))
	}
	files, err := scaffold.Files(o)
	if err != nil {
		return err
	}
	if err := writeNew(dir, files); err != nil {
		return err
	}
	a.Notify("%s %s in %s", output.SymbolGood, output.CountOf(len(files), "file"), dir)
	a.Notify("Next: gpuaas validate %s, then git init and a first commit; %s describes the next steps.", path.Join(filepath.ToSlash(dir), "environments", o.Environment), path.Join(filepath.ToSlash(dir), "README.md"))
	return nil
}

// writeNew writes all files or, where one of them is there, none.
func writeNew(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a repository, to be read by others
		return fmt.Errorf("making %s: %w", dir, err)
	}
	// os.Root rejects symbolic links that lead out of the folder.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("opening %s: %w", dir, err)
	}
	defer root.Close() //nolint:errcheck // what was written is closed already
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		if _, err := root.Lstat(filepath.FromSlash(name)); !errors.Is(err, fs.ErrNotExist) {
			return errs.New(errs.AlreadyExists, "%s already exists", path.Join(filepath.ToSlash(dir), name)).Try("choose an empty folder")
		}
	}
	for _, name := range names {
		if err := root.MkdirAll(filepath.FromSlash(path.Dir(name)), 0o755); err != nil {
			return fmt.Errorf("making the folder of %s: %w", name, err)
		}
		if err := root.WriteFile(filepath.FromSlash(name), files[name], 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}
