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
	"github.com/gpuaas/gpuaas/internal/errs"
)

func NewProject(a *output.Console) *cobra.Command {
	return output.Group("project", "Manage projects",
		newProjectList(a), newProjectGet(a), newProjectCreate(a), newProjectUpdate(a), newProjectDelete(a), newProjectMembers(a),
		output.Group("member", "Manage project members", newProjectMemberSet(a), newProjectMemberRemove(a)))
}

func newProjectList(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List projects", Args: cobra.NoArgs}
	return client.ListCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Pager, error) {
		return projectPages(c), nil
	}, projectTable)
}

func projectPages(c *client.Client) client.Pager {
	return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListProjects(ctx, &oapi.ListProjectsParams{Limit: size, Cursor: cursor})
	}
}

func newProjectGet(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "get [PROJECT]", Short: "Show a project", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			found, err := ProjectOf(cmd.Context(), c, args)
			if err != nil {
				return err
			}
			return a.Show(found.Raw, projectTable(a, found.Value))
		},
	}
}

func newProjectCreate(a *output.Console) *cobra.Command {
	var description string
	cmd := &cobra.Command{Use: "create NAME", Short: "Create a project", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&description, "description", "", "description")
	return client.ChangeCommand(a, cmd, func(_ context.Context, c *client.Client, args []string) (client.Sending, error) {
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.CreateProject(ctx, nil, oapi.ProjectRequest{Name: args[0], Description: output.PointerOrNil(description)}, once)
		}, nil
	}, projectTable)
}

func newProjectUpdate(a *output.Console) *cobra.Command {
	var name, description string
	cmd := &cobra.Command{Use: "update PROJECT", Short: "Update a project", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&name, "name", "", "its new name")
	cmd.Flags().StringVar(&description, "description", "", "description")
	return client.ChangeCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Sending, error) {
		patch := oapi.ProjectPatch{Name: output.FlagOrNil(cmd, "name", name), Description: output.FlagOrNil(cmd, "description", description)}
		if patch == (oapi.ProjectPatch{}) {
			return nil, output.UsageError("nothing to change: set --name or --description")
		}
		found, err := ProjectOf(ctx, c, args)
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.UpdateProject(ctx, found.Value.Id, nil, patch, once, client.IfMatch(found.Value.Version))
		}, err
	}, projectTable)
}

func newProjectDelete(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "delete PROJECT", Short: "Delete a project", Args: cobra.ExactArgs(1)}
	return client.DeleteCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Effect, error) {
		found, err := ProjectOf(ctx, c, args)
		p := found.Value
		return client.Effect{
			Name: p.Name, What: fmt.Sprintf("the project %s is closed, and its service accounts stop working", p.Name),
			Send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.DeleteProject(ctx, p.Id, nil, once, client.IfMatch(p.Version))
			},
		}, err
	})
}

// ProjectOf finds the project that is named, else that of --project, else the
// caller's own.
func ProjectOf(ctx context.Context, c *client.Client, named []string) (client.Response[oapi.Project], error) {
	ref := c.Settings.Project
	if len(named) > 0 {
		ref = named[0]
	}
	if ref == "" {
		me, err := client.Send[oapi.Me](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetMe(ctx, nil) })
		if err != nil {
			return client.Response[oapi.Project]{}, err
		}
		if me.Value.Project == nil {
			return client.Response[oapi.Project]{}, errs.New(errs.ProjectRequired, "you are in several projects, or in none").Try("--project NAME, or GPUAAS_PROJECT")
		}
		ref = me.Value.Project.Id.String()
	}
	id, ref, ok := output.IdOf(ref)
	if !ok {
		all, err := client.ReadAll[oapi.Project](ctx, c, 0, projectPages(c))
		if err != nil {
			return client.Response[oapi.Project]{}, err
		}
		found, err := client.Pick(c, all.Items, "project", ref, "gpuaas project list", func(p oapi.Project) []string { return []string{p.Name} })
		if err != nil {
			return client.Response[oapi.Project]{}, err
		}
		id = found.Id
	}
	return client.Send[oapi.Project](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetProject(ctx, id, nil) })
}

func projectTable(a *output.Console, all ...oapi.Project) output.Table {
	t := output.Table{Head: []string{"NAME", "ROLE", "AGE", "DESCRIPTION"}, Wide: []string{"VERSION", "ID"}}
	for _, p := range all {
		t.Add("project/"+p.Name, p.Name, output.OrDash(p.Role), output.Age(a.Clock.Now(), p.CreatedAt), output.CellText(p.Description), strconv.FormatInt(p.Version, 10), p.Id.String())
	}
	return t
}
