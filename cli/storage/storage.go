// Package storage has the commands for the files of a project.
package storage

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

// NewStorage returns the commands.
func NewStorage(a *output.Console) *cobra.Command {
	g := output.Group("storage", "Manage files of a project",
		newList(a), newCopy(a), newSync(a), newMove(a), newRemove(a), newMkdir(a), newCat(a), newDu(a), newRestore(a), newUsage(a), newUploads(a), newSign(a), newKey(a), newClasses(a), newVerify(a))
	g.Long = `Lists, copies and removes the files of a project. A remote path is PROJECT:PATH, where PROJECT is a
name or an id, or :PATH for the project of the profile. In cp and sync any other path is local;
in the other commands all paths are remote, and the project may be missing.`
	return g
}

func newList(a *output.Console) *cobra.Command {
	var recursive, deleted bool
	cmd := &cobra.Command{
		Use: "ls [[PROJECT:]PATH]", Short: "List files and folders", Args: cobra.MaximumNArgs(1),
		Long:    "Lists a folder, or what matches a pattern. --deleted lists what can be restored.",
		Example: "  gpuaas storage ls data\n  gpuaas storage ls -r default:\n  gpuaas storage ls 'data/*.bin'",
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "also what is in folders")
	cmd.Flags().BoolVar(&deleted, "deleted", false, "deleted files and folders that can be restored")
	limit := 0
	cmd.Flags().IntVar(&limit, "limit", 0, "at most so many; 0 for all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, p, err := connectTo(a, first(args))
		if err != nil {
			return err
		}
		if deleted {
			return client.ShowList(cmd.Context(), a, c, limit, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
				return c.ListStorage(ctx, &oapi.ListStorageParams{Limit: size, Cursor: cursor, Deleted: &deleted}, p.in(c))
			}, objectTable)
		}
		found, err := expand(cmd.Context(), c, p)
		if err != nil {
			return err
		}
		if len(found) == 1 && found[0].Type == oapi.Folder {
			p.path = found[0].Path
			return client.ShowList(cmd.Context(), a, c, limit, pager(c, p, recursive), objectTable)
		}
		return showObjects(a, found...)
	}
	return cmd
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// connectTo connects, and reads a remote path.
func connectTo(a *output.Console, arg string) (*client.Client, place, error) {
	p, err := parseRemote(arg)
	if err != nil {
		return nil, p, err
	}
	c, err := client.Connect(a)
	return c, p, err
}

func showObjects(a *output.Console, all ...oapi.StorageObject) error {
	raw, err := json.Marshal(map[string]any{"items": all})
	if err != nil {
		return err
	}
	return a.Show(raw, objectTable(a, all...))
}

func objectTable(_ *output.Console, all ...oapi.StorageObject) output.Table {
	t := output.Table{Head: []string{"PATH", "SIZE", "CHANGED"}, Wide: []string{"SHA-256", "TYPE", "CREATED BY", "PURGED", "ID"}}
	for _, o := range all {
		name, size := o.Path, output.Itoa(o.SizeBytes)
		if o.Type == oapi.Folder {
			name, size = name+"/", "-"
		}
		t.Add("storage-object/"+o.Id.String(), output.CellText(name), size, output.FormatTime(o.UpdatedAt),
			output.OrDash(output.ValueOrZero(o.Sha256)), output.OrDash(output.ValueOrZero(o.MediaType)), o.CreatedBy, output.ExpiryText(o.PurgeAt), o.Id.String())
	}
	return t
}

func newMkdir(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "mkdir [PROJECT:]PATH", Short: "Create a folder", Args: cobra.ExactArgs(1), Example: "  gpuaas storage mkdir data/train"}
	return client.ChangeCommand(a, cmd, func(_ context.Context, c *client.Client, args []string) (client.Sending, error) {
		p, err := parseRemote(args[0])
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.CreateStorageFolder(ctx, nil, oapi.StorageFolderRequest{Path: p.path}, p.in(c), once)
		}, err
	}, objectTable)
}

func newMove(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use: "mv [PROJECT:]FROM [PROJECT:]TO", Short: "Rename a file or folder", Args: cobra.ExactArgs(2),
		Long:    "Renames a file, or a folder with all that is in it. Where TO is a folder, the name stays. No bytes move.",
		Example: "  gpuaas storage mv data/a.bin data/b.bin\n  gpuaas storage mv runs/1 archive/",
	}
	return client.ChangeCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Sending, error) {
		from, to, err := twoRemote(args[0], args[1])
		if err != nil {
			return nil, err
		}
		o, found, err := stat(ctx, c, to)
		if err == nil && (to.folder || found && o.Type == oapi.Folder) {
			to = to.below(from.base())
		}
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.RenameStorage(ctx, nil, oapi.StorageRenameRequest{From: from.path, To: to.path}, from.in(c), once)
		}, err
	}, objectTable)
}

