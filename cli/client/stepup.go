package client

import (
	"context"
	"fmt"
	"strings"
)

// stepUp offers the user to sign in again, and reports whether the request can be repeated. It does nothing
// without a terminal, and for a token that is not a sign-in of the profile.
func (c *Client) stepUp(ctx context.Context) bool {
	a := c.console
	if a == nil || a.SignInAgain == nil || !a.CanPrompt() || !c.ofProfile() {
		return false
	}
	if a.Confirm(ctx, "This request needs a recent sign-in. Sign in again?", "not signed in again") != nil {
		return false
	}
	if err := a.SignInAgain(ctx); err != nil {
		_, _ = fmt.Fprintln(a.Err, err)
		return false
	}
	file, err := c.Settings.Store.Read()
	if err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := file.Profiles[c.Settings.Name]
	c.Settings.Token, c.Settings.RefreshToken, c.Settings.ExpiresAt = p.Token, p.RefreshToken, p.ExpiresAt
	return true
}

// ofProfile reports whether the token is a sign-in that the profile stores.
func (c *Client) ofProfile() bool {
	file, err := c.Settings.Store.Read()
	return err == nil && c.Settings.Name != "" && c.Settings.Token != "" && !strings.HasPrefix(c.Settings.Token, "gpk_") &&
		file.Profiles[c.Settings.Name].Token == c.Settings.Token
}
