package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/profile"
)

func newLogout(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "Sign out, here and at the provider", Args: cobra.NoArgs,
		Long: `Ends the sign-in of the profile: the tokens are revoked and forgotten. An API key is
forgotten only: it holds until it is revoked or ends.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.logout(cmd.Context()) },
	}
}

// logout forgets the tokens also when the server cannot be told: who signs out
// wants them gone from this machine first of all.
func (a *app) logout(ctx context.Context) error {
	if a.tokenInEnv() {
		f := usage("GPUAAS_TOKEN is set, and is not the profile's to sign out of")
		f.Try = "unset GPUAAS_TOKEN"
		return f
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	s := c.settings
	var told error
	if !strings.HasPrefix(s.Token, "gpk_") {
		told = c.leave(ctx)
	}
	err = s.Store.Edit(func(f *profile.File) error {
		p := f.Profiles[s.Name]
		p.Token, p.RefreshToken, p.ExpiresAt = "", "", time.Time{}
		f.Profiles[s.Name] = p
		return nil
	})
	if err != nil {
		return err
	}
	switch {
	case told != nil:
		f := a.explain(ctx, told)
		f.Message = "the tokens are gone from this machine, but not revoked: " + f.Message
		return f
	case strings.HasPrefix(s.Token, "gpk_"):
		_, _ = fmt.Fprintln(a.Err, "The API key is gone from the profile. It holds until it is revoked.")
	default:
		_, _ = fmt.Fprintf(a.Err, "%s Signed out of %s.\n", symbolGood, s.URL)
	}
	return nil
}

// leave tells the server. A sign-in that has ended needs no end.
func (c *client) leave(ctx context.Context) error {
	_, err := ask[struct{}](ctx, c, func(ctx context.Context) (*http.Response, error) {
		if _, err := c.bearer(ctx); err != nil { // which may change the refresh token
			return nil, err
		}
		var body oapi.RefreshRequest
		if c.settings.RefreshToken != "" {
			body.RefreshToken = &c.settings.RefreshToken
		}
		return c.Logout(ctx, nil, body)
	})
	if exitOf(codeOf(err)) == exitSignIn {
		return nil
	}
	return err
}

func newWhoami(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Short: "Who you are, and what you may be here", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := ask[oapi.Me](cmd.Context(), c, func(ctx context.Context) (*http.Response, error) { return c.GetMe(ctx, nil, c.inProject) })
			if err != nil {
				return err
			}
			me := got.Value
			t := table{head: []string{"NAME", "ROLE", "TENANT", "PROJECT"}}
			name, role := "", ""
			switch {
			case me.User != nil:
				name, role = me.User.Email, string(me.User.Role)
			case me.ServiceAccount != nil:
				name, role = me.ServiceAccount.Name, string(me.ActorType)
			}
			t.add("user/"+name, name, role, in(me.Tenant), in(me.Project))
			return a.show(got.Raw, t)
		},
	}
}

func in(m *oapi.Membership) string {
	if m == nil {
		return "-"
	}
	return fmt.Sprintf("%s (%s)", m.Name, cmp.Or(m.Role, "no role"))
}
