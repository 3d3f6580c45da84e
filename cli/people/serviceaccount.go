package people

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

func NewServiceAccount(a *output.Console) *cobra.Command {
	g := output.Group("service-account", "Manage service accounts",
		newServiceAccountList(a), newServiceAccountGet(a), newServiceAccountCreate(a), newServiceAccountUpdate(a), newServiceAccountDelete(a),
		newCredentials(a), output.Group("credential", "Manage credentials", newCredentialCreate(a), newCredentialRevoke(a)), newServiceAccountToken(a))
	g.Aliases = []string{"sa"}
	return g
}

func newServiceAccountList(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List service accounts", Args: cobra.NoArgs}
	return client.ListCommand(a, cmd, func(ctx context.Context, c *client.Client, _ []string) (client.Pager, error) {
		return serviceAccounts(ctx, c)
	}, serviceAccountTable)
}

func serviceAccounts(ctx context.Context, c *client.Client) (client.Pager, error) {
	in, err := ProjectOf(ctx, c, nil)
	return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListServiceAccounts(ctx, in.Value.Id, &oapi.ListServiceAccountsParams{Limit: size, Cursor: cursor})
	}, err
}

// serviceAccount finds one by its id, or by its name in the project.
func serviceAccount(ctx context.Context, c *client.Client, ref string) (client.Response[oapi.ServiceAccount], error) {
	id, ref, ok := output.IdOf(ref)
	if !ok {
		of, err := serviceAccounts(ctx, c)
		if err != nil {
			return client.Response[oapi.ServiceAccount]{}, err
		}
		all, err := client.ReadAll[oapi.ServiceAccount](ctx, c, 0, of)
		if err != nil {
			return client.Response[oapi.ServiceAccount]{}, err
		}
		found, err := client.Pick(c, all.Items, "service account", ref, "gpuaas service-account list", func(s oapi.ServiceAccount) []string { return []string{s.Name} })
		if err != nil {
			return client.Response[oapi.ServiceAccount]{}, err
		}
		id = found.Id
	}
	return client.Send[oapi.ServiceAccount](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetServiceAccount(ctx, id, nil) })
}

func newServiceAccountGet(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "get ACCOUNT", Short: "Show a service account", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			found, err := serviceAccount(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			return a.Show(found.Raw, serviceAccountTable(a, found.Value))
		},
	}
}

func newServiceAccountCreate(a *output.Console) *cobra.Command {
	var description string
	var may []string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create a service account", Args: cobra.ExactArgs(1),
		Example: "  gpuaas sa create trainer --scope allocations:read --scope allocations:write\n  gpuaas sa credential create trainer --ttl 90d",
	}
	cmd.Flags().StringVar(&description, "description", "", "description")
	cmd.Flags().StringSliceVar(&may, "scope", nil, output.ScopeUsage)
	_ = cmd.MarkFlagRequired("scope")
	return client.ChangeCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Sending, error) {
		in, err := ProjectOf(ctx, c, nil)
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.CreateServiceAccount(ctx, in.Value.Id, nil, oapi.ServiceAccountRequest{Name: args[0], Description: output.PointerOrNil(description), Scopes: output.Scopes(may)}, once)
		}, err
	}, serviceAccountTable)
}

func newServiceAccountUpdate(a *output.Console) *cobra.Command {
	var name, description string
	var may []string
	var disable, enable bool
	cmd := &cobra.Command{Use: "update ACCOUNT", Short: "Update a service account", Args: cobra.ExactArgs(1)}
	flags := cmd.Flags()
	flags.StringVar(&name, "name", "", "its new name")
	flags.StringVar(&description, "description", "", "description")
	flags.StringSliceVar(&may, "scope", nil, output.ScopeUsage+"; the list replaces all scopes")
	flags.BoolVar(&disable, "disable", false, "disable the service account")
	flags.BoolVar(&enable, "enable", false, "it may work again")
	cmd.MarkFlagsMutuallyExclusive("disable", "enable")
	cmd.MarkFlagsOneRequired("name", "description", "scope", "disable", "enable")
	return client.ChangeCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Sending, error) {
		patch := oapi.ServiceAccountPatch{Name: output.FlagOrNil(cmd, "name", name), Description: output.FlagOrNil(cmd, "description", description), Scopes: output.FlagOrNil(cmd, "scope", output.Scopes(may))}
		if disable || enable {
			patch.Disabled = &disable
		}
		found, err := serviceAccount(ctx, c, args[0])
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.UpdateServiceAccount(ctx, found.Value.Id, nil, patch, once, client.IfMatch(found.Value.Version))
		}, err
	}, serviceAccountTable)
}

func newServiceAccountDelete(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "delete ACCOUNT", Short: "Delete a service account", Args: cobra.ExactArgs(1)}
	return client.DeleteCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Effect, error) {
		found, err := serviceAccount(ctx, c, args[0])
		s := found.Value
		return client.Effect{
			Name: s.Name, What: fmt.Sprintf("the service account %s (%s) signs in no more", s.Name, output.LastUse(a.Clock.Now(), s.LastUsedAt)),
			Send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.DeleteServiceAccount(ctx, s.Id, nil, once, client.IfMatch(s.Version))
			},
		}, err
	})
}

func serviceAccountTable(a *output.Console, all ...oapi.ServiceAccount) output.Table {
	t := output.Table{Head: []string{"NAME", "STATUS", "SCOPES", "LAST USED", "AGE", "DESCRIPTION"}, Wide: []string{"VERSION", "ID"}}
	for _, s := range all {
		t.Add("service-account/"+s.Name, s.Name, working(s.Disabled), output.ScopeList(s.Scopes, "-"), output.Ago(a.Clock.Now(), s.LastUsedAt), output.Age(a.Clock.Now(), s.CreatedAt),
			output.CellText(s.Description), strconv.FormatInt(s.Version, 10), s.Id.String())
	}
	return t
}

func working(disabled bool) string {
	if disabled {
		return output.SymbolBad + " disabled"
	}
	return output.SymbolGood + " enabled"
}
