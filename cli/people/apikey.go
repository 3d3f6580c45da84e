package people

import (
	"context"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

func NewAPIKey(a *output.Console) *cobra.Command {
	return output.Group("api-key", "Manage API keys", newAPIKeyList(a), newAPIKeyCreate(a), newAPIKeyRevoke(a))
}

func newAPIKeyList(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List API keys", Args: cobra.NoArgs}
	return client.ListCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Pager, error) {
		return apiKeyPages(c), nil
	}, apiKeyTable)
}

func apiKeyPages(c *client.Client) client.Pager {
	return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListApiKeys(ctx, &oapi.ListApiKeysParams{Limit: size, Cursor: cursor})
	}
}

func newAPIKeyCreate(a *output.Console) *cobra.Command {
	var may []string
	var life string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create an API key", Args: cobra.ExactArgs(1),
		Example: "  gpuaas api-key create ci --scope allocations:read --ttl 90d > ci.key",
		RunE: func(cmd *cobra.Command, args []string) error {
			seconds, err := output.ParseTTL(life)
			if err != nil {
				return err
			}
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			made, err := client.Change[oapi.CreatedApiKey](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.CreateApiKey(ctx, nil, oapi.ApiKeyRequest{Name: args[0], Scopes: output.FlagOrNil(cmd, "scope", output.Scopes(may)), TtlSeconds: seconds}, once)
			})
			if err != nil {
				return err
			}
			return a.ShowSecret(made.Raw, made.Value.Secret, "api-key/"+made.Value.Name)
		},
	}
	cmd.Flags().StringSliceVar(&may, "scope", nil, output.ScopeUsage+"; all that you may when left out")
	cmd.Flags().StringVar(&life, "ttl", "", "how long it is good for, like 90d; without end when left out")
	return cmd
}

func newAPIKeyRevoke(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "revoke NAME", Short: "Revoke an API key", Args: cobra.ExactArgs(1)}
	return client.DeleteCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Effect, error) {
		all, err := client.ReadAll[oapi.ApiKey](ctx, c, 0, apiKeyPages(c))
		if err != nil {
			return client.Effect{}, err
		}
		_, ref, _ := output.IdOf(args[0])
		k, err := client.Pick(c, all.Items, "API key", ref, "gpuaas api-key list", func(k oapi.ApiKey) []string { return []string{k.Name, k.Id.String()} })
		return client.Effect{
			Name: k.Name, What: fmt.Sprintf("the API key %s (%s) is revoked", k.Name, output.LastUse(a.Clock.Now(), k.LastUsedAt)),
			Send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.DeleteApiKey(ctx, k.Id, nil, once)
			},
		}, err
	})
}

func apiKeyTable(a *output.Console, all ...oapi.ApiKey) output.Table {
	t := output.Table{Head: []string{"NAME", "SCOPES", "EXPIRES", "LAST USED", "AGE"}, Wide: []string{"ID"}}
	for _, k := range all {
		t.Add("api-key/"+k.Name, output.CellText(k.Name), output.ScopeList(k.Scopes, "all that you may"), output.ExpiryText(k.ExpiresAt), output.Ago(a.Clock.Now(), k.LastUsedAt),
			output.Age(a.Clock.Now(), k.CreatedAt), k.Id.String())
	}
	return t
}
