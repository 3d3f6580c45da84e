package change

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/desired"
)

const exportText = `Prints objects as documents for a fleet repository. Commit the documents and adopt the
objects; the plan of the next commit is then empty. The export contains no allocations,
because only the API creates them. -o is yaml, json or cue.`

// exported selects the objects to export as files.
type exported struct {
	kinds  []string
	allAPI bool
	folder string
	pack   string
}

func NewExport(a *output.Console) *cobra.Command {
	e := exported{}
	cmd := &cobra.Command{
		Use: "export [KIND/NAME…]", Short: "Export desired objects as files", Long: exportText, ValidArgsFunction: client.CompleteResources(a),
		Annotations: map[string]string{output.MoreOutputs: "cue"},
		Example:     "  gpuaas export node/gpu-07 > fleet/gpu-07.yaml\n  gpuaas export --kind sku -o cue --package fleet -f fleet",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && len(e.kinds) == 0 && !e.allAPI {
				f := output.UsageError("export needs KIND/NAME, --kind or --all-api")
				f.Try = "gpuaas export --all-api"
				return f
			}
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			all, err := e.objects(cmd.Context(), c, args)
			if err != nil {
				return err
			}
			return export(a, e, all)
		},
	}
	cmd.Flags().StringSliceVar(&e.kinds, "kind", nil, "all of this kind; may be repeated")
	cmd.Flags().BoolVar(&e.allAPI, "all-api", false, "all that the API owns")
	cmd.Flags().StringVarP(&e.folder, "folder", "f", "", "folder for one file per object (default: stdout)")
	cmd.Flags().StringVar(&e.pack, "package", "", "with -o cue: the package of the other files in the folder")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(client.KindWords(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// objects returns the objects in the sequence in which a revision is applied.
func (e exported) objects(ctx context.Context, c *client.Client, args []string) (all []oapi.DesiredObject, err error) {
	for _, arg := range args {
		t, err := c.Object(ctx, arg)
		if err != nil {
			return nil, err
		}
		if t.Kind() == oapi.KindAllocation {
			return nil, output.UsageError("%s is created through the API only: files cannot contain it", t)
		}
		got, err := c.Desired(ctx, t)
		if err != nil {
			return nil, err
		}
		all = append(all, got.Value)
	}
	wanted := map[oapi.Kind]bool{}
	for _, word := range e.kinds {
		kind, err := client.KindNamed(word)
		if err != nil {
			return nil, err
		}
		wanted[kind] = true
	}
	for _, k := range desired.Kinds() {
		kind := oapi.Kind(k)
		if kind == oapi.KindAllocation || !wanted[kind] && !e.allAPI {
			continue
		}
		found, err := c.AllDesired(ctx, kind, 0)
		if err != nil {
			return nil, err
		}
		for _, o := range found.Items {
			if wanted[kind] || o.Metadata.Source.Owner == oapi.SourceOwnerApi {
				all = append(all, o)
			}
		}
	}
	return all, nil
}

func export(a *output.Console, e exported, all []oapi.DesiredObject) error {
	if len(all) == 0 {
		a.Notify("No results.")
		return nil
	}
	form := a.Format()
	if a.Data() && form != "json" && form != "yaml" {
		e := output.UsageError("output %q does not exist for objects", form)
		e.Try = "-o yaml|json|cue"
		return e
	}
	if form != "json" && form != "cue" {
		form = "yaml"
	}
	if e.folder == "" {
		text, err := Rendered(form, e.pack, all...)
		if err == nil {
			_, err = a.Out.Write(text)
		}
		if err != nil {
			return fmt.Errorf("writing result: %w", err)
		}
		return nil
	}
	if err := os.MkdirAll(e.folder, 0o750); err != nil {
		return fmt.Errorf("making %s: %w", e.folder, err)
	}
	for _, o := range all {
		text, err := Rendered(form, e.pack, o)
		if err != nil {
			return err
		}
		path := filepath.Join(e.folder, fieldOf(o)+"."+form)
		if _, err := client.WriteWhole(path, func(to io.Writer) (int64, error) {
			n, err := to.Write(text)
			return int64(n), err
		}); err != nil {
			return err
		}
		a.Notify("%s %s", output.SymbolGood, path)
	}
	return nil
}

// fieldOf names an object among all kinds, in a file as on a disk.
func fieldOf(o oapi.DesiredObject) string {
	return strings.ToLower(string(o.Kind)) + "-" + o.Metadata.Name
}

// Rendered is a stream of documents in YAML, a list of them in JSON, and fields in CUE.
func Rendered(form, pack string, all ...oapi.DesiredObject) ([]byte, error) {
	var b bytes.Buffer
	var list []json.RawMessage
	if form == "cue" && pack != "" {
		fmt.Fprintf(&b, "package %s\n\n", pack)
	}
	for i, o := range all {
		raw, err := client.Declaration(o)
		if err != nil {
			return nil, err
		}
		switch form {
		case "json":
			list = append(list, raw)
		case "cue":
			text, err := client.ToCUE(fieldOf(o), raw)
			if err != nil {
				return nil, err
			}
			b.WriteString(text)
		default:
			text, err := output.ToYAML(raw)
			if err != nil {
				return nil, err
			}
			if i > 0 {
				b.WriteString("---\n")
			}
			b.Write(text)
		}
	}
	if form != "json" {
		return b.Bytes(), nil
	}
	text, err := json.MarshalIndent(list, "", "  ")
	return append(text, '\n'), err
}
