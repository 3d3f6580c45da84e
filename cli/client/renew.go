package client

import (
	"context"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/profile"
)

// renewBefore is the time before the expiry at which a token is renewed. It exceeds the duration of
// a request.
const renewBefore = 30 * time.Second

// renewWithin bounds how long other commands wait for the file.
const renewWithin = 15 * time.Second

// Bearer is the token for the next request, renewed when it is about to end: a
// command may run for longer than a token lives.
func (c *Client) Bearer(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.renewable() || c.fresh(c.Settings.Profile) {
		return c.Settings.Token, nil
	}
	if err := c.renew(ctx); err != nil {
		return "", err
	}
	return c.Settings.Token, nil
}

// renewable reports whether the CLI may renew the token. A token from the environment belongs to
// another program.
func (c *Client) renewable() bool { return c.Settings.RefreshToken != "" && c.Settings.Name != "" }

func (c *Client) fresh(p profile.Profile) bool {
	return p.ExpiresAt.IsZero() || c.clock.Now().Add(renewBefore).Before(p.ExpiresAt)
}

// renew changes the refresh token for the next one, under the lock of the file.
// It works once only: of two commands at the same time the second finds the
// tokens of the first, and does not use up what it had read before.
func (c *Client) renew(ctx context.Context) error {
	var ended error
	err := c.Settings.Store.Edit(func(f *profile.File) error {
		p := f.Profiles[c.Settings.Name]
		switch {
		case p.Token == "" || !SameOrigin(p.URL, c.Settings.URL): // another process has logged out
			ended = signInEnded()
			return nil
		case p.RefreshToken != "" && !c.fresh(p):
			var err error
			if p, err = c.refresh(ctx, p); CodeOf(err) == errs.TokenInvalid || CodeOf(err) == errs.TokenExpired {
				p.Token, p.RefreshToken, p.ExpiresAt = "", "", time.Time{}
				ended = signInEnded()
			} else if err != nil {
				return err
			}
			f.Profiles[c.Settings.Name] = p
		}
		c.Settings.Token, c.Settings.RefreshToken, c.Settings.ExpiresAt = p.Token, p.RefreshToken, p.ExpiresAt
		return nil
	})
	if err != nil {
		return err
	}
	return ended
}

func signInEnded() error {
	return errs.New(errs.TokenExpired, "the sign-in has ended").Try("gpuaas login")
}

// refresh sends one request and never retries. If the response is lost, the provider may have
// invalidated the refresh token, and a second use would end the session.
func (c *Client) refresh(ctx context.Context, p profile.Profile) (profile.Profile, error) {
	ctx, cancel := context.WithTimeout(ctx, renewWithin)
	defer cancel()
	got, _, err := sendOnce[oapi.Refreshed](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.plain.RefreshToken(ctx, nil, oapi.RefreshRequest{RefreshToken: &p.RefreshToken})
	})
	if err != nil {
		return p, err
	}
	if got.Value.AccessToken == nil {
		return p, errs.New(errs.ProviderFailed, "the provider gave no token").Try("gpuaas login")
	}
	p.Token, p.ExpiresAt = *got.Value.AccessToken, time.Time{}
	if got.Value.RefreshToken != nil {
		p.RefreshToken = *got.Value.RefreshToken
	}
	if got.Value.ExpiresIn != nil {
		p.ExpiresAt = c.clock.Now().Add(time.Duration(*got.Value.ExpiresIn) * time.Second).Truncate(time.Second)
	}
	return p, nil
}
