package change

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/gitops/source"
	"github.com/gpuaas/gpuaas/internal/errs"
)

func NewValidate(a *output.Console) *cobra.Command {
	c := &cobra.Command{
		Use: "validate DIR", Short: "Validate fleet files offline", Args: cobra.ExactArgs(1),
		Long: `Validates the files of a folder as a server does, without a server and without a network: names and
sizes, syntax, each object against its schema, and the rules between objects. Every finding names
the place in the file and the rule; docs/reference/findings.md lists the rules.

For CI, -o ` + strings.Join(output.ReportNames()[1:], " write the formats of the forges:\nannotations of GitHub, SARIF 2.1.0, Code Quality of GitLab, and JUnit.") + ` write what the forges show:
annotations of GitHub, SARIF 2.1.0, Code Quality of GitLab, and JUnit.`,
		Example:     "  gpuaas validate environments/dev\n  gpuaas validate environments/production -o sarif > findings.sarif",
		Annotations: map[string]string{output.MoreOutputs: strings.Join(output.ReportNames(), ",")},
		RunE:        func(cmd *cobra.Command, args []string) error { return validateFiles(cmd.Context(), a, args[0]) },
	}
	return c
}

// validated is the answer as data.
type validated struct {
	Valid    bool              `json:"valid"`
	Files    int               `json:"files"`
	Objects  map[string]int    `json:"objects"`
	Findings []desired.Finding `json:"findings"`
}

func validateFiles(ctx context.Context, a *output.Console, dir string) error {
	// Read with the server's limits: the server rejects a commit with files that exceed them.
	tree, err := source.ReadPath(ctx, dir, source.DefaultLimits())
	switch {
	case errs.CodeOf(err) == errs.NotFound:
		f := output.UsageError("no file or folder at %s", dir)
		f.Try = "gpuaas validate environments/dev"
		return f
	case err != nil:
		return err
	}
	result := validate.Result{Findings: tree.Findings}
	if len(tree.Findings) == 0 {
		if result, err = validate.Run(ctx, tree.Files); err != nil {
			return fmt.Errorf("validating %s: %w", dir, err)
		}
	}
	v := validated{Valid: result.OK(), Files: len(tree.Files), Objects: map[string]int{}, Findings: result.Findings}
	for _, o := range result.Objects {
		v.Objects[string(o.Kind)]++
	}
	if v.Findings == nil {
		v.Findings = []desired.Finding{}
	}
	if err := showValidated(a, dir, v, slices.Sorted(maps.Keys(tree.Files))); err != nil {
		return err
	}
	if v.Valid {
		return nil
	}
	return &output.CommandError{
		Message: fmt.Sprintf("%s has %s", dir, output.CountOf(len(v.Findings), "finding")), Code: output.CodeFindings,
		Try: "correct the places above", Exit: output.ExitFailure,
	}
}

func showValidated(a *output.Console, dir string, v validated, files []string) error {
	if a.Data() {
		document, err := output.Encode(v)
		if err != nil {
			return err
		}
		return a.Show(document, output.Table{})
	}
	var kinds []string
	for _, kind := range desired.Kinds() {
		if n := v.Objects[string(kind)]; n > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", n, kind))
		}
	}
	write := output.Reports[a.Format()]
	if write == nil {
		write = output.WriteText
	}
	return write(a.Out, output.FindingsReport{
		Files: files, Findings: v.Findings, Page: a.Env("GITHUB_STEP_SUMMARY"),
		Summary: fmt.Sprintf("%s ok: %s in %s: %s", output.SymbolGood, dir, output.CountOf(v.Files, "file"), strings.Join(kinds, ", ")),
	})
}
