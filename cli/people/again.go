package people

import (
	"context"
	"net/http"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

// SignInAgain replaces the sign-in of the profile, in the way of the present one: with the password for a
// session of a password, and at the provider otherwise.
func SignInAgain(ctx context.Context, a *output.Console) error {
	l := &loginFlow{app: a, timeout: 5 * time.Minute, again: true}
	c, err := client.Connect(a)
	if err != nil {
		return err
	}
	if strings.HasPrefix(c.Settings.Token, "gpb_") {
		me, err := client.Send[oapi.Me](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetMe(ctx, nil) })
		if err != nil {
			return err
		}
		if me.Value.User != nil {
			l.email = me.Value.User.Email
		}
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return l.run(ctx)
}

// options are the parameters of a request that requires a new sign-in at the provider.
func (l *loginFlow) options(s *signing) []oauth2.AuthCodeOption {
	if !l.again {
		return nil
	}
	all := []oauth2.AuthCodeOption{oauth2.SetAuthURLParam("prompt", "login"), oauth2.SetAuthURLParam("max_age", "0")}
	if s.acr != "" {
		all = append(all, oauth2.SetAuthURLParam("acr_values", s.acr))
	}
	return all
}
