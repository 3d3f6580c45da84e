package people

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/profile"
)

func NewLogout(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "Sign out", Args: cobra.NoArgs,
		Long: `Ends the session of the profile: the server revokes the tokens, and the profile deletes
them. An API key is only deleted from the profile. It stays valid until it is revoked or
expires.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return logout(cmd.Context(), a) },
	}
}

// logout deletes the local tokens even if the server is unavailable: the user's first intent is
// that no token stays on the local machine.
func logout(ctx context.Context, a *output.Console) error {
	if tokenInEnv(a) {
		f := output.UsageError("GPUAAS_TOKEN is set, and is not the profile's to sign out of")
		f.Try = "unset GPUAAS_TOKEN"
		return f
	}
	c, err := client.Connect(a)
	if err != nil {
		return err
	}
	s := c.Settings
	var failed error
	later := false
	if !strings.HasPrefix(s.Token, "gpk_") {
		later, failed = leave(ctx, c)
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
	case failed != nil:
		f := a.Explain(ctx, failed)
		f.Message = "the tokens are deleted from the local machine, but not revoked: " + f.Message
		return f
	case strings.HasPrefix(s.Token, "gpk_"):
		_, _ = fmt.Fprintln(a.Err, "The API key is deleted from the profile. It stays valid until it is revoked.")
	case later:
		_, _ = fmt.Fprintf(a.Err, "%s Signed out of %s. The identity provider is notified later.\n", output.SymbolGood, s.URL)
	default:
		_, _ = fmt.Fprintf(a.Err, "%s Signed out of %s.\n", output.SymbolGood, s.URL)
	}
	return nil
}

// leave revokes the session on the server. A session that has ended is no error. later reports that the identity
// provider could not be notified yet.
func leave(ctx context.Context, c *client.Client) (later bool, err error) {
	got, err := client.Send[struct{}](ctx, c, func(ctx context.Context) (*http.Response, error) {
		if _, err := c.Bearer(ctx); err != nil { // which may change the refresh token
			return nil, err
		}
		var body oapi.RefreshRequest
		if c.Settings.RefreshToken != "" {
			body.RefreshToken = &c.Settings.RefreshToken
		}
		return c.Logout(ctx, nil, body)
	})
	if output.ExitOf(client.CodeOf(err)) == output.ExitSignIn {
		return false, nil
	}
	return got.Status == http.StatusAccepted, err
}

func NewWhoami(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Short: "Show the current user and roles", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			got, err := client.Send[oapi.Me](cmd.Context(), c, func(ctx context.Context) (*http.Response, error) { return c.GetMe(ctx, nil, c.InProject) })
			if err != nil {
				return err
			}
			me := got.Value
			t := output.Table{Head: []string{"NAME", "ROLE", "TENANT", "PROJECT"}}
			name, role := "", ""
			switch {
			case me.User != nil:
				name, role = me.User.Email, me.User.Role
			case me.ServiceAccount != nil:
				name, role = me.ServiceAccount.Name, string(me.ActorType)
			}
			t.Add("user/"+name, name, role, in(me.Tenant), in(me.Project))
			return a.Show(got.Raw, t)
		},
	}
}

func in(m *oapi.Membership) string {
	if m == nil {
		return "-"
	}
	return fmt.Sprintf("%s (%s)", m.Name, cmp.Or(m.Role, "no role"))
}
