package oidc

import (
	"context"
	"crypto/subtle"
	"strings"

	"github.com/gpuaas/gpuaas/platform/identity/jwt"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
)

// Identify validates the ID token of a client program that signed a user in by itself.
func (p *Provider) Identify(ctx context.Context, raw string) (signin.Verified, error) {
	return p.identify(ctx, raw, p.CLIClientID, "")
}

// identify validates an ID token that was issued for this client. A nonce must equal the one that was
// sent. Without a nonce, the token was not requested by this server. go-oidc's verifier is not used in
// addition: it reads members in any case of letters, and two readers that disagree make forged tokens
// possible.
func (p *Provider) identify(ctx context.Context, raw, client, nonce string) (signin.Verified, error) {
	t, err := jwt.Parse(raw)
	if err != nil {
		return signin.Verified{}, err
	}
	if err := p.keys.verify(ctx, t); err != nil {
		return signin.Verified{}, err
	}
	until, err := t.Basic(jwt.Rules{Issuer: p.Config.Issuer, Audience: client, Now: p.Clock.Now()})
	if err != nil {
		return signin.Verified{}, err
	}
	claims := t.Claims
	header := strings.ToLower(t.Header.Text("typ"))
	switch {
	case t.Header.Has("typ") && header != "jwt":
		return signin.Verified{}, jwt.Reject("a header of type %q is none of an ID token", header)
	case claims.Has("typ") && claims.Text("typ") != "ID":
		return signin.Verified{}, jwt.Reject("a token of type %q is no ID token", claims.Text("typ"))
	case claims.Has("events"):
		return signin.Verified{}, jwt.Reject("a logout token is no ID token")
	case claims.Has("azp") && claims.Text("azp") != client:
		return signin.Verified{}, jwt.Reject("its audience is %q", claims.Text("azp"))
	case nonce != "" && subtle.ConstantTimeCompare([]byte(claims.Text("nonce")), []byte(nonce)) != 1:
		return signin.Verified{}, jwt.Reject("its nonce does not match")
	}
	v := p.verified(claims)
	v.Until = until
	return v, nil
}
