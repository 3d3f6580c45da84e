package people

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/profile"
)

const loginText = `Signs you in at the identity provider of the installation, in a browser on the local
machine, and stores the tokens in the profile. If no browser can be opened, the command
prints a code to type on another device. With --email it reads a password, if the
installation allows passwords.

Other commands refresh the tokens until you log out or the provider ends the session. A command
that creates a credential needs a sign-in of the last minutes (policy auth.step_up_minutes):
--again requires a new sign-in at the provider even if its own session continues.`

type loginFlow struct {
	app *output.Console

	device, noBrowser, passwordStdin, again bool
	email                                   string
	timeout                                 time.Duration
}

func NewLogin(a *output.Console) *cobra.Command {
	l := &loginFlow{app: a, timeout: 5 * time.Minute}
	cmd := &cobra.Command{
		Use: "login", Short: "Sign in", Long: loginText, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if l.device && l.noBrowser || (l.device || l.noBrowser) && l.email != "" {
				return output.UsageError("--device, --no-browser and --email exclude each other")
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), l.timeout)
			defer cancel()
			return l.run(ctx)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&l.device, "device", false, "print a code to type on another device")
	f.BoolVar(&l.noBrowser, "no-browser", false, "print the address instead of opening a browser")
	f.BoolVar(&l.again, "again", false, "require a new sign-in at the provider, for requests that need a recent one")
	f.StringVar(&l.email, "email", "", "sign in with a password, as the user with this address")
	f.BoolVar(&l.passwordStdin, "password-stdin", false, "read the password from standard input")
	f.DurationVar(&l.timeout, "timeout", l.timeout, "how long to wait for you")
	return cmd
}

func (l *loginFlow) run(ctx context.Context) error {
	s, err := loginSettings(l.app)
	if err != nil {
		return err
	}
	c, err := client.ConnectTo(l.app, s)
	if err != nil {
		return err
	}
	how := l.atProvider
	if l.email != "" || l.passwordStdin {
		how = l.personal
	}
	fresh, who, err := how(ctx, c)
	if err != nil {
		return err
	}
	if err := keep(s, fresh); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(l.app.Err, "%s Signed in to %s as %s; profile %s.\n", output.SymbolGood, s.URL, who.Email, s.Name)
	if tokenInEnv(l.app) {
		_, _ = fmt.Fprintln(l.app.Err, "GPUAAS_TOKEN is set and overrides the profile: unset it to use this sign-in.")
	}
	return nil
}

func tokenInEnv(a *output.Console) bool {
	return a.Env("GPUAAS_TOKEN") != "" || a.Env("GPUAAS_TOKEN_FILE") != ""
}

// loginSettings differ from others': the profile need not be there yet. One that
// is about another installation is not overwritten.
func loginSettings(a *output.Console) (client.Settings, error) {
	store, err := profile.Find(a.Env)
	if err != nil {
		return client.Settings{}, err
	}
	file, err := store.Read()
	if err != nil {
		return client.Settings{}, err
	}
	name := cmp.Or(a.Profile, a.Env("GPUAAS_PROFILE"), file.Current, "default")
	s := client.Settings{Profile: file.Profiles[name], Name: name, Store: store}
	known := s.URL
	s.URL = strings.TrimRight(cmp.Or(a.Url, a.Env("GPUAAS_URL"), known), "/")
	if known != "" && !client.SameOrigin(s.URL, known) {
		return client.Settings{}, errs.New(errs.Conflict, "profile %s is about %s", name, known).Try("name another one: gpuaas --profile NAME login")
	}
	s.Project = cmp.Or(a.Project, a.Env("GPUAAS_PROJECT"), s.Project)
	s.Token, s.RefreshToken = "", ""
	return s, s.Address()
}

// tokens is the result of a sign-in.
type tokens struct {
	access, refresh string
	expires         time.Time
}

func keep(s client.Settings, fresh tokens) error {
	return s.Store.Edit(func(f *profile.File) error {
		p := f.Profiles[s.Name]
		p.URL, p.Project = s.URL, s.Project
		p.Token, p.RefreshToken, p.ExpiresAt = fresh.access, fresh.refresh, fresh.expires
		f.Profiles[s.Name] = p
		f.Current = s.Name
		return nil
	})
}

// personal signs in with a password. It is never on the command line, where
// other local users could read it.
func (l *loginFlow) personal(ctx context.Context, c *client.Client) (tokens, oapi.UserSummary, error) {
	if l.email == "" {
		return tokens{}, oapi.UserSummary{}, errs.Invalid("--email", "is required for a sign-in with a password")
	}
	password, err := l.password()
	if err != nil {
		return tokens{}, oapi.UserSummary{}, err
	}
	got, err := client.Send[oapi.SignedIn](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.LoginPersonal(ctx, nil, oapi.PersonalLogin{Email: l.email, Password: password})
	})
	if client.CodeOf(err) == errs.NotFound {
		return tokens{}, oapi.UserSummary{}, errs.New(errs.LoginFailed, "%s has no passwords", c.Settings.URL).Try("gpuaas login")
	}
	if err != nil {
		return tokens{}, oapi.UserSummary{}, err
	}
	fresh := tokens{}
	if got.Value.Token != nil {
		fresh.access = *got.Value.Token
	}
	if got.Value.ExpiresAt != nil {
		fresh.expires = *got.Value.ExpiresAt
	}
	return fresh, got.Value.User, nil
}

func (l *loginFlow) password() (string, error) {
	if l.passwordStdin {
		text, err := io.ReadAll(io.LimitReader(l.app.In, 4096))
		if err != nil {
			return "", fmt.Errorf("reading the password: %w", err)
		}
		return strings.TrimRight(string(text), "\r\n"), nil
	}
	file, ok := l.app.In.(*os.File)
	if !ok || !l.app.CanPrompt() {
		f := output.UsageError("a password is needed, but a prompt is not possible: no terminal, CI, or GPUAAS_NO_INPUT")
		f.Try = "--password-stdin"
		return "", f
	}
	_, _ = fmt.Fprintf(l.app.Err, "Password of %s: ", l.email)
	text, err := term.ReadPassword(int(file.Fd()))
	_, _ = fmt.Fprintln(l.app.Err)
	if err != nil {
		return "", fmt.Errorf("reading the password: %w", err)
	}
	return string(bytes.TrimSpace(text)), nil
}
