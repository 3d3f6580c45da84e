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

// NewInvitation returns the commands for invitations of the caller.
func NewInvitation(a *output.Console) *cobra.Command {
	return output.Group("invitation", "Accept or reject invitations", newInvitationList(a), newInvitationAccept(a), newInvitationDecline(a))
}

func newInvitationList(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List own invitations", Args: cobra.NoArgs}
	return client.ListCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Pager, error) {
		return ownInvitationPages(c), nil
	}, ownInvitationTable)
}

func ownInvitationPages(c *client.Client) client.Pager {
	return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListOwnInvitations(ctx, &oapi.ListOwnInvitationsParams{Limit: size, Cursor: cursor})
	}
}

func newInvitationAccept(a *output.Console) *cobra.Command {
	return answerInvitation(a, "accept TENANT", "Accept an invitation", "you are a member of %s", func(c *client.Client, id uuid.UUID) sendOnce {
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.AcceptInvitation(ctx, id, nil, once)
		}
	})
}

func newInvitationDecline(a *output.Console) *cobra.Command {
	return answerInvitation(a, "decline TENANT", "Reject an invitation", "the invitation of %s is declined", func(c *client.Client, id uuid.UUID) sendOnce {
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.DeclineInvitation(ctx, id, nil, once)
		}
	})
}

type sendOnce = func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error)

// answerInvitation finds the invitation by the name of its tenant or by its id.
func answerInvitation(a *output.Console, use, short, done string, send func(*client.Client, uuid.UUID) sendOnce) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			all, err := client.ReadAll[oapi.OwnInvitation](cmd.Context(), c, 0, ownInvitationPages(c))
			if err != nil {
				return err
			}
			_, ref, _ := output.IdOf(args[0])
			one, err := client.Pick(c, all.Items, "invitation", ref, "gpuaas invitation list", func(i oapi.OwnInvitation) []string { return []string{i.Tenant.Name, i.Id.String()} })
			if err != nil {
				return err
			}
			if _, err = client.Change[struct{}](cmd.Context(), c, send(c, one.Id)); err == nil {
				a.Notify("%s "+done, output.SymbolGood, one.Tenant.Name)
			}
			return err
		},
	}
}

func ownInvitationTable(a *output.Console, all ...oapi.OwnInvitation) output.Table {
	t := output.Table{Head: []string{"TENANT", "ROLE", "EXPIRES IN", "AGE"}, Wide: []string{"ID"}}
	for _, i := range all {
		t.Add("invitation/"+i.Tenant.Name, i.Tenant.Name, i.Tenant.Role, output.Age(i.ExpiresAt, a.Clock.Now()), output.Age(a.Clock.Now(), i.CreatedAt), i.Id.String())
	}
	return t
}
