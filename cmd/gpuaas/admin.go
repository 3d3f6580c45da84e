package main

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
)

func newAdmin(a *app) *cobra.Command {
	return group("admin", "Everyone's people, tenants, sessions and money; for those who run the platform",
		newAdminUsers(a),
		group("user", "One person", newAdminUserGet(a), newAdminUserCreate(a), newAdminUserUpdate(a), newAdminUserDisable(a), newAdminUserEnable(a)),
		newAdminTenants(a), group("tenant", "One tenant", newAdminTenantGet(a), newAdminTenantCreate(a), newAdminTenantPlace(a)),
		newAdminSessions(a), group("session", "One session", newAdminSessionEnd(a)),
		newAdminPayments(a), group("payment", "One top-up", newAdminPaymentReconcile(a)),
		newAdminRefunds(a), group("refund", "One refund", newAdminRefundCreate(a)),
		group("balance", "A tenant's balance", newAdminBalanceGet(a), newAdminBalanceAdjust(a)), newAdminLedger(a))
}

func newAdminTenants(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "tenants", Short: "All tenants", Args: cobra.NoArgs}
	return lists(a, cmd, func(_ context.Context, c *client, _ []string) (pager, error) { return c.tenants, nil }, tenantTable)
}

func (c *client) tenants(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
	return c.ListTenants(ctx, &oapi.ListTenantsParams{Limit: size, Cursor: cursor})
}

// anyTenant finds a tenant by its name or id.
func (c *client) anyTenant(ctx context.Context, ref string) (oapi.Tenant, error) {
	_, ref, _ = idOf(ref)
	all, err := readAll[oapi.Tenant](ctx, c, 0, c.tenants)
	if err != nil {
		return oapi.Tenant{}, err
	}
	return pick(c, all.Items, "tenant", ref, "gpuaas admin tenants", func(t oapi.Tenant) []string { return []string{t.Name, t.Id.String()} })
}

func newAdminTenantGet(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "get TENANT", Short: "One tenant", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			t, err := c.anyTenant(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			found, err := ask[oapi.Tenant](cmd.Context(), c, func(ctx context.Context) (*http.Response, error) { return c.GetTenantByID(ctx, t.Id, nil) })
			if err != nil {
				return err
			}
			return a.show(found.Raw, tenantTable(a, found.Value))
		},
	}
}

func newAdminTenantCreate(a *app) *cobra.Command {
	var currency string
	cmd := &cobra.Command{Use: "create NAME", Short: "A tenant with a project default, and nobody in it yet", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&currency, "currency", "", "what it pays in, like EUR; the policy's when left out")
	return makes(a, cmd, func(_ context.Context, c *client, args []string) (sending, error) {
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.CreateTenant(ctx, nil, oapi.TenantRequest{Name: args[0], Currency: set(currency)}, once)
		}, nil
	}, tenantTable)
}

func newAdminTenantPlace(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "place TENANT USER ROLE", Short: "Put somebody into a tenant as " + tenantRoles, Args: cobra.ExactArgs(3),
		Example: "  gpuaas admin tenant create acme\n  gpuaas admin tenant place acme owner@acme.localhost owner",
	}
	return makes(a, cmd, func(ctx context.Context, c *client, args []string) (sending, error) {
		t, err := c.anyTenant(ctx, args[0])
		if err != nil {
			return nil, err
		}
		u, err := c.user(ctx, args[1])
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.PlaceTenantMember(ctx, t.Id, u.Value.Id, nil, oapi.TenantRoleRequest{Role: oapi.TenantRole(args[2])}, once)
		}, err
	}, memberTable)
}

func newAdminSessions(a *app) *cobra.Command {
	var user string
	cmd := &cobra.Command{Use: "sessions", Short: "Who is signed in, and where", Args: cobra.NoArgs}
	cmd.Flags().StringVar(&user, "user", "", "only of this person, by e-mail address or id")
	return lists(a, cmd, func(ctx context.Context, c *client, _ []string) (pager, error) {
		params := oapi.ListAllSessionsParams{}
		if user != "" {
			u, err := c.user(ctx, user)
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

func newAdminSessionEnd(a *app) *cobra.Command {
	return endSession(a, "Sign somebody out", func(ctx context.Context, c *client, id uuid.UUID, once oapi.RequestEditorFn) (*http.Response, error) {
		return c.EndAnySession(ctx, id, nil, once)
	})
}
