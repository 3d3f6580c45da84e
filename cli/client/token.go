package client

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
)

// tokenMint is a request for a token of a service account: with its credential, or with the token that a
// forge has issued to a CI job.
func (c *Client) tokenMint(token string) (oapi.TokenRequest, bool) {
	switch {
	case strings.HasPrefix(token, secretPrefix):
		return oapi.TokenRequest{Secret: &token}, true
	case token == "" && c.Settings.JobToken != "":
		return oapi.TokenRequest{JobToken: &c.Settings.JobToken, ServiceAccountId: &c.Settings.ServiceAccount}, true
	}
	return oapi.TokenRequest{}, false
}

// secretPrefix begins the credentials of service accounts.
const secretPrefix = "gps_"

// tradeBefore is the time before the expiry at which a token is exchanged. It exceeds the duration
// of a request.
const tradeBefore = 30 * time.Second

// traded is the token that was last got for a credential.
type traded struct {
	mu    sync.Mutex
	token string
	until time.Time
}

// trade exchanges the credential of a service account, or the token of a CI job, for a token that is
// valid for at most an hour. Other tokens stay what they are.
func (c *Client) trade(ctx context.Context, token string) (string, error) {
	request, ok := c.tokenMint(token)
	if !ok {
		return token, nil
	}
	c.traded.mu.Lock()
	defer c.traded.mu.Unlock()
	if c.traded.token != "" && c.clock.Now().Add(tradeBefore).Before(c.traded.until) {
		return c.traded.token, nil
	}
	asked := c.clock.Now()
	got, err := c.Mint(ctx, request)
	if err != nil {
		return "", err
	}
	c.traded.token, c.traded.until = got.Value.AccessToken, asked.Add(time.Duration(got.Value.ExpiresIn)*time.Second)
	return c.traded.token, nil
}

func (c *Client) Mint(ctx context.Context, r oapi.TokenRequest) (Response[oapi.MintedToken], error) {
	return Change[oapi.MintedToken](ctx, c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
		return c.plain.MintServiceAccountToken(ctx, nil, r, once)
	})
}
