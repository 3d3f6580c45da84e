package change

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/internal/errs"
)

const diffText = `Compares files with desired state, field by field. With --source the files represent the
complete tree of that Git source. The command ends with 0 without differences, with 1 with
differences, and with more than 1 after a failure. -o is text, json, yaml or name.

GPUAAS_EXTERNAL_DIFF names a program with flags. The command runs it with two folders: the
present objects and the new objects.`

func NewDiff(a *output.Console) *cobra.Command {
	p := proposal{}
	cmd := &cobra.Command{
		Use: "diff DIR|FILE…", Short: "Compare files with desired state", Long: diffText, Args: cobra.MinimumNArgs(1),
		Annotations: map[string]string{output.MoreOutputs: "text"},
		Example:     "  gpuaas diff environments/dev --source fleet\n  GPUAAS_EXTERNAL_DIFF=\"diff -u -N\" gpuaas diff fleet --source fleet",
		RunE: func(cmd *cobra.Command, args []string) error {
			err := diff(cmd.Context(), a, p, args)
			if err == nil {
				return nil
			}
			// Exit code 1 means a difference, so no failure may return it.
			f := *a.Explain(cmd.Context(), err)
			if f.Exit == output.ExitFailure && !f.Silent {
				f.Exit = output.ExitUsage
			}
			return &f
		},
	}
	p.flags(cmd)
	return cmd
}

func diff(ctx context.Context, a *output.Console, p proposal, args []string) error {
	c, err := client.Connect(a)
	if err != nil {
		return err
	}
	got, err := p.plan(ctx, c, args)
	if wrong, ok := errors.AsType[*invalidFilesError](err); ok {
		return places(a, wrong)
	}
	if err != nil {
		return err
	}
	program := strings.Fields(a.Env("GPUAAS_EXTERNAL_DIFF"))
	switch {
	case a.Data() || a.Format() == "name":
		err = a.Show(got.Raw, stepNames(got.change))
	case len(program) > 0 && !got.change.Empty():
		err = externalDiff(ctx, a, c, program, got.change)
	default:
		_, err = fmt.Fprint(a.Out, diffLines(a, got.change))
	}
	switch {
	case err != nil:
		return err
	case len(got.change.Findings) > 0:
		return inapplicable(got.change)
	case got.change.Empty():
		return nil
	}
	return &output.CommandError{Exit: output.ExitDiffers, Silent: true}
}

func stepNames(p preview.Plan) (t output.Table) {
	for _, s := range p.Steps {
		t.Add(s.Label(), s.Label())
	}
	return t
}

// signs of what is done to an object.
func signOf(action preview.Action) string {
	sign, ok := map[preview.Action]string{preview.Create: "+", preview.Delete: "-", preview.Adopt: "="}[action]
	if !ok {
		return "~"
	}
	return sign
}

// diffLines is one heading for each object, and its fields below.
func diffLines(a *output.Console, p preview.Plan) string {
	var b strings.Builder
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "%s %s  %s\n", signOf(s.Action), output.CellText(s.Label()), output.CellText(s.Place.String()))
		for _, f := range s.Fields {
			if f.From != "" {
				b.WriteString(colour(a, "31", fmt.Sprintf("-   %s: %s", output.CellText(f.Path), output.CellText(f.From))) + "\n")
			}
			if f.To != "" {
				b.WriteString(colour(a, "32", fmt.Sprintf("+   %s: %s", output.CellText(f.Path), output.CellText(f.To))) + "\n")
			}
		}
	}
	return b.String()
}

