package signin_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
)

// scripted replaces a foreign provider whose responses a test decides.
type scripted struct {
	signin.Provider

	mu      sync.Mutex
	grant   signin.Grant
	failure error  // of Refresh and Revoke
	during  func() // may be nil; runs within Refresh
	used    []string
	revoked []string
}

func (p *scripted) Refresh(_ context.Context, refresh string, _ bool) (signin.Grant, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used = append(p.used, refresh)
	if p.during != nil {
		p.during()
	}
	return p.grant, p.failure
}

func (p *scripted) Revoke(_ context.Context, refresh string, _ bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure == nil {
		p.revoked = append(p.revoked, refresh)
	}
	return p.failure
}

// scriptedSession starts a session at such a provider.
func scriptedSession(t *testing.T) (*authFixture, *scripted, signin.Started) {
	t.Helper()
	e := enter(t)
	p := &scripted{Provider: e.api.Provider}
	e.api.Provider = p
	v := e.verified("s-dev", "dev@dev.localhost")
	v.MapsRoles, v.Role = true, "operator"
	p.grant = signin.Grant{Verified: v, Refresh: "second"}
	started, err := e.api.SignInSession(t.Context(), v, signin.NewSession{Kind: "browser", Grant: signin.HeldTokens{Refresh: "first", ID: "hint"}, Origin: from})
	if err != nil {
		t.Fatal(err)
	}
	return e, p, started
}

// later makes the session one that the provider confirmed that many minutes ago.
func (e *authFixture) later(t *testing.T, minutes int) {
	t.Helper()
	e.Exec(t, `UPDATE sessions SET checked_at = now() - $1 * interval '1 minute', check_tried_at = NULL`, minutes)
	e.seconds.Add(2) // beyond the cache of tokens
}

// A user who was disabled, signed out or given another role at the provider loses the session or the rights within
// auth.provider_check_minutes, and a session continues for an hour while the provider is away.
func TestTheProviderConfirmsASession(t *testing.T) {
	t.Parallel()
	e, p, started := scriptedSession(t)
	enters := func() (identity.Caller, error) { return e.api.Authenticate(t.Context(), started.Token) }
	e.later(t, 4)
	if c, err := enters(); err != nil || c.Role != "operator" || len(p.used) > 0 {
		t.Errorf("after 4 minutes: %+v, %v, %v", c, err, p.used)
	}
	e.later(t, 5)
	audited := e.audited(t, "session.refresh")
	for range 3 {
		if c, err := enters(); err != nil || c.Role != "operator" || !slices.Equal(p.used, []string{"first"}) {
			t.Errorf("after 5 minutes: %+v, %v, %v", c, err, p.used)
		}
	}
	if n := e.audited(t, "session.refresh"); n != audited {
		t.Errorf("%d audit rows of a check without a change", n-audited)
	}
	e.later(t, 5)
	p.grant.Verified.Role = "user"
	if c, err := enters(); err != nil || c.Role != "user" || !slices.Equal(p.used, []string{"first", "second"}) {
		t.Errorf("after a demotion: %+v, %v, %v", c, err, p.used)
	}
	p.failure = errs.New(errs.ProviderFailed, "away")
	e.later(t, 60)
	if _, err := enters(); err != nil {
		t.Errorf("an hour without the provider: %v", err)
	}
	e.later(t, 66)
	_, err := enters()
	identitytest.WantCode(t, "longer without the provider", err, errs.ProviderFailed)
	p.failure = errs.New(errs.TokenInvalid, "signed out")
	e.later(t, 5)
	_, err = enters()
	identitytest.WantCode(t, "after the end at the provider", err, errs.TokenInvalid)
	if n := e.audited(t, "session.end"); n != 1 {
		t.Errorf("%d audit rows of its end", n)
	}
}

// The end of a session is reported to the provider, however it ended, and again while the provider is away.
func TestEndedSessionsAreRevokedAtTheProvider(t *testing.T) {
	t.Parallel()
	e, p, started := scriptedSession(t)
	p.failure = errs.New(errs.ProviderFailed, "away")
	out, err := e.api.Logout(t.Context(), identity.Caller{User: started.User.ID}, started.Token, "")
	if err != nil || out.Pending == nil || out.IDToken != "hint" {
		t.Errorf("%+v, %v", out, err)
	}
	if failed, err := e.api.RevokeEnded(t.Context(), 10); failed != 1 || err == nil {
		t.Errorf("%d failed, %v", failed, err)
	}
	p.failure = nil
	if _, err := e.api.RevokeEnded(t.Context(), 10); err != nil || len(p.revoked) > 0 {
		t.Errorf("tried again at once: %v, %v", p.revoked, err)
	}
	e.Exec(t, `UPDATE sessions SET ended_at = ended_at - interval '2 minutes', revoke_tried_at = revoke_tried_at - interval '61 seconds'`)
	for range 2 {
		if failed, err := e.api.RevokeEnded(t.Context(), 10); failed != 0 || err != nil || !slices.Equal(p.revoked, []string{"first"}) {
			t.Errorf("%d failed, %v, %v", failed, p.revoked, err)
		}
	}
}

// A token that the provider could not be notified of is not stored for ever.
func TestARefreshTokenIsRemovedAfterADay(t *testing.T) {
	t.Parallel()
	e, p, _ := scriptedSession(t)
	e.Exec(t, `UPDATE sessions SET created_at = now() - interval '2 days', expires_at = now() - interval '25 hours'`)
	p.failure = errs.New(errs.ProviderFailed, "away")
	if failed, err := e.api.RevokeEnded(t.Context(), 10); failed != 1 || err == nil {
		t.Errorf("%d failed, %v", failed, err)
	}
	var stored int
	if err := e.Pool.QueryRow(t.Context(), `SELECT count(grant_enc) FROM sessions`).Scan(&stored); err != nil || stored != 0 {
		t.Errorf("%d, %v", stored, err)
	}
}

// A session ends if the provider reports another user for it: the next request must not be let in.
func TestASessionOfAnotherUserEnds(t *testing.T) {
	t.Parallel()
	e, p, started := scriptedSession(t)
	p.grant.Verified = e.verified("s-other", "other@example.org")
	e.later(t, 5)
	_, err := e.api.Authenticate(t.Context(), started.Token)
	identitytest.WantCode(t, "the check", err, errs.LoginFailed)
	_, err = e.api.Authenticate(t.Context(), started.Token)
	identitytest.WantCode(t, "the next request", err, errs.TokenInvalid)
}

// A refresh token that the provider has rotated is stored, although the browser has given up the request.
func TestACanceledRequestStoresTheRotatedToken(t *testing.T) {
	t.Parallel()
	e, p, started := scriptedSession(t)
	ctx, cancel := context.WithCancel(t.Context())
	p.during = cancel
	e.later(t, 5)
	_, _ = e.api.Authenticate(ctx, started.Token)
	e.later(t, 5)
	if _, err := e.api.Authenticate(t.Context(), started.Token); err != nil || !slices.Equal(p.used, []string{"first", "second"}) {
		t.Errorf("%v, %v", p.used, err)
	}
}
