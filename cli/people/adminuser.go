package people

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

const platformRoles = "user, admin, operator, billing_operator or a declared role"

func newAdminUsers(a *output.Console) *cobra.Command {
	var text, role, tenant string
	cmd := &cobra.Command{Use: "users", Short: "List users", Args: cobra.NoArgs}
	flags := cmd.Flags()
	flags.StringVarP(&text, "query", "q", "", "only with this in the name or the e-mail address")
	flags.StringVar(&role, "role", "", "only who is "+platformRoles+" of the platform")
	flags.StringVar(&tenant, "tenant", "", "only of this tenant, by name or id")
	return client.ListCommand(a, cmd, func(ctx context.Context, c *client.Client, _ []string) (client.Pager, error) {
		params := oapi.ListUsersParams{Q: output.PointerOrNil(text), Role: output.PointerOrNil(role)}
		if tenant != "" {
			t, err := AnyTenant(ctx, c, tenant)
			if err != nil {
				return nil, err
			}
			params.Tenant = &t.Id
		}
		return users(c, params), nil
	}, userTable)
}

func users(c *client.Client, params oapi.ListUsersParams) client.Pager {
	return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		params.Limit, params.Cursor = size, cursor
		return c.ListUsers(ctx, &params)
	}
}

// User finds anybody by e-mail address or id.
func User(ctx context.Context, c *client.Client, ref string) (client.Response[oapi.UserDetail], error) {
	id, ref, ok := output.IdOf(ref)
	if !ok {
		all, err := client.ReadAll[oapi.User](ctx, c, 0, users(c, oapi.ListUsersParams{Q: &ref}))
		if err != nil {
			return client.Response[oapi.UserDetail]{}, err
		}
		found, err := client.Pick(c, all.Items, "user", ref, "gpuaas admin users -q "+ref, func(u oapi.User) []string { return []string{u.Email} })
		if err != nil {
			return client.Response[oapi.UserDetail]{}, err
		}
		id = found.Id
	}
	return client.Send[oapi.UserDetail](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetUser(ctx, id, nil) })
}

func newAdminUserGet(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "get USER", Short: "Show a user", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			found, err := User(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			u := found.Value
			balance := "-"
			if u.Balance != nil {
				balance = output.Amount(*u.Balance)
			}
			t := userTable(a, oapi.User{
				Id: u.Id, Email: u.Email, Name: u.Name, Role: u.Role, RoleFrom: oapi.UserRoleFrom(u.RoleFrom), Issuer: u.Issuer, Tenant: u.Tenant,
				Disabled: u.Disabled, Version: u.Version, CreatedAt: u.CreatedAt, SignedInAt: u.SignedInAt,
			})
			t.Head = append(t.Head, "ACTIVE", "BALANCE")
			at := len(t.Rows[0]) - len(t.Wide)
			t.Rows[0] = append(t.Rows[0][:at:at], append([]string{strconv.Itoa(u.ActiveAllocations), balance}, t.Rows[0][at:]...)...)
			return a.Show(found.Raw, t)
		},
	}
}

func newAdminUserCreate(a *output.Console) *cobra.Command {
	var name, role, tenant, tenantRole string
	cmd := &cobra.Command{
		Use: "create EMAIL", Short: "Create a user", Args: cobra.ExactArgs(1),
		Example: "  gpuaas admin user create new@acme.localhost --name New --tenant acme --tenant-role member",
	}
	flags := cmd.Flags()
	flags.StringVar(&name, "name", "", "display name (default: the part of the address before the @)")
	flags.StringVar(&role, "role", "", platformRoles+" of the platform")
	flags.StringVar(&tenant, "tenant", "", "tenant of the user, by name or id")
	flags.StringVar(&tenantRole, "tenant-role", "", tenantRoles+"; needs --tenant")
	return client.ChangeCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Sending, error) {
		body := oapi.UserRequest{Email: args[0], Name: calledBy(name, args[0]), Role: output.PointerOrNil(role), TenantRole: output.PointerOrNil(oapi.TenantRole(tenantRole))}
		if tenant != "" {
			t, err := AnyTenant(ctx, c, tenant)
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

func newAdminUserUpdate(a *output.Console) *cobra.Command {
	var name, role string
	cmd := &cobra.Command{Use: "update USER", Short: "Update a user", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&name, "name", "", "display name")
	cmd.Flags().StringVar(&role, "role", "", platformRoles+" of the platform")
	cmd.MarkFlagsOneRequired("name", "role")
	return client.ChangeCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Sending, error) {
		u, err := User(ctx, c, args[0])
		return patchUser(c, u.Value, oapi.UserPatch{Name: output.FlagOrNil(cmd, "name", name), Role: output.FlagOrNil(cmd, "role", role)}), err
	}, userTable)
}

