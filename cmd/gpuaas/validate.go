package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/git"
	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/internal/errs"
)

func newValidate(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "validate DIR", Short: "Check the files of a fleet; needs no server", Args: cobra.ExactArgs(1),
		Long: `Checks the files of a folder as a server would, without one and without a network: their
names and sizes, their syntax, each object against its definition, and the rules between
objects. Every finding has the place in your own file and the rule it breaks; the rules are
in docs/reference/findings.md.

For CI, -o ` + strings.Join(reportNames()[1:], ", -o ") + ` write what the forges show:
annotations of GitHub, SARIF 2.1.0, Code Quality of GitLab, and JUnit.`,
		Example:     "  gpuaas validate environments/dev\n  gpuaas validate environments/production -o sarif > findings.sarif",
		Annotations: map[string]string{moreOutputs: strings.Join(reportNames(), ",")},
		RunE:        func(cmd *cobra.Command, args []string) error { return a.validate(cmd.Context(), args[0]) },
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

func (a *app) validate(ctx context.Context, dir string) error {
	// Read as a server would: what it refuses, a commit with it would be refused for.
	tree, err := git.ReadPath(ctx, dir, git.DefaultLimits())
	switch {
	case errs.CodeOf(err) == errs.NotFound:
		f := usage("there is no file or folder at %s", dir)
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
	if err := a.showValidated(dir, v, slices.Sorted(maps.Keys(tree.Files))); err != nil {
		return err
	}
	if v.Valid {
		return nil
	}
	return &failure{
		Message: fmt.Sprintf("%s has %s", dir, count(len(v.Findings), "finding")), Code: codeFindings,
		Try: "correct the places above", Exit: exitFailure,
	}
}

func (a *app) showValidated(dir string, v validated, files []string) error {
	if a.data() {
		document, err := encode(v)
		if err != nil {
			return err
		}
		return a.show(document, table{})
	}
	var kinds []string
	for _, kind := range desired.Kinds() {
		if n := v.Objects[string(kind)]; n > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", n, kind))
		}
	}
	write := reports[a.format()]
	if write == nil {
		write = writeText
	}
	return write(a.Out, findingsReport{
		Files: files, Findings: v.Findings, Page: a.Env("GITHUB_STEP_SUMMARY"),
		Summary: fmt.Sprintf("%s ok: %s in %s: %s", symbolGood, dir, count(v.Files, "file"), strings.Join(kinds, ", ")),
	})
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
