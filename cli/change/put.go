package change

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

const putText = `Puts the objects of a YAML or JSON file, one after the other. The API owns them. If Git owns
an object, the server rejects it and names the file and the line to edit. Use plan and apply
to preview a change and to apply it in one transaction.`

func NewPut(a *output.Console) *cobra.Command {
	var file string
	var dry bool
	cmd := &cobra.Command{
		Use: "put", Short: "Put desired objects through the API", Long: putText, Args: cobra.NoArgs,
		Example: "  gpuaas put -f maintenance.yaml --dry-run\n  gpuaas export policy/gpu-cap | gpuaas put -f -",
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := readFile(a, file)
			if err != nil {
				return err
			}
			all, err := client.Documents(file, text)
			if err != nil {
				return err
			}
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			return put(cmd.Context(), a, c, all, dry)
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "the documents; - for stdin; required")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "let the server validate, and write nothing")
	_ = cmd.MarkFlagRequired("file")
	return cmd
}

// longestFile limits a file to several times the size that the API accepts for one object.
const longestFile = 16 << 20

func readFile(a *output.Console, path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(io.LimitReader(a.In, longestFile))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, output.UsageError("no file at %s", path)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, longestFile))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return text, nil
}

func put(ctx context.Context, a *output.Console, c *client.Client, all []client.Document, dry bool) error {
	made := client.Page{}
	var objects []oapi.DesiredObject
	for _, one := range all {
		t := client.ResourceRef{KindName: one.Kind, Name: one.Metadata.Name}
		seen, err := c.Desired(ctx, t)
		if err != nil && client.CodeOf(err) != errs.NotFound {
			return err
		}
		isNew := err != nil
		got, err := client.Change[oapi.DesiredObject](ctx, c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			send := []oapi.RequestEditorFn{once}
			if !isNew {
				send = append(send, ifUnchanged(seen.Value))
			}
			return c.PutDesired(ctx, t.Kind(), t.Name, &oapi.PutDesiredParams{DryRun: output.PointerOrNil(dry)}, write(one), send...)
		})
		if err != nil {
			if len(objects) > 0 {
				a.Notify("already put before the failure: %s %s", output.SymbolWarn, output.CountOf(len(objects), "object"))
			}
			return err
		}
		objects, made.Items = append(objects, got.Value), append(made.Items, got.Raw)
	}
	if dry {
		a.Notify("Nothing was changed: the server accepts %s.", output.CountOf(len(objects), "object"))
	}
	raw, err := output.Encode(made)
	if err != nil {
		return err
	}
	return a.Show(raw, client.ObjectTable(a, objects...))
}

func write(d client.Document) oapi.DesiredWrite {
	w := oapi.DesiredWrite{Spec: d.Spec}
	if d.Metadata.Labels != nil {
		w.Labels = &d.Metadata.Labels
	}
	if d.Metadata.Annotations != nil {
		w.Annotations = &d.Metadata.Annotations
	}
	if w.Spec == nil {
		w.Spec = map[string]any{}
	}
	return w
}

func NewDelete(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete KIND/NAME", Short: "Delete a desired object", Args: cobra.ExactArgs(1), ValidArgsFunction: client.CompleteResources(a),
		Example: "  gpuaas delete policy/gpu-cap",
	}
	return client.ConfirmedCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Effect, error) {
		t, err := c.Object(ctx, args[0])
		if err != nil {
			return client.Effect{}, err
		}
		if t.Kind() == oapi.KindAllocation {
			f := output.UsageError("an allocation is released, not deleted")
			f.Try = "gpuaas alloc release " + t.Name
			return client.Effect{}, f
		}
		seen, err := c.Desired(ctx, t)
		if err != nil {
			return client.Effect{}, err
		}
		return client.Effect{
			Name: t.Name, What: fmt.Sprintf("%s is deleted; the control loop removes what it describes", t),
			Send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.DeleteDesired(ctx, t.Kind(), t.Name, nil, ifUnchanged(seen.Value), once)
			},
		}, nil
	}, func(e client.Effect, did client.Response[oapi.DesiredObject]) error {
		a.Notify("%s done: %s", output.SymbolGood, e.What)
		if a.Data() {
			return a.Show(did.Raw, output.Table{})
		}
		return nil
	})
}
