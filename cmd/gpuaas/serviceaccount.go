package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
)

func newServiceAccount(a *app) *cobra.Command {
	g := group("service-account", "Programs that work in the project of --project",
		newServiceAccountList(a), newServiceAccountGet(a), newServiceAccountCreate(a), newServiceAccountUpdate(a), newServiceAccountDelete(a),
		newCredentials(a), group("credential", "What a program signs in with", newCredentialCreate(a), newCredentialRevoke(a)), newServiceAccountToken(a))
	g.Aliases = []string{"sa"}
	return g
}

func newServiceAccountList(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "The service accounts of the project", Args: cobra.NoArgs}
	return lists(a, cmd, func(ctx context.Context, c *client, _ []string) (pager, error) { return c.serviceAccounts(ctx) }, serviceAccountTable)
}

func (c *client) serviceAccounts(ctx context.Context) (pager, error) {
	in, err := c.projectOf(ctx, nil)
	return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListServiceAccounts(ctx, in.Value.Id, &oapi.ListServiceAccountsParams{Limit: size, Cursor: cursor})
	}, err
}

// serviceAccount finds one by its id, or by its name in the project.
func (c *client) serviceAccount(ctx context.Context, ref string) (answer[oapi.ServiceAccount], error) {
	id, ref, ok := idOf(ref)
	if !ok {
		of, err := c.serviceAccounts(ctx)
		if err != nil {
			return answer[oapi.ServiceAccount]{}, err
		}
		all, err := readAll[oapi.ServiceAccount](ctx, c, 0, of)
		if err != nil {
			return answer[oapi.ServiceAccount]{}, err
		}
		found, err := pick(c, all.Items, "service account", ref, "gpuaas service-account list", func(s oapi.ServiceAccount) []string { return []string{s.Name} })
		if err != nil {
			return answer[oapi.ServiceAccount]{}, err
		}
		id = found.Id
	}
	return ask[oapi.ServiceAccount](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetServiceAccount(ctx, id, nil) })
}

func newServiceAccountGet(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "get ACCOUNT", Short: "One service account", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			found, err := c.serviceAccount(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.show(found.Raw, serviceAccountTable(a, found.Value))
		},
	}
}

func newServiceAccountCreate(a *app) *cobra.Command {
	var description string
	var may []string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "A program that may do what its scopes say", Args: cobra.ExactArgs(1),
		Example: "  gpuaas sa create trainer --scope allocations:read --scope allocations:write\n  gpuaas sa credential create trainer --ttl 90d",
	}
	cmd.Flags().StringVar(&description, "description", "", "what it is for")
	cmd.Flags().StringSliceVar(&may, "scope", nil, scopeUsage)
	_ = cmd.MarkFlagRequired("scope")
	return makes(a, cmd, func(ctx context.Context, c *client, args []string) (sending, error) {
		in, err := c.projectOf(ctx, nil)
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.CreateServiceAccount(ctx, in.Value.Id, nil, oapi.ServiceAccountRequest{Name: args[0], Description: set(description), Scopes: scopes(may)}, once)
		}, err
	}, serviceAccountTable)
}

func newServiceAccountUpdate(a *app) *cobra.Command {
	var name, description string
	var may []string
	var disable, enable bool
	cmd := &cobra.Command{Use: "update ACCOUNT", Short: "Change a service account; disabled, its tokens stop working at once", Args: cobra.ExactArgs(1)}
	flags := cmd.Flags()
	flags.StringVar(&name, "name", "", "its new name")
	flags.StringVar(&description, "description", "", "what it is for")
	flags.StringSliceVar(&may, "scope", nil, scopeUsage+"; these take the place of all")
	flags.BoolVar(&disable, "disable", false, "it may do nothing for now")
	flags.BoolVar(&enable, "enable", false, "it may work again")
	cmd.MarkFlagsMutuallyExclusive("disable", "enable")
	cmd.MarkFlagsOneRequired("name", "description", "scope", "disable", "enable")
	return makes(a, cmd, func(ctx context.Context, c *client, args []string) (sending, error) {
		patch := oapi.ServiceAccountPatch{Name: given(cmd, "name", name), Description: given(cmd, "description", description), Scopes: given(cmd, "scope", scopes(may))}
		if disable || enable {
			patch.Disabled = &disable
		}
		found, err := c.serviceAccount(ctx, args[0])
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.UpdateServiceAccount(ctx, found.Value.Id, nil, patch, once, seen(found.Value.Version))
		}, err
	}, serviceAccountTable)
}

func newServiceAccountDelete(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "delete ACCOUNT", Short: "Remove a service account and its credentials; its tokens stop working at once", Args: cobra.ExactArgs(1)}
	return ends(a, cmd, func(ctx context.Context, c *client, args []string) (end, error) {
		found, err := c.serviceAccount(ctx, args[0])
		s := found.Value
		return end{
			name: s.Name, what: fmt.Sprintf("the service account %s (%s) signs in no more", s.Name, lastUse(a.Clock.Now(), s.LastUsedAt)),
			send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.DeleteServiceAccount(ctx, s.Id, nil, once, seen(s.Version))
			},
		}, err
	})
}

func serviceAccountTable(a *app, all ...oapi.ServiceAccount) table {
	t := table{head: []string{"NAME", "STATUS", "SCOPES", "LAST USED", "AGE", "DESCRIPTION"}, wide: []string{"VERSION", "ID"}}
	for _, s := range all {
		t.add("service-account/"+s.Name, s.Name, working(s.Disabled), scopeList(s.Scopes, "-"), ago(a.Clock.Now(), s.LastUsedAt), age(a.Clock.Now(), s.CreatedAt),
			cell(s.Description), strconv.FormatInt(s.Version, 10), s.Id.String())
	}
	return t
}

func working(disabled bool) string {
	if disabled {
		return symbolBad + " disabled"
	}
	return symbolGood + " enabled"
}
