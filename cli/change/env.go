package change

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/environments"
	"github.com/gpuaas/gpuaas/gitops/source"
	"github.com/gpuaas/gpuaas/internal/errs"
)

func NewEnv(a *output.Console) *cobra.Command {
	diff := &cobra.Command{
		Use: "diff A B", Short: "Compare two environments field by field", Args: cobra.ExactArgs(2),
		Long: `Compares two environments with all defaults. Each environment is a folder, or the name of an
environment in this binary. The command compares the two profiles even if their names differ.

The command ends with 0 without differences, with 1 with differences, and with more than 1
if an environment cannot be read.`,
		Example: "  gpuaas env diff staging production\n  gpuaas env diff environments/dev ../fleet/environments/dev -o json",
		RunE:    func(cmd *cobra.Command, args []string) error { return envDiff(cmd.Context(), a, args[0], args[1]) },
	}
	return output.Group("env", "Compare environments", diff)
}

// envChange is one field that differs. A side without it is null.
type envChange struct {
	Object string          `json:"object"` // Kind/name
	Field  string          `json:"field"`  // empty: the whole object is on one side only
	A      json.RawMessage `json:"a"`
	B      json.RawMessage `json:"b"`
}

func envDiff(ctx context.Context, a *output.Console, nameA, nameB string) error {
	before, err := readEnvironment(ctx, nameA)
	if err != nil {
		return unreadable(a.Explain(ctx, err))
	}
	after, err := readEnvironment(ctx, nameB)
	if err != nil {
		return unreadable(a.Explain(ctx, err))
	}
	changes := compareEnvironments(before, after)
	document, err := output.Encode(map[string]any{"items": changes, "restart": restarts(before, after)})
	if err != nil {
		return err
	}
	t := output.Table{Head: []string{"OBJECT", "FIELD", strings.ToUpper(nameA), strings.ToUpper(nameB)}}
	for _, c := range changes {
		t.Add(c.Object, c.Object, cmp.Or(c.Field, "-"), side(c.A), side(c.B))
	}
	if len(changes) == 0 && !a.Data() {
		a.Notify("%s and %s are equal.", nameA, nameB)
		return nil
	}
	if err := a.Show(document, t); err != nil {
		return err
	}
	if len(changes) == 0 {
		return nil
	}
	if fields := restarts(before, after); len(fields) > 0 && !a.Data() {
		a.Notify("A server reads these fields when it starts: %s.", strings.Join(fields, ", "))
	}
	// 1 is an answer here, and no failure.
	return &output.CommandError{Exit: output.ExitFailure, Silent: true}
}

// unreadable replaces exit code 1, which means that the environments differ.
func unreadable(f *output.CommandError) error {
	if f.Exit == output.ExitFailure {
		f.Exit = output.ExitUsage
	}
	return f
}

// readEnvironment validates a folder, or one that came with the binary.
func readEnvironment(ctx context.Context, name string) ([]desired.Object, error) {
	var files map[string][]byte
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		tree, err := source.ReadPath(ctx, name, source.DefaultLimits())
		if err != nil {
			return nil, err
		}
		if len(tree.Findings) > 0 {
			return nil, invalid(name, tree.Findings)
		}
		files = tree.Files
	} else if files, err = environments.Files(name); err != nil {
		return nil, errs.New(errs.NotFound, "no folder and no environment has the name %q", name).Try("one of %s", strings.Join(environments.Names(), ", "))
	}
	result, err := validate.Run(ctx, files)
	if err != nil {
		return nil, fmt.Errorf("validating %s: %w", name, err)
	}
	if !result.OK() {
		return nil, invalid(name, result.Findings)
	}
	return result.Objects, nil
}

func invalid(name string, findings []desired.Finding) error {
	return &output.CommandError{
		Message: fmt.Sprintf("%s has %s; the first is %s", name, output.CountOf(len(findings), "finding"), findings[0]), Code: output.CodeFindings,
		Try: "gpuaas validate " + name, Exit: output.ExitUsage,
	}
}

// compareEnvironments lists the differences, sorted as they are applied.
func compareEnvironments(before, after []desired.Object) []envChange {
	changes := []envChange{}
	left, right := fieldsByObject(before), fieldsByObject(after)
	for _, label := range labelsInOrder(slices.Concat(before, after)) {
		l, r := left[label], right[label]
		if l == nil || r == nil {
			changes = append(changes, envChange{label, "", presence(l), presence(r)})
			continue
		}
		all := maps.Clone(l)
		maps.Copy(all, r)
		for _, f := range slices.Sorted(maps.Keys(all)) {
			if !bytes.Equal(l[f], r[f]) {
				changes = append(changes, envChange{label, f, l[f], r[f]})
			}
		}
	}
	return changes
}

// profileLabel is the label of the profile, of which each side has one.
const profileLabel = string(desired.KindEnvironment)

func envLabel(o desired.Object) string {
	if o.Kind == desired.KindEnvironment {
		return profileLabel
	}
	return string(o.Kind) + "/" + o.Name
}

// labelsInOrder lists each label once: kinds as they are applied, then names.
func labelsInOrder(objects []desired.Object) []string {
	var list []string
	for _, kind := range desired.Kinds() {
		var names []string
		for _, o := range objects {
			if o.Kind == kind {
				names = append(names, envLabel(o))
			}
		}
		slices.Sort(names)
		list = append(list, slices.Compact(names)...)
	}
	return list
}

func presence(fields map[string]json.RawMessage) json.RawMessage {
	if fields == nil {
		return nil
	}
	return json.RawMessage(`"declared"`)
}

// side is one side's value as people read it.
func side(v json.RawMessage) string {
	if v == nil {
		return "-"
	}
	return output.OneLine(string(v))
}

// fieldsByObject splits the objects into the values of their fields. A list is one value.
func fieldsByObject(objects []desired.Object) map[string]map[string]json.RawMessage {
	all := map[string]map[string]json.RawMessage{}
	for _, o := range objects {
		fields := map[string]json.RawMessage{}
		takeApart(fields, "spec", o.Spec)
		for kind, texts := range map[string]map[string]string{"labels": o.Labels, "annotations": o.Annotations} {
			for name, text := range texts {
				fields["metadata."+kind+"."+name], _ = json.Marshal(text) //nolint:errchkjson // a text
			}
		}
		if o.Kind == desired.KindEnvironment {
			fields["metadata.name"], _ = json.Marshal(o.Name) //nolint:errchkjson // a text
		}
		all[envLabel(o)] = fields
	}
	return all
}

func takeApart(into map[string]json.RawMessage, at string, v json.RawMessage) {
	var inner map[string]json.RawMessage
	if json.Unmarshal(v, &inner) != nil || len(inner) == 0 {
		into[at] = v
		return
	}
	for name, field := range inner {
		takeApart(into, at+"."+name, field)
	}
}

// restarts names the fields of the profile that a server reads only once.
func restarts(before, after []desired.Object) []string {
	return append([]string{}, desired.NeedsRestart(profileIn(before), profileIn(after))...)
}

func profileIn(objects []desired.Object) (p desired.Environment) {
	for _, o := range objects {
		if o.Kind == desired.KindEnvironment {
			_ = json.Unmarshal(o.Spec, &p) // validated: it is the Go form of the schema
		}
	}
	return p
}
