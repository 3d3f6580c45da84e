package main

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
)

func newSession(a *app) *cobra.Command {
	return group("session", "Where you are signed in", newSessionList(a), newSessionEnd(a))
}

func newSessionList(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "Your sessions", Args: cobra.NoArgs}
	return lists(a, cmd, func(_ context.Context, c *client, _ []string) (pager, error) {
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListSessions(ctx, &oapi.ListSessionsParams{Limit: size, Cursor: cursor})
		}, nil
	}, sessionTable)
}

func newSessionEnd(a *app) *cobra.Command {
	return endSession(a, "Sign out somewhere else", func(ctx context.Context, c *client, id uuid.UUID, once oapi.RequestEditorFn) (*http.Response, error) {
		return c.EndSession(ctx, id, nil, once)
	})
}

// endSession asks nothing: an id is not typed by mistake, and whoever was wrong
// signs in again.
func endSession(a *app, short string, send func(ctx context.Context, c *client, id uuid.UUID, once oapi.RequestEditorFn) (*http.Response, error)) *cobra.Command {
	return &cobra.Command{
		Use: "end ID", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, ref, ok := idOf(args[0])
			if !ok {
				return usage("%q is no id of a session", ref)
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			_, err = change[struct{}](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return send(ctx, c, id, once)
			})
			if err == nil {
				a.say("%s the session has ended", symbolGood)
			}
			return err
		},
	}
}

func sessionTable(a *app, all ...oapi.Session) table {
	t := table{head: []string{"ID", "KIND", "ADDRESS", "LAST USED", "EXPIRES", "AGE", "THIS ONE"}, wide: []string{"USER", "ISSUER", "USER AGENT"}}
	for _, s := range all {
		this := "-"
		if s.Current {
			this = symbolGood + " yes"
		}
		t.add("session/"+s.Id.String(), s.Id.String(), string(s.Kind), orDash(s.Address), ago(a.Clock.Now(), s.LastUsedAt), until(&s.ExpiresAt),
			age(a.Clock.Now(), s.CreatedAt), this, s.UserId.String(), cell(s.Issuer), cell(s.UserAgent))
	}
	return t
}
