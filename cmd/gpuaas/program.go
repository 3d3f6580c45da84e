package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// secretPrefix begins the credentials of service accounts.
const secretPrefix = "gps_"

// tradeBefore the end: longer than a request may take to be looked at.
const tradeBefore = 30 * time.Second

// traded is the token that was last got for a credential.
type traded struct {
	mu    sync.Mutex
	token string
	until time.Time
}

// trade turns a service account's credential into a token of at most an hour: the
// credential itself opens nothing, and travels once for each. Other tokens stay
// what they are.
func (c *client) trade(ctx context.Context, token string) (string, error) {
	if !strings.HasPrefix(token, secretPrefix) {
		return token, nil
	}
	c.traded.mu.Lock()
	defer c.traded.mu.Unlock()
	if c.traded.token != "" && c.clock.Now().Add(tradeBefore).Before(c.traded.until) {
		return c.traded.token, nil
	}
	asked := c.clock.Now()
	got, err := c.mint(ctx, oapi.TokenRequest{Secret: token})
	if err != nil {
		return "", err
	}
	c.traded.token, c.traded.until = got.Value.AccessToken, asked.Add(time.Duration(got.Value.ExpiresIn)*time.Second)
	return c.traded.token, nil
}

func (c *client) mint(ctx context.Context, r oapi.TokenRequest) (answer[oapi.MintedToken], error) {
	return change[oapi.MintedToken](ctx, c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
		return c.plain.MintServiceAccountToken(ctx, nil, r, once)
	})
}

const tokenText = `Prints a token of at most an hour, for a program that speaks to the API itself.
The credential is read from FILE, from stdin with -, or from GPUAAS_TOKEN or the
file of GPUAAS_TOKEN_FILE. Commands need none of this: they take the credential
as GPUAAS_TOKEN and get tokens as they need them.`

func newServiceAccountToken(a *app) *cobra.Command {
	var may []string
	var audience string
	cmd := &cobra.Command{
		Use: "token [FILE]", Short: "Trade a credential for a token of at most an hour", Long: tokenText, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			secret, err := a.credential(args)
			if err != nil {
				return err
			}
			c, err := a.anonymous()
			if err != nil {
				return err
			}
			r := oapi.TokenRequest{Secret: secret, Audience: set(audience), Scopes: given(cmd, "scope", scopes(may))}
			got, err := c.mint(cmd.Context(), r)
			if err != nil {
				return err
			}
			a.say("Good for %s: %s", lasting(int64(got.Value.ExpiresIn)), scopeList(got.Value.Scopes, "nothing"))
			if a.data() {
				return a.show(got.Raw, table{})
			}
			_, err = io.WriteString(a.Out, got.Value.AccessToken+"\n")
			return err
		},
	}
	cmd.Flags().StringSliceVar(&may, "scope", nil, "only these of the account's; may be repeated")
	cmd.Flags().StringVar(&audience, "audience", "", "for whom it is; this installation when left out")
	return cmd
}

// credential reads a service account's credential; never from the command line,
// where every process of the machine sees it.
func (a *app) credential(from []string) (string, error) {
	var text []byte
	var err error
	switch {
	case len(from) == 0:
		var token string
		token, err = a.secret("GPUAAS_TOKEN")
		text = []byte(token)
	case from[0] == "-":
		text, err = io.ReadAll(io.LimitReader(a.In, 1<<10))
	default:
		text, err = os.ReadFile(from[0])
	}
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(text))
	if !strings.HasPrefix(secret, secretPrefix) {
		return "", errs.New(errs.TokenInvalid, "this is no credential of a service account: those begin with %s", secretPrefix).
			Try("gpuaas service-account credential create ACCOUNT")
	}
	return secret, nil
}
