package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/errs"
)

func newProject(a *app) *cobra.Command {
	return group("project", "Projects, and who works in them",
		newProjectList(a), newProjectGet(a), newProjectCreate(a), newProjectUpdate(a), newProjectDelete(a), newProjectMembers(a),
		group("member", "Give and take roles in the project of --project", newProjectMemberSet(a), newProjectMemberRemove(a)))
}

func newProjectList(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "Your projects; owners see all of the tenant", Args: cobra.NoArgs}
	return lists(a, cmd, func(_ context.Context, c *client, _ []string) (pager, error) { return c.projectPage, nil }, projectTable)
}

func (c *client) projectPage(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
	return c.ListProjects(ctx, &oapi.ListProjectsParams{Limit: size, Cursor: cursor})
}

func newProjectGet(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "get [PROJECT]", Short: "One project; without a name that of --project", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			found, err := c.projectOf(cmd.Context(), args)
			if err != nil {
				return err
			}
			return a.show(found.Raw, projectTable(a, found.Value))
		},
	}
}

func newProjectCreate(a *app) *cobra.Command {
	var description string
	cmd := &cobra.Command{Use: "create NAME", Short: "A project, of which you are the admin", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&description, "description", "", "what it is for")
	return makes(a, cmd, func(_ context.Context, c *client, args []string) (sending, error) {
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.CreateProject(ctx, nil, oapi.ProjectRequest{Name: args[0], Description: set(description)}, once)
		}, nil
	}, projectTable)
}

func newProjectUpdate(a *app) *cobra.Command {
	var name, description string
	cmd := &cobra.Command{Use: "update PROJECT", Short: "Rename or describe a project", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&name, "name", "", "its new name")
	cmd.Flags().StringVar(&description, "description", "", "what it is for")
	return makes(a, cmd, func(ctx context.Context, c *client, args []string) (sending, error) {
		patch := oapi.ProjectPatch{Name: given(cmd, "name", name), Description: given(cmd, "description", description)}
		if patch == (oapi.ProjectPatch{}) {
			return nil, usage("nothing to change: give --name or --description")
		}
		found, err := c.projectOf(ctx, args)
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.UpdateProject(ctx, found.Value.Id, nil, patch, once, seen(found.Value.Version))
		}, err
	}, projectTable)
}

func newProjectDelete(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "delete PROJECT", Short: "Close a project in which nothing lives any more", Args: cobra.ExactArgs(1)}
	return ends(a, cmd, func(ctx context.Context, c *client, args []string) (end, error) {
		found, err := c.projectOf(ctx, args)
		p := found.Value
		return end{
			name: p.Name, what: fmt.Sprintf("the project %s is closed, and its service accounts stop working", p.Name),
			send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.DeleteProject(ctx, p.Id, nil, once, seen(p.Version))
			},
		}, err
	})
}

// projectOf finds the project that is named, else that of --project, else the
// caller's own.
func (c *client) projectOf(ctx context.Context, named []string) (answer[oapi.Project], error) {
	ref := c.settings.Project
	if len(named) > 0 {
		ref = named[0]
	}
	if ref == "" {
		me, err := ask[oapi.Me](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetMe(ctx, nil) })
		if err != nil {
			return answer[oapi.Project]{}, err
		}
		if me.Value.Project == nil {
			return answer[oapi.Project]{}, errs.New(errs.ProjectRequired, "you are in several projects, or in none").Try("--project NAME, or GPUAAS_PROJECT")
		}
		ref = me.Value.Project.Id.String()
	}
	id, ref, ok := idOf(ref)
	if !ok {
		all, err := readAll[oapi.Project](ctx, c, 0, c.projectPage)
		if err != nil {
			return answer[oapi.Project]{}, err
		}
		found, err := pick(c, all.Items, "project", ref, "gpuaas project list", func(p oapi.Project) []string { return []string{p.Name} })
		if err != nil {
			return answer[oapi.Project]{}, err
		}
		id = found.Id
	}
	return ask[oapi.Project](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetProject(ctx, id, nil) })
}

func projectTable(a *app, all ...oapi.Project) table {
	t := table{head: []string{"NAME", "ROLE", "AGE", "DESCRIPTION"}, wide: []string{"VERSION", "ID"}}
	for _, p := range all {
		t.add("project/"+p.Name, p.Name, orDash(p.Role), age(a.Clock.Now(), p.CreatedAt), cell(p.Description), strconv.FormatInt(p.Version, 10), p.Id.String())
	}
	return t
}