func colour(a *output.Console, code, text string) string {
	if !a.Colours {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// externalDiff runs the user's own program on two folders. Its exit code means the same as ours: a
// difference exists.
func externalDiff(ctx context.Context, a *output.Console, c *client.Client, program []string, p preview.Plan) error {
	dir, err := os.MkdirTemp("", "gpuaas-diff-")
	if err != nil {
		return fmt.Errorf("making a folder for the comparison: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, side := range []string{"declared", "proposed"} {
		if err := os.Mkdir(filepath.Join(dir, side), 0o700); err != nil {
			return fmt.Errorf("making a folder for the comparison: %w", err)
		}
	}
	for _, s := range p.Steps {
		if err := writeSides(ctx, c, dir, s); err != nil {
			return err
		}
	}
	run := exec.CommandContext(ctx, program[0], append(program[1:], "declared", "proposed")...) //nolint:gosec // the person names the program
	run.Dir, run.Stdout, run.Stderr = dir, a.Out, a.Err
	err = run.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		return nil
	}
	if err != nil {
		return errs.Invalid("GPUAAS_EXTERNAL_DIFF", "%s failed: %v", program[0], err)
	}
	return nil
}

func writeSides(ctx context.Context, c *client.Client, dir string, s preview.Step) error {
	name := strings.ToLower(string(s.Kind)) + "-" + s.Name + ".yaml"
	document := map[string]any{"apiVersion": "gpuaas/v1alpha1", "kind": string(s.Kind), "metadata": map[string]any{"name": s.Name}}
	if s.Action != preview.Create {
		now, err := c.Desired(ctx, client.ResourceRef{KindName: string(s.Kind), Scope: s.Scope, Name: s.Name})
		if err != nil {
			return err
		}
		raw, err := client.Declaration(now.Value)
		if err != nil {
			return err
		}
		if err := writeYAML(filepath.Join(dir, "declared", name), raw); err != nil {
			return err
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if err := d.Decode(&document); err != nil {
			return fmt.Errorf("reading %s: %w", s.Label(), err)
		}
	}
	if s.Action == preview.Delete {
		return nil
	}
	raw, err := output.Encode(ProposalOf(document, s.Fields))
	if err != nil {
		return err
	}
	return writeYAML(filepath.Join(dir, "proposed", name), raw)
}

// ProposalOf is a document with the fields as the plan would have them.
func ProposalOf(document any, fields []preview.Field) any {
	// From the last to the first: what a list loses, it loses at its end.
	for _, f := range slices.Backward(fields) {
		if f.To == "" {
			document = without(document, pointer(f.Path))
		}
	}
	for _, f := range fields {
		if f.To != "" {
			document = with(document, pointer(f.Path), json.RawMessage(f.To))
		}
	}
	return document
}

func writeYAML(path string, raw json.RawMessage) error {
	text, err := output.ToYAML(raw)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", filepath.Base(path), err)
	}
	return os.WriteFile(path, text, 0o600)
}

// pointer splits a JSON pointer as defined in RFC 6901.
func pointer(path string) []string {
	if path == "" {
		return nil
	}
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, part := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
	}
	return parts
}

// with is a document with a value at a place, made where there was none.
func with(document any, at []string, value any) any {
	if len(at) == 0 {
		return value
	}
	n, err := strconv.Atoi(at[0])
	list, isList := document.([]any)
	if isList && err == nil && n >= 0 {
		if n >= len(list) {
			return append(list, with(nil, at[1:], value)) // fields are in order
		}
		list[n] = with(list[n], at[1:], value)
		return list
	}
	if document == nil && err == nil && n == 0 {
		return []any{with(nil, at[1:], value)}
	}
	fields, ok := document.(map[string]any)
	if !ok {
		fields = map[string]any{}
	}
	fields[at[0]] = with(fields[at[0]], at[1:], value)
	return fields
}

// without is a document that lost what is at a place.
func without(document any, at []string) any {
	switch d := document.(type) {
	case map[string]any:
		if len(at) == 1 {
			delete(d, at[0])
		} else if inner, ok := d[at[0]]; ok {
			d[at[0]] = without(inner, at[1:])
		}
	case []any:
		n, err := strconv.Atoi(at[0])
		if err != nil || n < 0 || n >= len(d) {
			return d
		}
		if len(at) == 1 {
			return slices.Delete(d, n, n+1)
		}
		d[n] = without(d[n], at[1:])
	}
	return document
}
