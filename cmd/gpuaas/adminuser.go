package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
)

const platformRoles = "user, admin, operator or billing_operator"

func newAdminUsers(a *app) *cobra.Command {
	var text, role, tenant string
	cmd := &cobra.Command{Use: "users", Short: "Everyone", Args: cobra.NoArgs}
	flags := cmd.Flags()
	flags.StringVarP(&text, "query", "q", "", "only with this in the name or the e-mail address")
	flags.StringVar(&role, "role", "", "only who is "+platformRoles+" of the platform")
	flags.StringVar(&tenant, "tenant", "", "only of this tenant, by name or id")
	return lists(a, cmd, func(ctx context.Context, c *client, _ []string) (pager, error) {
		params := oapi.ListUsersParams{Q: set(text), Role: set(oapi.PlatformRole(role))}
		if tenant != "" {
			t, err := c.anyTenant(ctx, tenant)
			if err != nil {
				return nil, err
			}
			params.Tenant = &t.Id
		}
		return c.users(params), nil
	}, userTable)
}

func (c *client) users(params oapi.ListUsersParams) pager {
	return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		params.Limit, params.Cursor = size, cursor
		return c.ListUsers(ctx, &params)
	}
}

// user finds anybody by e-mail address or id.
func (c *client) user(ctx context.Context, ref string) (answer[oapi.UserDetail], error) {
	id, ref, ok := idOf(ref)
	if !ok {
		all, err := readAll[oapi.User](ctx, c, 0, c.users(oapi.ListUsersParams{Q: &ref}))
		if err != nil {
			return answer[oapi.UserDetail]{}, err
		}
		found, err := pick(c, all.Items, "user", ref, "gpuaas admin users -q "+ref, func(u oapi.User) []string { return []string{u.Email} })
		if err != nil {
			return answer[oapi.UserDetail]{}, err
		}
		id = found.Id
	}
	return ask[oapi.UserDetail](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetUser(ctx, id, nil) })
}

func newAdminUserGet(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "get USER", Short: "One person, with what their tenant has and what they hold", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			found, err := c.user(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			u := found.Value
			balance := "-"
			if u.Balance != nil {
				balance = amount(*u.Balance)
			}
			t := userTable(a, oapi.User{
				Id: u.Id, Email: u.Email, Name: u.Name, Role: u.Role, RoleFrom: oapi.UserRoleFrom(u.RoleFrom), Issuer: u.Issuer, Tenant: u.Tenant,
				Disabled: u.Disabled, Version: u.Version, CreatedAt: u.CreatedAt, SignedInAt: u.SignedInAt,
			})
			t.head = append(t.head, "ACTIVE", "BALANCE")
			at := len(t.rows[0]) - len(t.wide)
			t.rows[0] = append(t.rows[0][:at:at], append([]string{strconv.Itoa(u.ActiveAllocations), balance}, t.rows[0][at:]...)...)
			return a.show(found.Raw, t)
		},
	}
}

func newAdminUserCreate(a *app) *cobra.Command {
	var name, role, tenant, tenantRole string
	cmd := &cobra.Command{
		Use: "create EMAIL", Short: "Somebody who may sign in with this e-mail address", Args: cobra.ExactArgs(1),
		Example: "  gpuaas admin user create new@acme.localhost --name New --tenant acme --tenant-role member",
	}
	flags := cmd.Flags()
	flags.StringVar(&name, "name", "", "as people call them; the part before the @ when left out")
	flags.StringVar(&role, "role", "", platformRoles+" of the platform")
	flags.StringVar(&tenant, "tenant", "", "put them into this one, by name or id")
	flags.StringVar(&tenantRole, "tenant-role", "", tenantRoles+"; needs --tenant")
	return makes(a, cmd, func(ctx context.Context, c *client, args []string) (sending, error) {
		body := oapi.UserRequest{Email: args[0], Name: calledBy(name, args[0]), Role: set(oapi.PlatformRole(role)), TenantRole: set(oapi.TenantRole(tenantRole))}
		if tenant != "" {
			t, err := c.anyTenant(ctx, tenant)
			if err != nil {
				return nil, err
			}
			body.TenantId = &t.Id
		}
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.CreateUser(ctx, nil, body, once)
		}, nil
	}, userTable)
}

func newAdminUserUpdate(a *app) *cobra.Command {
	var name, role string
	cmd := &cobra.Command{Use: "update USER", Short: "Rename somebody, or give them another role on the platform", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&name, "name", "", "as people call them")
	cmd.Flags().StringVar(&role, "role", "", platformRoles+" of the platform")
	cmd.MarkFlagsOneRequired("name", "role")
	return makes(a, cmd, func(ctx context.Context, c *client, args []string) (sending, error) {
		u, err := c.user(ctx, args[0])
		return patchUser(c, u.Value, oapi.UserPatch{Name: given(cmd, "name", name), Role: given(cmd, "role", oapi.PlatformRole(role))}), err
	}, userTable)
}

func patchUser(c *client, u oapi.UserDetail, patch oapi.UserPatch) sending {
	return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
		return c.UpdateUser(ctx, u.Id, nil, patch, once, seen(u.Version))
	}
}

func newAdminUserDisable(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "disable USER", Short: "Sign somebody out, and let them in no more; what they hold stays", Args: cobra.ExactArgs(1)}
	return ends(a, cmd, func(ctx context.Context, c *client, args []string) (end, error) {
		u, err := c.user(ctx, args[0])
		off := true
		return end{
			name: u.Value.Email, what: fmt.Sprintf("%s is signed out, and signs in no more; their %d active allocations stay", u.Value.Email, u.Value.ActiveAllocations),
			send: patchUser(c, u.Value, oapi.UserPatch{Disabled: &off}),
		}, err
	})
}

func newAdminUserEnable(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "enable USER", Short: "Let somebody in again", Args: cobra.ExactArgs(1)}
	return makes(a, cmd, func(ctx context.Context, c *client, args []string) (sending, error) {
		u, err := c.user(ctx, args[0])
		off := false
		return patchUser(c, u.Value, oapi.UserPatch{Disabled: &off}), err
	}, userTable)
}

func userTable(a *app, all ...oapi.User) table {
	t := table{head: []string{"EMAIL", "STATUS", "ROLE", "TENANT", "NAME", "SIGNED IN", "AGE"}, wide: []string{"ROLE FROM", "ISSUER", "VERSION", "ID"}}
	for _, u := range all {
		tenant := "-"
		if u.Tenant != nil {
			tenant = u.Tenant.Name + " (" + u.Tenant.Role + ")"
		}
		t.add("user/"+u.Email, u.Email, working(u.Disabled), string(u.Role), tenant, cell(u.Name), ago(a.Clock.Now(), u.SignedInAt), age(a.Clock.Now(), u.CreatedAt),
			string(u.RoleFrom), cell(u.Issuer), strconv.FormatInt(u.Version, 10), u.Id.String())
	}
	return t
}

// calledBy is a name for somebody who was given none.
func calledBy(name, email string) string {
	if name != "" {
		return name
	}
	before, _, _ := strings.Cut(email, "@")
	return before
}
