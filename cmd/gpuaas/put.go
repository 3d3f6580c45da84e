package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/errs"
)

const putText = `Declares the objects of a YAML or JSON file, one after the other, as the API's own. What
Git owns is refused with the file and line to edit. To see first what a change would do,
and to do all of it or nothing, use plan and apply.`

func newPut(a *app) *cobra.Command {
	var file string
	var dry bool
	cmd := &cobra.Command{
		Use: "put", Short: "Declare objects past the files", Long: putText, Args: cobra.NoArgs,
		Example: "  gpuaas put -f maintenance.yaml --dry-run\n  gpuaas export policy/gpu-cap | gpuaas put -f -",
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := a.readFile(file)
			if err != nil {
				return err
			}
			all, err := documents(file, text)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			return a.put(cmd.Context(), c, all, dry)
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "the documents; - for stdin; required")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "let the server check, and write nothing")
	_ = cmd.MarkFlagRequired("file")
	return cmd
}

// longestFile is what the API takes of one object, many times over.
const longestFile = 16 << 20

func (a *app) readFile(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(io.LimitReader(a.In, longestFile))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, usage("there is no file at %s", path)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, longestFile))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return text, nil
}

func (a *app) put(ctx context.Context, c *client, all []document, dry bool) error {
	made := page{}
	var objects []oapi.DesiredObject
	for _, one := range all {
		t := thing{word: one.Kind, name: one.Metadata.Name}
		seen, err := c.desired(ctx, t)
		if err != nil && codeOf(err) != errs.NotFound {
			return err
		}
		isNew := err != nil
		got, err := change[oapi.DesiredObject](ctx, c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			send := []oapi.RequestEditorFn{once}
			if !isNew {
				send = append(send, asSeen(seen.Value))
			}
			return c.PutDesired(ctx, t.kind(), t.name, &oapi.PutDesiredParams{DryRun: set(dry)}, write(one), send...)
		})
		if err != nil {
			if len(objects) > 0 {
				a.say("%s before it: %s put", symbolWarn, count(len(objects), "object"))
			}
			return err
		}
		objects, made.Items = append(objects, got.Value), append(made.Items, got.Raw)
	}
	if dry {
		a.say("Nothing was changed: the server takes %s.", count(len(objects), "object"))
	}
	raw, err := encode(made)
	if err != nil {
		return err
	}
	return a.show(raw, objectTable(a, objects...))
}

func write(d document) oapi.DesiredWrite {
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

func newDelete(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete KIND/NAME", Short: "Declare an object no more; the loop lets go what stands for it", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeThings(),
		Example: "  gpuaas delete policy/gpu-cap",
	}
	return asks(a, cmd, func(ctx context.Context, c *client, args []string) (end, error) {
		t, err := c.object(ctx, args[0])
		if err != nil {
			return end{}, err
		}
		if t.kind() == oapi.KindAllocation {
			f := usage("an allocation is released, not deleted")
			f.Try = "gpuaas alloc release " + t.name
			return end{}, f
		}
		seen, err := c.desired(ctx, t)
		if err != nil {
			return end{}, err
		}
		return end{
			name: t.name, what: fmt.Sprintf("%s is declared no more, and what stands for it is let go", t),
			send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.DeleteDesired(ctx, t.kind(), t.name, nil, asSeen(seen.Value), once)
			},
		}, nil
	}, func(e end, did answer[oapi.DesiredObject]) error {
		a.say("%s done: %s", symbolGood, e.what)
		if a.data() {
			return a.show(did.Raw, table{})
		}
		return nil
	})
}
