package main

import (
	"context"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
)

func newTenant(a *app) *cobra.Command {
	return group("tenant", "Your tenant, who is in it, and who is asked in",
		newTenantGet(a), newTenantRename(a), newTenantMembers(a),
		group("member", "Give and take roles in the tenant", newTenantMemberSet(a), newTenantMemberRemove(a)),
		newTenantInvite(a), newTenantInvitations(a), newTenantUninvite(a))
}

func (c *client) tenant(ctx context.Context) (answer[oapi.Tenant], error) {
	return ask[oapi.Tenant](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetTenant(ctx, nil) })
}

func newTenantGet(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "get", Short: "Your tenant", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			found, err := c.tenant(cmd.Context())
			if err != nil {
				return err
			}
			return a.show(found.Raw, tenantTable(a, found.Value))
		},
	}
}

func newTenantRename(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "rename NAME", Short: "Give your tenant another name", Args: cobra.ExactArgs(1)}
	return makes(a, cmd, func(ctx context.Context, c *client, args []string) (sending, error) {
		found, err := c.tenant(ctx)
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.UpdateTenant(ctx, nil, oapi.TenantPatch{Name: args[0]}, once, seen(found.Value.Version))
		}, err
	}, tenantTable)
}

func newTenantMembers(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "members", Short: "Who is in your tenant", Args: cobra.NoArgs}
	return lists(a, cmd, func(_ context.Context, c *client, _ []string) (pager, error) { return c.tenantMembers, nil }, memberTable)
}

func (c *client) tenantMembers(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
	return c.ListTenantMembers(ctx, &oapi.ListTenantMembersParams{Limit: size, Cursor: cursor})
}

func newTenantMemberSet(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "set USER ROLE", Short: "Make somebody " + tenantRoles, Args: cobra.ExactArgs(2)}
	return makes(a, cmd, func(ctx context.Context, c *client, args []string) (sending, error) {
		user, _, ok := idOf(args[0])
		if !ok {
			m, err := c.memberOf(ctx, c.tenantMembers, args[0], "gpuaas tenant invite "+args[0])
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

func newTenantMemberRemove(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "remove USER", Short: "Take somebody out of the tenant and all its projects", Args: cobra.ExactArgs(1)}
	return ends(a, cmd, func(ctx context.Context, c *client, args []string) (end, error) {
		m, err := c.memberOf(ctx, c.tenantMembers, args[0], "gpuaas tenant members")
		return end{
			name: m.Email, what: m.Email + " is of this tenant and its projects no more",
			send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.DeleteTenantMember(ctx, m.UserId, nil, once)
			},
		}, err
	})
}

func newTenantInvite(a *app) *cobra.Command {
	role := "member"
	cmd := &cobra.Command{Use: "invite EMAIL", Short: "Ask somebody in: they are of the tenant from their next sign-in on", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&role, "role", role, tenantRoles)
	return makes(a, cmd, func(_ context.Context, c *client, args []string) (sending, error) {
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.CreateInvitation(ctx, nil, oapi.InvitationRequest{Email: args[0], Role: oapi.TenantRole(role)}, once)
		}, nil
	}, invitationTable)
}

func newTenantInvitations(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "invitations", Short: "Who was asked in and has not come yet", Args: cobra.NoArgs}
	return lists(a, cmd, func(_ context.Context, c *client, _ []string) (pager, error) { return c.invitations, nil }, invitationTable)
}

func (c *client) invitations(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
	return c.ListInvitations(ctx, &oapi.ListInvitationsParams{Limit: size, Cursor: cursor})
}

// newTenantUninvite asks nothing: whoever was wrong invites again.
func newTenantUninvite(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "uninvite EMAIL", Short: "Take an invitation back", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			all, err := readAll[oapi.Invitation](cmd.Context(), c, 0, c.invitations)
			if err != nil {
				return err
			}
			_, ref, _ := idOf(args[0])
			one, err := pick(c, all.Items, "invitation", ref, "gpuaas tenant invitations", func(i oapi.Invitation) []string { return []string{i.Email, i.Id.String()} })
			if err != nil {
				return err
			}
			_, err = change[struct{}](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.DeleteInvitation(ctx, one.Id, nil, once)
			})
			if err == nil {
				a.say("%s %s is invited no more", symbolGood, one.Email)
			}
			return err
		},
	}
}

func tenantTable(a *app, all ...oapi.Tenant) table {
	t := table{head: []string{"NAME", "CURRENCY", "AGE"}, wide: []string{"VERSION", "ID"}}
	for _, one := range all {
		t.add("tenant/"+one.Name, one.Name, one.Currency, age(a.Clock.Now(), one.CreatedAt), strconv.FormatInt(one.Version, 10), one.Id.String())
	}
	return t
}

func invitationTable(a *app, all ...oapi.Invitation) table {
	t := table{head: []string{"EMAIL", "ROLE", "EXPIRES IN", "AGE"}, wide: []string{"ID"}}
	for _, i := range all {
		t.add("invitation/"+i.Email, i.Email, string(i.Role), age(i.ExpiresAt, a.Clock.Now()), age(a.Clock.Now(), i.CreatedAt), i.Id.String())
	}
	return t
}
