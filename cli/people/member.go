package people

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

const (
	tenantRoles  = "owner, billing, member or viewer"
	projectRoles = "admin, member or viewer"
)

func newProjectMembers(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "members [PROJECT]", Short: "List project members", Args: cobra.MaximumNArgs(1)}
	return client.ListCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Pager, error) {
		found, err := ProjectOf(ctx, c, args)
		return projectMembers(c, found.Value.Id), err
	}, memberTable)
}

func projectMembers(c *client.Client, project uuid.UUID) client.Pager {
	return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListProjectMembers(ctx, project, &oapi.ListProjectMembersParams{Limit: size, Cursor: cursor})
	}
}

func newProjectMemberSet(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use: "set USER ROLE", Short: "Set a member's project role", Args: cobra.ExactArgs(2),
		Example: "  gpuaas project member set builder@dev.localhost admin --project vision",
	}
	return client.ChangeCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Sending, error) {
		in, err := ProjectOf(ctx, c, nil)
		if err != nil {
			return nil, err
		}
		user, err := colleague(ctx, c, args[0], in.Value.Id)
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.PutProjectMember(ctx, in.Value.Id, user, nil, oapi.ProjectRoleRequest{Role: oapi.ProjectRole(args[1])}, once)
		}, err
	}, memberTable)
}

// colleague finds a user of the tenant. Only tenant owners may list all users. A project admin can
// name the members of the project, and other users by id.
func colleague(ctx context.Context, c *client.Client, ref string, project uuid.UUID) (uuid.UUID, error) {
	if id, _, ok := output.IdOf(ref); ok {
		return id, nil
	}
	try := "gpuaas tenant members, or gpuaas tenant invite"
	all, err := client.ReadAll[oapi.Member](ctx, c, 0, tenantMemberPages(c))
	if client.IsForbidden(err) {
		try = "use the id of the user: only owners of the tenant can search by address"
		all, err = client.ReadAll[oapi.Member](ctx, c, 0, projectMembers(c, project))
	}
	if err != nil {
		return uuid.Nil, err
	}
	found, err := client.Pick(c, all.Items, "member", ref, try, memberNames)
	return found.UserId, err
}

func newProjectMemberRemove(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "remove USER", Short: "Remove a project member", Args: cobra.ExactArgs(1)}
	return client.DeleteCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Effect, error) {
		in, err := ProjectOf(ctx, c, nil)
		if err != nil {
			return client.Effect{}, err
		}
		m, err := memberOf(ctx, c, projectMembers(c, in.Value.Id), args[0], "gpuaas project members")
		return client.Effect{
			Name: m.Email, What: fmt.Sprintf("%s has no role in the project %s any more", m.Email, in.Value.Name),
			Send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.DeleteProjectMember(ctx, in.Value.Id, m.UserId, nil, once)
			},
		}, err
	})
}

func memberOf(ctx context.Context, c *client.Client, of client.Pager, ref, try string) (oapi.Member, error) {
	_, ref, _ = output.IdOf(ref)
	all, err := client.ReadAll[oapi.Member](ctx, c, 0, of)
	if err != nil {
		return oapi.Member{}, err
	}
	return client.Pick(c, all.Items, "member", ref, try, memberNames)
}

func memberNames(m oapi.Member) []string { return []string{m.Email, m.UserId.String()} }

func memberTable(_ *output.Console, all ...oapi.Member) output.Table {
	t := output.Table{Head: []string{"EMAIL", "ROLE", "NAME"}, Wide: []string{"ID"}}
	for _, m := range all {
		t.Add("user/"+m.Email, m.Email, m.Role, output.CellText(m.Name), m.UserId.String())
	}
	return t
}
