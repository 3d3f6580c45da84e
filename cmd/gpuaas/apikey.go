package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
)

func newAPIKey(a *app) *cobra.Command {
	return group("api-key", "Keys with which your own programs act as you", newAPIKeyList(a), newAPIKeyCreate(a), newAPIKeyRevoke(a))
}

func newAPIKeyList(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "Your API keys, and when each was last used", Args: cobra.NoArgs}
	return lists(a, cmd, func(_ context.Context, c *client, _ []string) (pager, error) { return c.apiKeys, nil }, apiKeyTable)
}

func (c *client) apiKeys(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
	return c.ListApiKeys(ctx, &oapi.ListApiKeysParams{Limit: size, Cursor: cursor})
}

func newAPIKeyCreate(a *app) *cobra.Command {
	var may []string
	var life string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "A new key, printed once", Args: cobra.ExactArgs(1),
		Example: "  gpuaas api-key create ci --scope allocations:read --ttl 90d > ci.key",
		RunE: func(cmd *cobra.Command, args []string) error {
			seconds, err := ttl(life)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			made, err := change[oapi.ApiKeyMade](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.CreateApiKey(ctx, nil, oapi.ApiKeyRequest{Name: args[0], Scopes: given(cmd, "scope", scopes(may)), TtlSeconds: seconds}, once)
			})
			if err != nil {
				return err
			}
			return a.showSecret(made.Raw, made.Value.Secret, "api-key/"+made.Value.Name)
		},
	}
	cmd.Flags().StringSliceVar(&may, "scope", nil, scopeUsage+"; all that you may when left out")
	cmd.Flags().StringVar(&life, "ttl", "", "how long it is good for, like 90d; without end when left out")
	return cmd
}

func newAPIKeyRevoke(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "revoke NAME", Short: "End a key; whoever uses it is refused at once", Args: cobra.ExactArgs(1)}
	return ends(a, cmd, func(ctx context.Context, c *client, args []string) (end, error) {
		all, err := readAll[oapi.ApiKey](ctx, c, 0, c.apiKeys)
		if err != nil {
			return end{}, err
		}
		_, ref, _ := idOf(args[0])
		k, err := pick(c, all.Items, "API key", ref, "gpuaas api-key list", func(k oapi.ApiKey) []string { return []string{k.Name, k.Id.String()} })
		return end{
			name: k.Name, what: fmt.Sprintf("the API key %s (%s) is refused", k.Name, lastUse(a.Clock.Now(), k.LastUsedAt)),
			send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.DeleteApiKey(ctx, k.Id, nil, once)
			},
		}, err
	})
}

func apiKeyTable(a *app, all ...oapi.ApiKey) table {
	t := table{head: []string{"NAME", "SCOPES", "EXPIRES", "LAST USED", "AGE"}, wide: []string{"ID"}}
	for _, k := range all {
		t.add("api-key/"+k.Name, cell(k.Name), scopeList(k.Scopes, "all that you may"), until(k.ExpiresAt), ago(a.Clock.Now(), k.LastUsedAt),
			age(a.Clock.Now(), k.CreatedAt), k.Id.String())
	}
	return t
}
