package people

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

// NewAdmin returns the commands for administrators. The caller adds those of billing.
func NewAdmin(a *output.Console, billing ...*cobra.Command) *cobra.Command {
	return output.Group("admin", "Administer users, tenants, sessions and billing", append([]*cobra.Command{
		newAdminUsers(a),
		output.Group("user", "Manage users", newAdminUserGet(a), newAdminUserCreate(a), newAdminUserUpdate(a), newAdminUserDisable(a), newAdminUserEnable(a), newAdminUserRelink(a), newAdminUserDelete(a)),
		newAdminTenants(a), output.Group("tenant", "Manage tenants", newAdminTenantGet(a), newAdminTenantCreate(a), newAdminTenantPlace(a), newAdminTenantDelete(a)),
		newAdminSessions(a), output.Group("session", "Manage sessions", newAdminSessionEnd(a)),
	}, billing...)...)
}

func newAdminTenants(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "tenants", Short: "List tenants", Args: cobra.NoArgs}
	return client.ListCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Pager, error) {
		return tenantPages(c), nil
	}, tenantTable)
}

func tenantPages(c *client.Client) client.Pager {
	return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListTenants(ctx, &oapi.ListTenantsParams{Limit: size, Cursor: cursor})
	}
}

// AnyTenant finds a tenant by its name or id.
func AnyTenant(ctx context.Context, c *client.Client, ref string) (oapi.Tenant, error) {
	_, ref, _ = output.IdOf(ref)
	all, err := client.ReadAll[oapi.Tenant](ctx, c, 0, tenantPages(c))
	if err != nil {
		return oapi.Tenant{}, err
	}
	return client.Pick(c, all.Items, "tenant", ref, "gpuaas admin tenants", func(t oapi.Tenant) []string { return []string{t.Name, t.Id.String()} })
}

func newAdminTenantGet(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "get TENANT", Short: "Show a tenant", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			t, err := AnyTenant(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			found, err := client.Send[oapi.Tenant](cmd.Context(), c, func(ctx context.Context) (*http.Response, error) { return c.GetTenantByID(ctx, t.Id, nil) })
			if err != nil {
				return err
			}
			return a.Show(found.Raw, tenantTable(a, found.Value))
		},
	}
}

func newAdminTenantCreate(a *output.Console) *cobra.Command {
	var currency string
	cmd := &cobra.Command{Use: "create NAME", Short: "Create a tenant", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&currency, "currency", "", "currency of the tenant, for example EUR (default: the policy's currency)")
	return client.ChangeCommand(a, cmd, func(_ context.Context, c *client.Client, args []string) (client.Sending, error) {
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.CreateTenant(ctx, nil, oapi.TenantRequest{Name: args[0], Currency: output.PointerOrNil(currency)}, once)
		}, nil
	}, tenantTable)
}

func newAdminTenantPlace(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use: "place TENANT USER ROLE", Short: "Add a user to a tenant", Args: cobra.ExactArgs(3),
		Example: "  gpuaas admin tenant create acme\n  gpuaas admin tenant place acme owner@acme.localhost owner",
	}
	return client.ChangeCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Sending, error) {
		t, err := AnyTenant(ctx, c, args[0])
		if err != nil {
			return nil, err
		}
		u, err := User(ctx, c, args[1])
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.PlaceTenantMember(ctx, t.Id, u.Value.Id, nil, oapi.TenantRoleRequest{Role: oapi.TenantRole(args[2])}, once)
		}, err
	}, memberTable)
}

func newAdminSessions(a *output.Console) *cobra.Command {
	var user string
	cmd := &cobra.Command{Use: "sessions", Short: "List sessions of all users", Args: cobra.NoArgs}
	cmd.Flags().StringVar(&user, "user", "", "only sessions of this user, by e-mail address or id")
	return client.ListCommand(a, cmd, func(ctx context.Context, c *client.Client, _ []string) (client.Pager, error) {
		params := oapi.ListAllSessionsParams{}
		if user != "" {
			u, err := User(ctx, c, user)
			if err != nil {
				return nil, err
			}
			params.UserId = &u.Value.Id
		}
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			params.Limit, params.Cursor = size, cursor
			return c.ListAllSessions(ctx, &params)
		}, nil
	}, sessionTable)
}

func newAdminSessionEnd(a *output.Console) *cobra.Command {
	return endSession(a, "Revoke a user's session", func(ctx context.Context, c *client.Client, id uuid.UUID, once oapi.RequestEditorFn) (*http.Response, error) {
		return c.EndAnySession(ctx, id, nil, once)
	})
}
