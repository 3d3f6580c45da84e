package storage

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

func newRemove(a *output.Console) *cobra.Command {
	var recursive, permanent, yes, dry bool
	cmd := &cobra.Command{
		Use: "rm [PROJECT:]PATH...", Short: "Delete files and folders", Args: cobra.MinimumNArgs(1),
		Long: `Deletes what the paths and patterns name. A deleted file can be restored for the days of the policy
storage.trash_days, and counts until then; with --permanent it cannot. PROJECT: with -r deletes all files.`,
		Example: "  gpuaas storage rm data/a.bin\n  gpuaas storage rm -r --yes runs/1\n  gpuaas storage rm 'data/*.tmp'",
	}
	flags := cmd.Flags()
	flags.BoolVarP(&recursive, "recursive", "r", false, "also folders, with all that is in them")
	flags.BoolVar(&permanent, "permanent", false, "delete for good")
	flags.BoolVarP(&yes, "yes", "y", false, "do not prompt")
	flags.BoolVar(&dry, "dry-run", false, "print what would be deleted")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if (recursive || permanent) && !dry {
			if err := a.RequireConfirmation(yes, "storage rm"); err != nil {
				return err
			}
		}
		c, err := client.Connect(a)
		if err != nil {
			return err
		}
		all, err := removals(cmd.Context(), c, args, recursive)
		if err != nil {
			return err
		}
		if (recursive || permanent) && !yes && !dry {
			if err := a.Confirm(cmd.Context(), fmt.Sprintf("Delete %s?", output.CountOf(len(all), "path")), "nothing was deleted"); err != nil {
				return err
			}
		}
		for _, p := range all {
			if err := remove(cmd.Context(), a, c, p, oapi.DeleteStorageParams{Path: &p.path, Recursive: output.PointerOrNil(recursive), Permanent: output.PointerOrNil(permanent)}, dry); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

// removals returns the paths that the arguments name. The outermost folder cannot be deleted, but what is in it.
func removals(ctx context.Context, c *client.Client, args []string, recursive bool) (all []place, err error) {
	for _, arg := range args {
		p, err := parseRemote(arg)
		if err != nil {
			return nil, err
		}
		found, err := expand(ctx, c, p)
		if err != nil {
			return nil, err
		}
		if p.path == "" {
			if !recursive {
				return nil, output.UsageError("%s is the folder of the project; delete what is in it with -r", p)
			}
			below, err := client.ReadAll[oapi.StorageObject](ctx, c, 0, pager(c, p, false))
			if err != nil {
				return nil, err
			}
			found = below.Items
		}
		for _, o := range found {
			all = append(all, place{remote: true, project: p.project, path: o.Path})
		}
	}
	return all, nil
}

func remove(ctx context.Context, a *output.Console, c *client.Client, p place, params oapi.DeleteStorageParams, dry bool) error {
	if dry {
		a.Notify("would delete %s", output.CellText(p.String()))
		return nil
	}
	_, err := client.Change[oapi.StorageObject](ctx, c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
		return c.DeleteStorage(ctx, &params, p.in(c), once)
	})
	if err == nil {
		a.Notify("%s deleted %s", output.SymbolGood, output.CellText(p.String()))
	}
	return err
}

func newCat(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "cat [PROJECT:]PATH...", Short: "Print files", Args: cobra.MinimumNArgs(1), Example: "  gpuaas storage cat runs/1/log.txt",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			for _, arg := range args {
				p, err := parseRemote(arg)
				if err != nil {
					return err
				}
				found, err := expand(cmd.Context(), c, p)
				if err != nil {
					return err
				}
				for _, o := range found {
					p.path = o.Path
					if err := copyTo(cmd.Context(), c, p, a.Out); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
}

func copyTo(ctx context.Context, c *client.Client, p place, to io.Writer) error {
	body, _, err := open(ctx, c, p, 0, "")
	if err != nil {
		return err
	}
	_, err = io.Copy(to, body)
	if closed := body.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", p, err)
	}
	return nil
}

func newDu(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "du [[PROJECT:]PATH]", Short: "Show bytes and files of folders", Args: cobra.MaximumNArgs(1),
		Long:    "Adds up what is below a folder, or below each folder that matches a pattern. Deleted files are not included.",
		Example: "  gpuaas storage du data\n  gpuaas storage du 'runs/*'",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, p, err := connectTo(a, first(args))
			if err != nil {
				return err
			}
			found, err := expand(cmd.Context(), c, p)
			if err != nil {
				return err
			}
			return showSums(cmd.Context(), a, c, p, found)
		},
	}
}

// sum adds up the files below a folder.
type sum struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	Files int64  `json:"files"`
}

func showSums(ctx context.Context, a *output.Console, c *client.Client, p place, of []oapi.StorageObject) error {
	all := []sum{}
	t := output.Table{Head: []string{"PATH", "BYTES", "FILES"}}
	for _, o := range of {
		s := sum{Path: o.Path}
		below := []oapi.StorageObject{o}
		if o.Type == oapi.Folder {
			p.path = o.Path
			l, err := client.ReadAll[oapi.StorageObject](ctx, c, 0, pager(c, p, true))
			if err != nil {
				return err
			}
			below = l.Items
		}
		for _, o := range below {
			if o.Type == oapi.File {
				s.Bytes, s.Files = s.Bytes+o.SizeBytes, s.Files+1
			}
		}
		all = append(all, s)
		t.Add(s.Path, output.CellText(s.Path), output.Itoa(s.Bytes), output.Itoa(s.Files))
	}
	raw, err := output.Encode(all)
	if err != nil {
		return err
	}
	return a.Show(raw, t)
}
