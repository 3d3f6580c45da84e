package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
)

const (
	tenantRoles  = "owner, billing, member or viewer"
	projectRoles = "admin, member or viewer"
)

func newProjectMembers(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "members [PROJECT]", Short: "Who works in a project; without a name in that of --project", Args: cobra.MaximumNArgs(1)}
	return lists(a, cmd, func(ctx context.Context, c *client, args []string) (pager, error) {
		found, err := c.projectOf(ctx, args)
		return c.projectMembers(found.Value.Id), err
	}, memberTable)
}

func (c *client) projectMembers(project uuid.UUID) pager {
	return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListProjectMembers(ctx, project, &oapi.ListProjectMembersParams{Limit: size, Cursor: cursor})
	}
}

func newProjectMemberSet(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "set USER ROLE", Short: "Make somebody of the tenant " + projectRoles, Args: cobra.ExactArgs(2),
		Example: "  gpuaas project member set builder@dev.localhost admin --project vision",
	}
	return makes(a, cmd, func(ctx context.Context, c *client, args []string) (sending, error) {
		in, err := c.projectOf(ctx, nil)
		if err != nil {
			return nil, err
		}
		user, err := c.colleague(ctx, args[0], in.Value.Id)
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.PutProjectMember(ctx, in.Value.Id, user, nil, oapi.ProjectRoleRequest{Role: oapi.ProjectRole(args[1])}, once)
		}, err
	}, memberTable)
}

// colleague finds somebody of the tenant. Only its owners may look everyone up;
// the admin of a project knows those who are in it by name, and others by id.
func (c *client) colleague(ctx context.Context, ref string, project uuid.UUID) (uuid.UUID, error) {
	if id, _, ok := idOf(ref); ok {
		return id, nil
	}
	try := "gpuaas tenant members, or gpuaas tenant invite"
	all, err := readAll[oapi.Member](ctx, c, 0, c.tenantMembers)
	if forbidden(err) {
		try = "give the person's id: only owners of the tenant may look everyone up"
		all, err = readAll[oapi.Member](ctx, c, 0, c.projectMembers(project))
	}
	if err != nil {
		return uuid.Nil, err
	}
	found, err := pick(c, all.Items, "member", ref, try, memberNames)
	return found.UserId, err
}

func newProjectMemberRemove(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "remove USER", Short: "Take somebody out of the project", Args: cobra.ExactArgs(1)}
	return ends(a, cmd, func(ctx context.Context, c *client, args []string) (end, error) {
		in, err := c.projectOf(ctx, nil)
		if err != nil {
			return end{}, err
		}
		m, err := c.memberOf(ctx, c.projectMembers(in.Value.Id), args[0], "gpuaas project members")
		return end{
			name: m.Email, what: fmt.Sprintf("%s has no role in the project %s any more", m.Email, in.Value.Name),
			send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.DeleteProjectMember(ctx, in.Value.Id, m.UserId, nil, once)
			},
		}, err
	})
}

func (c *client) memberOf(ctx context.Context, of pager, ref, try string) (oapi.Member, error) {
	_, ref, _ = idOf(ref)
	all, err := readAll[oapi.Member](ctx, c, 0, of)
	if err != nil {
		return oapi.Member{}, err
	}
	return pick(c, all.Items, "member", ref, try, memberNames)
}

func memberNames(m oapi.Member) []string { return []string{m.Email, m.UserId.String()} }

func memberTable(_ *app, all ...oapi.Member) table {
	t := table{head: []string{"EMAIL", "ROLE", "NAME"}, wide: []string{"ID"}}
	for _, m := range all {
		t.add("user/"+m.Email, m.Email, m.Role, cell(m.Name), m.UserId.String())
	}
	return t
}
