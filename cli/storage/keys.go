package storage

import (
	"context"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

func newKey(a *output.Console) *cobra.Command {
	g := output.Group("key", "Manage access keys for S3 tools", newKeyList(a), newKeyCreate(a), newKeyRevoke(a))
	g.Long = "Manages the access keys of a project for the S3 endpoint. A key has the rights of its creator, and no more than\nits folder and --read-only permit."
	return g
}

func keyPages(c *client.Client, p place) client.Pager {
	return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListStorageKeys(ctx, &oapi.ListStorageKeysParams{Limit: size, Cursor: cursor}, p.in(c))
	}
}

func newKeyList(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "list [PROJECT:]", Short: "List access keys", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, p, err := connectTo(a, first(args))
			if err != nil {
				return err
			}
			return client.ShowList(cmd.Context(), a, c, 0, keyPages(c, p), keyTable)
		},
	}
}

func newKeyCreate(a *output.Console) *cobra.Command {
	var folder, life string
	var readOnly bool
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create an access key", Args: cobra.ExactArgs(1),
		Long:    "Creates an access key. It prints the environment variables that S3 tools read.",
		Example: "  gpuaas storage key create training --folder data --read-only --ttl 90d > training.env",
	}
	cmd.Flags().StringVar(&folder, "folder", "", "[PROJECT:]FOLDER whose files the key can use; all files of the project when left out")
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "the key cannot change files")
	cmd.Flags().StringVar(&life, "ttl", "", "how long it is good for, like 90d; without end when left out")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		seconds, err := output.ParseTTL(life)
		if err != nil {
			return err
		}
		c, p, err := connectTo(a, folder)
		if err != nil {
			return err
		}
		made, err := client.Change[oapi.CreatedStorageKey](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.CreateStorageKey(ctx, nil, oapi.StorageKeyRequest{Name: args[0], Prefix: output.PointerOrNil(p.path), ReadOnly: &readOnly, TtlSeconds: seconds}, p.in(c), once)
		})
		if err != nil {
			return err
		}
		return a.ShowSecret(made.Raw, variables(made.Value), "storage-key/"+made.Value.Name)
	}
	return cmd
}

// variables are the environment variables of a new key. An installation that does not know the URL of its S3 endpoint has
// none, and the user sets AWS_ENDPOINT_URL.
func variables(k oapi.CreatedStorageKey) string {
	text := fmt.Sprintf("AWS_ACCESS_KEY_ID=%s\nAWS_SECRET_ACCESS_KEY=%s", k.AccessKeyId, k.SecretAccessKey)
	if k.Endpoint != nil {
		text += "\nAWS_ENDPOINT_URL=" + *k.Endpoint
	}
	return text
}

func newKeyRevoke(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "revoke [PROJECT:]NAME", Short: "Revoke an access key", Args: cobra.ExactArgs(1)}
	return client.DeleteCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Effect, error) {
		p, err := parseRemote(args[0])
		if err != nil {
			return client.Effect{}, err
		}
		all, err := client.ReadAll[oapi.StorageKey](ctx, c, 0, keyPages(c, p))
		if err != nil {
			return client.Effect{}, err
		}
		k, err := client.Pick(c, all.Items, "access key", p.path, "gpuaas storage key list", func(k oapi.StorageKey) []string { return []string{k.Name, k.Id.String(), k.AccessKeyId} })
		return client.Effect{
			Name: k.Name, What: fmt.Sprintf("the access key %s (%s) is revoked", k.Name, output.LastUse(a.Clock.Now(), k.LastUsedAt)),
			Send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.DeleteStorageKey(ctx, k.Id, nil, p.in(c), once)
			},
		}, err
	})
}

func keyTable(a *output.Console, all ...oapi.StorageKey) output.Table {
	t := output.Table{Head: []string{"NAME", "ACCESS KEY ID", "FOLDER", "READ ONLY", "EXPIRES", "LAST USED"}, Wide: []string{"CREATED BY", "ID"}}
	for _, k := range all {
		t.Add("storage-key/"+k.Name, output.CellText(k.Name), k.AccessKeyId, output.CellText(output.ValueOrZero(k.Prefix)), fmt.Sprint(k.ReadOnly), output.ExpiryText(k.ExpiresAt),
			output.Ago(a.Clock.Now(), k.LastUsedAt), k.CreatedBy, k.Id.String())
	}
	return t
}

func newSign(a *output.Console) *cobra.Command {
	var upload bool
	var life string
	cmd := &cobra.Command{
		Use: "sign [PROJECT:]PATH", Short: "Create a signed URL", Args: cobra.ExactArgs(1),
		Long:    "Creates a URL that downloads a file, or a folder as a zip archive, without a token. With --upload it stores the body of a PUT.",
		Example: "  gpuaas storage sign data/train.bin\n  curl -T out.bin \"$(gpuaas storage sign --upload results/out.bin)\"",
	}
	cmd.Flags().BoolVar(&upload, "upload", false, "a URL for an upload")
	cmd.Flags().StringVar(&life, "for", "", "how long it is valid, like 2m; as long as the policy storage.signed_url_seconds permits when left out")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, p, err := connectTo(a, args[0])
		if err != nil {
			return err
		}
		body := oapi.StorageSignRequest{Path: p.path}
		if upload {
			body.Method = new(oapi.StorageSignRequestMethodPUT)
		}
		seconds, err := output.ParseTTL(life)
		if err != nil {
			return err
		}
		if seconds != nil {
			body.ExpiresSeconds = new(int(*seconds))
		}
		got, err := client.Change[oapi.StorageSignedUrl](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.SignStorageUrl(ctx, nil, body, p.in(c), once)
		})
		if err != nil {
			return err
		}
		a.Notify("%s %s until %s, for everyone who has the URL", output.SymbolWarn, got.Value.Method, output.FormatTime(got.Value.ExpiresAt))
		if a.Data() {
			return a.Show(got.Raw, output.Table{})
		}
		_, err = fmt.Fprintln(a.Out, got.Value.Url)
		return err
	}
	return cmd
}

func newClasses(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "classes", Short: "List storage classes with prices", Args: cobra.NoArgs}
	return client.ListCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Pager, error) {
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListStorageClasses(ctx, &oapi.ListStorageClassesParams{Limit: size, Cursor: cursor})
		}, nil
	}, func(_ *output.Console, all ...oapi.StorageClass) output.Table {
		t := output.Table{Head: []string{"NAME", "PRICE PER GIB AND 720 H", "FREE GIB", "RETENTION", "DEFAULT"}}
		for _, k := range all {
			t.Add("storage-class/"+k.Name, k.Name, output.Amount(k.Price), output.Itoa(k.FreeGib), fmt.Sprintf("%d days", k.RetentionDays), fmt.Sprint(k.Default))
		}
		return t
	})
}