func patchUser(c *client.Client, u oapi.UserDetail, patch oapi.UserPatch) client.Sending {
	return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
		return c.UpdateUser(ctx, u.Id, nil, patch, once, client.IfMatch(u.Version))
	}
}

func newAdminUserDisable(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "disable USER", Short: "Disable a user", Args: cobra.ExactArgs(1)}
	return client.DeleteCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Effect, error) {
		u, err := User(ctx, c, args[0])
		off := true
		return client.Effect{
			Name: u.Value.Email, What: fmt.Sprintf("%s is signed out, and signs in no more; their %d active allocations stay, without their SSH keys", u.Value.Email, u.Value.ActiveAllocations),
			Send: patchUser(c, u.Value, oapi.UserPatch{Disabled: &off}),
		}, err
	})
}

func newAdminUserEnable(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "enable USER", Short: "Enable a user", Args: cobra.ExactArgs(1)}
	return client.ChangeCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Sending, error) {
		u, err := User(ctx, c, args[0])
		off := false
		return patchUser(c, u.Value, oapi.UserPatch{Disabled: &off}), err
	}, userTable)
}

func newAdminUserRelink(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use: "relink USER", Short: "Relink a user to the identity provider", Args: cobra.ExactArgs(1),
		Long: `Removes the identity of the user at the provider, and ends all sessions, API keys and SSH keys. The
next sign-in with the verified e-mail address of the user links the new identity. It is needed when a
user was created again at the provider, or the provider has another address.`,
	}
	same := cmd.Flags().Bool("same-owner", false, "the address has the same owner: API keys and SSH keys stay")
	return client.DeleteCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Effect, error) {
		u, err := User(ctx, c, args[0])
		relink, keys := oapi.UserPatchRelink(true), "API keys and SSH keys end"
		patch := oapi.UserPatch{Relink: &relink}
		if *same {
			patch.SameOwner, keys = new(oapi.UserPatchSameOwner(true)), "API keys and SSH keys stay"
		}
		return client.Effect{
			Name: u.Value.Email, What: fmt.Sprintf("%s is signed out, %s, and the next sign-in at the provider with this verified address becomes the user", u.Value.Email, keys),
			Send: patchUser(c, u.Value, patch),
		}, err
	})
}

func userTable(a *output.Console, all ...oapi.User) output.Table {
	t := output.Table{Head: []string{"EMAIL", "STATUS", "ROLE", "TENANT", "NAME", "SIGNED IN", "AGE"}, Wide: []string{"ROLE FROM", "ISSUER", "VERSION", "ID"}}
	for _, u := range all {
		tenant := "-"
		if u.Tenant != nil {
			tenant = u.Tenant.Name + " (" + u.Tenant.Role + ")"
		}
		t.Add("user/"+u.Email, u.Email, working(u.Disabled), u.Role, tenant, output.CellText(u.Name), output.Ago(a.Clock.Now(), u.SignedInAt), output.Age(a.Clock.Now(), u.CreatedAt),
			string(u.RoleFrom), output.CellText(u.Issuer), strconv.FormatInt(u.Version, 10), u.Id.String())
	}
	return t
}

// calledBy returns a display name for a user without one.
func calledBy(name, email string) string {
	if name != "" {
		return name
	}
	before, _, _ := strings.Cut(email, "@")
	return before
}
