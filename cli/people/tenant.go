// Package people contains the commands of sign-in, tenants, projects, service accounts and audit logs.
package people

import (
	"context"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

func NewTenant(a *output.Console) *cobra.Command {
	return output.Group("tenant", "Manage your tenant",
		newTenantGet(a), newTenantRename(a), newTenantMembers(a),
		output.Group("member", "Manage tenant members", newTenantMemberSet(a), newTenantMemberRemove(a)),
		newTenantInvite(a), newTenantInvitations(a), newTenantUninvite(a))
}

func tenant(ctx context.Context, c *client.Client) (client.Response[oapi.Tenant], error) {
	return client.Send[oapi.Tenant](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetTenant(ctx, nil) })
}

func newTenantGet(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "get", Short: "Show the tenant", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			found, err := tenant(cmd.Context(), c)
			if err != nil {
				return err
			}
			return a.Show(found.Raw, tenantTable(a, found.Value))
		},
	}
}

func newTenantRename(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "rename NAME", Short: "Rename the tenant", Args: cobra.ExactArgs(1)}
	return client.ChangeCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Sending, error) {
		found, err := tenant(ctx, c)
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.UpdateTenant(ctx, nil, oapi.TenantPatch{Name: args[0]}, once, client.IfMatch(found.Value.Version))
		}, err
	}, tenantTable)
}

func newTenantMembers(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "members", Short: "List tenant members", Args: cobra.NoArgs}
	return client.ListCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Pager, error) {
		return tenantMemberPages(c), nil
	}, memberTable)
}

func tenantMemberPages(c *client.Client) client.Pager {
	return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListTenantMembers(ctx, &oapi.ListTenantMembersParams{Limit: size, Cursor: cursor})
	}
}

func newTenantMemberSet(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "set USER ROLE", Short: "Set a member's tenant role", Args: cobra.ExactArgs(2)}
	return client.ChangeCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Sending, error) {
		user, _, ok := output.IdOf(args[0])
		if !ok {
			m, err := memberOf(ctx, c, tenantMemberPages(c), args[0], "gpuaas tenant invite "+args[0])
			if err != nil {
				return nil, err
			}
			user = m.UserId
		}
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.PutTenantMember(ctx, user, nil, oapi.TenantRoleRequest{Role: oapi.TenantRole(args[1])}, once)
		}, nil
	}, memberTable)
}

func newTenantMemberRemove(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "remove USER", Short: "Remove a tenant member", Args: cobra.ExactArgs(1)}
	return client.DeleteCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Effect, error) {
		m, err := memberOf(ctx, c, tenantMemberPages(c), args[0], "gpuaas tenant members")
		return client.Effect{
			Name: m.Email, What: m.Email + " is of this tenant and its projects no more",
			Send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.DeleteTenantMember(ctx, m.UserId, nil, once)
			},
		}, err
	})
}

func newTenantInvite(a *output.Console) *cobra.Command {
	role := "member"
	cmd := &cobra.Command{Use: "invite EMAIL", Short: "Invite a user", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&role, "role", role, tenantRoles)
	return client.ChangeCommand(a, cmd, func(_ context.Context, c *client.Client, args []string) (client.Sending, error) {
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.CreateInvitation(ctx, nil, oapi.InvitationRequest{Email: args[0], Role: oapi.TenantRole(role)}, once)
		}, nil
	}, invitationTable)
}

func newTenantInvitations(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "invitations", Short: "List open invitations", Args: cobra.NoArgs}
	return client.ListCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Pager, error) {
		return invitationPages(c), nil
	}, invitationTable)
}

func invitationPages(c *client.Client) client.Pager {
	return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListInvitations(ctx, &oapi.ListInvitationsParams{Limit: size, Cursor: cursor})
	}
}

// newTenantUninvite needs no confirmation: the user can be invited again.
func newTenantUninvite(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "uninvite EMAIL", Short: "Revoke an invitation", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			all, err := client.ReadAll[oapi.Invitation](cmd.Context(), c, 0, invitationPages(c))
			if err != nil {
				return err
			}
			_, ref, _ := output.IdOf(args[0])
			one, err := client.Pick(c, all.Items, "invitation", ref, "gpuaas tenant invitations", func(i oapi.Invitation) []string { return []string{i.Email, i.Id.String()} })
			if err != nil {
				return err
			}
			_, err = client.Change[struct{}](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.DeleteInvitation(ctx, one.Id, nil, once)
			})
			if err == nil {
				a.Notify("%s %s is invited no more", output.SymbolGood, one.Email)
			}
			return err
		},
	}
}

func tenantTable(a *output.Console, all ...oapi.Tenant) output.Table {
	t := output.Table{Head: []string{"NAME", "CURRENCY", "AGE"}, Wide: []string{"VERSION", "ID"}}
	for _, one := range all {
		t.Add("tenant/"+one.Name, one.Name, one.Currency, output.Age(a.Clock.Now(), one.CreatedAt), strconv.FormatInt(one.Version, 10), one.Id.String())
	}
	return t
}

func invitationTable(a *output.Console, all ...oapi.Invitation) output.Table {
	t := output.Table{Head: []string{"EMAIL", "ROLE", "EXPIRES IN", "AGE"}, Wide: []string{"ID"}}
	for _, i := range all {
		t.Add("invitation/"+i.Email, i.Email, string(i.Role), output.Age(i.ExpiresAt, a.Clock.Now()), output.Age(a.Clock.Now(), i.CreatedAt), i.Id.String())
	}
	return t
}
