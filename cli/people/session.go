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

func NewSession(a *output.Console) *cobra.Command {
	return output.Group("session", "Manage sessions", newSessionList(a), newSessionEnd(a))
}

func newSessionList(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List sessions", Args: cobra.NoArgs}
	return client.ListCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Pager, error) {
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListSessions(ctx, &oapi.ListSessionsParams{Limit: size, Cursor: cursor})
		}, nil
	}, sessionTable)
}

func newSessionEnd(a *output.Console) *cobra.Command {
	return endSession(a, "Revoke a session", func(ctx context.Context, c *client.Client, id uuid.UUID, once oapi.RequestEditorFn) (*http.Response, error) {
		return c.EndSession(ctx, id, nil, once)
	})
}

// endSession needs no confirmation: a session id is not typed by mistake, and the user can sign in
// again.
func endSession(a *output.Console, short string, send func(ctx context.Context, c *client.Client, id uuid.UUID, once oapi.RequestEditorFn) (*http.Response, error)) *cobra.Command {
	return &cobra.Command{
		Use: "end ID", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, ref, ok := output.IdOf(args[0])
			if !ok {
				return output.UsageError("%q is no id of a session", ref)
			}
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			_, err = client.Change[struct{}](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return send(ctx, c, id, once)
			})
			if err == nil {
				a.Notify("%s the session has ended", output.SymbolGood)
			}
			return err
		},
	}
}

func sessionTable(a *output.Console, all ...oapi.Session) output.Table {
	t := output.Table{Head: []string{"ID", "KIND", "ADDRESS", "LAST USED", "EXPIRES", "AGE", "THIS ONE"}, Wide: []string{"USER", "ISSUER", "USER AGENT"}}
	for _, s := range all {
		this := "-"
		if s.Current {
			this = output.SymbolGood + " yes"
		}
		t.Add("session/"+s.Id.String(), s.Id.String(), string(s.Kind), output.OrDash(s.Address), output.Ago(a.Clock.Now(), s.LastUsedAt), output.ExpiryText(&s.ExpiresAt),
			output.Age(a.Clock.Now(), s.CreatedAt), this, s.UserId.String(), output.CellText(s.Issuer), output.CellText(s.UserAgent))
	}
	return t
}