// twoRemote reads two paths of one project.
func twoRemote(from, to string) (p, q place, err error) {
	if p, err = parseRemote(from); err != nil {
		return p, q, err
	}
	if q, err = parseRemote(to); err != nil {
		return p, q, err
	}
	if q.project == "" {
		q.project = p.project
	}
	if p.project != q.project {
		return p, q, output.UsageError("%s and %s are of two projects; copy the files to a local folder first", p, q)
	}
	return p, q, nil
}

func newRestore(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use: "restore ID [[PROJECT:]PATH]", Short: "Restore a deleted file or folder", Args: cobra.RangeArgs(1, 2),
		Long:    "Restores what storage ls --deleted lists to its former path, or to another one.",
		Example: "  gpuaas storage restore 01990f48-1111-7222-8333-444455556666",
	}
	return client.ChangeCommand(a, cmd, func(_ context.Context, c *client.Client, args []string) (client.Sending, error) {
		id, err := uuid.Parse(strings.TrimPrefix(args[0], "storage-object/"))
		if err != nil {
			return nil, output.UsageError("%q is not the id of a deleted file", args[0])
		}
		var p place
		if len(args) > 1 {
			if p, err = parseRemote(args[1]); err == nil {
				_, err = objectpath.Parse("path", p.path)
			}
		}
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.RestoreStorage(ctx, nil, oapi.StorageRestoreRequest{ObjectId: id, Path: output.PointerOrNil(p.path)}, p.in(c), once)
		}, err
	}, objectTable)
}

func newUsage(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "usage [PROJECT:]", Short: "Show storage usage and quotas", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, p, err := connectTo(a, first(args))
			if err != nil {
				return err
			}
			got, err := client.Send[oapi.StorageUsage](cmd.Context(), c, func(ctx context.Context) (*http.Response, error) { return c.GetStorageUsage(ctx, nil, p.in(c)) })
			if err != nil {
				return err
			}
			u := got.Value
			t := output.Table{Head: []string{"OF", "BYTES", "QUOTA", "OBJECTS", "QUOTA", "RESERVED"}}
			t.Add("project", "project", output.Itoa(u.Bytes), output.Itoa(u.QuotaBytes), output.Itoa(u.Objects), output.Itoa(u.QuotaObjects), output.Itoa(u.ReservedBytes))
			t.Add("tenant", "tenant", output.Itoa(u.Tenant.Bytes), output.Itoa(u.Tenant.QuotaBytes), output.Itoa(u.Tenant.Objects), output.Itoa(u.Tenant.QuotaObjects), "-")
			return a.Show(got.Raw, t)
		},
	}
}

func newUploads(a *output.Console) *cobra.Command {
	var abort string
	cmd := &cobra.Command{
		Use: "uploads [PROJECT:]", Short: "List or abort uploads in progress", Args: cobra.MaximumNArgs(1),
		Long:    "Lists uploads in parts that are neither completed nor aborted. storage cp continues them, and they expire.",
		Example: "  gpuaas storage uploads\n  gpuaas storage uploads --abort 01990f49-1111-7222-8333-444455556666",
	}
	cmd.Flags().StringVar(&abort, "abort", "", "id of an upload to abort")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, p, err := connectTo(a, first(args))
		if err != nil {
			return err
		}
		if abort == "" {
			return client.ShowList(cmd.Context(), a, c, 0, uploads(c, p), uploadTable)
		}
		id, err := uuid.Parse(strings.TrimPrefix(abort, "storage-upload/"))
		if err != nil {
			return output.UsageError("%q is not the id of an upload", abort)
		}
		_, err = client.Change[struct{}](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.AbortStorageUpload(ctx, id, nil, p.in(c), once)
		})
		if err == nil {
			a.Notify("%s aborted the upload %s", output.SymbolGood, id)
		}
		return err
	}
	return cmd
}

func uploads(c *client.Client, p place) client.Pager {
	return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListStorageUploads(ctx, &oapi.ListStorageUploadsParams{Limit: size, Cursor: cursor}, p.in(c))
	}
}

func uploadTable(_ *output.Console, all ...oapi.StorageUpload) output.Table {
	t := output.Table{Head: []string{"ID", "PATH", "SIZE", "BEGAN", "EXPIRES"}, Wide: []string{"PART SIZE", "CREATED BY"}}
	for _, u := range all {
		t.Add("storage-upload/"+u.Id.String(), u.Id.String(), output.CellText(u.Path), output.Itoa(output.ValueOrZero(u.SizeBytes)), output.FormatTime(u.CreatedAt), output.FormatTime(u.ExpiresAt),
			output.Itoa(output.ValueOrZero(u.PartSizeBytes)), u.CreatedBy)
	}
	return t
}
