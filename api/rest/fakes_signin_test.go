package rest_test

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
)

const (
	rightPassword = "correct horse battery"
	rightCode     = "gpa_0123456789012345678901234567890123456789012"
)

func always() bool { return true }

// Session signs somebody in without a door.
func (p *people) Session(_ context.Context, user ids.User, _ time.Duration) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions["session-of-"+user.String()] = user
	return "session-of-" + user.String(), nil
}

// started is a session of the person who has the token's name.
func (p *people) started(ctx context.Context, name string) (identity.Started, error) {
	user, ok := users[name]
	if !ok {
		return identity.Started{}, errs.New(errs.LoginFailed, "the e-mail address or the password is wrong")
	}
	token, err := p.Session(ctx, user, 0)
	return identity.Started{User: p.user(name), Token: token, Session: identity.SessionInfo{ExpiresAt: t0.Add(12 * time.Hour)}}, err
}

func (p *people) user(name string) identity.User {
	c := p.caller(name)
	return identity.User{ID: c.User, Email: c.Email, Name: c.Name, Role: c.Role, Version: 1}
}

func (p *people) SignIn(_ context.Context, v identity.Verified, _ identity.Origin) (identity.User, error) {
	return p.user(v.Subject), nil
}

func (p *people) SignInSession(ctx context.Context, v identity.Verified, _ identity.NewSession) (identity.Started, error) {
	return p.started(ctx, v.Subject)
}

func (p *people) PersonalLogin(ctx context.Context, email, password, _ string, _ identity.Origin) (identity.Started, error) {
	if password != rightPassword {
		email = ""
	}
	return p.started(ctx, email[:max(len(email)-len("@dev.localhost"), 0)])
}

func (p *people) UseLink(ctx context.Context, code string, _ identity.Origin) (identity.Started, error) {
	if code != rightCode {
		return identity.Started{}, errs.New(errs.LoginFailed, "the code is used, expired or unknown")
	}
	return p.started(ctx, tokenAdmin)
}

func (*people) SetPassword(context.Context, identity.Caller, string, string) error { return nil }

func (p *people) RefreshSession(ctx context.Context, token string, _ identity.Origin) (identity.User, error) {
	c, err := p.Authenticate(ctx, token)
	return p.user(c.Name), err
}

func (p *people) RefreshProgram(_ context.Context, refresh string, _ identity.Origin) (identity.Grant, identity.User, error) {
	if refresh == "old" {
		return identity.Grant{}, identity.User{}, errs.New(errs.TokenInvalid, "the provider does not take it")
	}
	return identity.Grant{Access: "access", Refresh: "next", Until: t0.Add(5 * time.Minute)}, p.user(tokenOwner), nil
}

func (*people) MintToken(_ context.Context, _ string, scopes []string, _ string) (identity.Minted, error) {
	return identity.Minted{Token: "minted", For: time.Hour, Scopes: scopes}, nil
}

func (p *people) Logout(_ context.Context, _ identity.Caller, token, _ string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, token)
	return p.logout
}

// desk is a provider that gives a code to whoever is named in the question.
type desk struct {
	mu    sync.Mutex
	asked map[string][3]string // redirect, nonce, verifier by state
}

func provider(c *rest.Config) {
	c.OIDC = &desk{asked: map[string][3]string{}}
	c.SignIn = rest.SignInOptions{Issuer: "https://id.example", CLIClientID: "gpuaas-cli", Audience: "gpuaas-api", Scopes: []string{"openid"}}
}

func (d *desk) AuthCodeURL(_ context.Context, redirect, state, nonce, verifier string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked[state] = [3]string{redirect, nonce, verifier}
	return "https://id.example/authorize?state=" + url.QueryEscape(state), nil
}

// Exchange takes the name of a person for a code, if all else is as it was asked.
func (d *desk) Exchange(_ context.Context, redirect, code, nonce, verifier string) (identity.Grant, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for state, have := range d.asked {
		if have == [3]string{redirect, nonce, verifier} {
			delete(d.asked, state)
			return identity.Grant{Verified: identity.Verified{Subject: code}, Refresh: "refresh"}, nil
		}
	}
	return identity.Grant{}, errs.New(errs.OIDCExchangeFailed, "the provider did not take the code")
}

func (*desk) Identify(_ context.Context, idToken string) (identity.Verified, error) {
	if _, ok := users[idToken]; !ok {
		return identity.Verified{}, errs.New(errs.TokenInvalid, "the token is not valid")
	}
	return identity.Verified{Subject: idToken, Until: t0.Add(time.Hour)}, nil
}
