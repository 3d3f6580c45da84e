package signin_test

import (
	"crypto/elliptic"
	"encoding/base64"
	"log/slog"
	"math/big"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/platform/identity/oidc"
	"github.com/gpuaas/gpuaas/platform/identity/oidc/oidctest"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
	"github.com/gpuaas/gpuaas/policies"
)

// authFixture is the service with the database role of the API and a provider, so that missing grants and
// audit rules fail here, too.
type authFixture struct {
	*identitytest.Fixture

	api     *signin.Service
	issuer  *oidctest.Issuer
	keys    *pki.Keyring
	seconds atomic.Int64 // that have passed
}

func enter(t *testing.T) *authFixture {
	t.Helper()
	e := &authFixture{Fixture: identitytest.New(t), issuer: oidctest.Start(t)}
	var err error
	if e.keys, err = pki.OpenKeyring(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	e.Exec(t, "INSERT INTO policy_values (key, scope, subject, value, revision) VALUES ('auth.personal_login_enabled', 'platform', 'platform', 'true', 1)")
	e.api = e.process(t, &hint.Bus{})
	return e
}

// process returns the service as one more process would have it.
func (e *authFixture) process(t *testing.T, hints *hint.Bus) *signin.Service {
	t.Helper()
	start := time.Now()
	c := clock.At(func() time.Time { return start.Add(time.Duration(e.seconds.Load()) * time.Second) })
	policy := &policies.Client{DB: e.Pool, Hints: &hint.Bus{}, Log: slog.New(slog.DiscardHandler)}
	if _, err := policy.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &signin.Service{
		Service: &identity.Service{
			DB: pgtest.Scoped(t, e.Pool), Clock: c, Seal: identitytest.Seal(t), Naming: ids.DefaultNaming, Hints: hints,
			Policy: identity.PolicyFrom(policy),
		},
		Tokens: &signin.Tokens{Issuer: "gpuaas:test", Audience: e.issuer.Audience, Keys: e.keys, Clock: c},
		Provider: oidc.New(oidc.Config{
			Issuer: e.issuer.URL, ClientID: "gpuaas", CLIClientID: "gpuaas-cli", Audience: e.issuer.Audience, Clock: c,
		}),
	}
}

func (e *authFixture) verified(subject, email string) signin.Verified {
	return signin.Verified{Issuer: e.issuer.URL, Subject: subject, Email: email, EmailVerified: true, Name: "Somebody"}
}

func (e *authFixture) bearer(subject string) string {
	return e.issuer.Token("ES256", oidctest.P256, nil, oidctest.Object{"sub": subject})
}

var from = signin.Origin{Address: "192.0.2.7", UserAgent: "Firefox", CorrelationID: "c-1"}

func (e *authFixture) audited(t *testing.T, action string) (n int) {
	t.Helper()
	if err := e.Pool.QueryRow(t.Context(), "SELECT count(*) FROM audit_logs WHERE action = $1", action).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestFirstSignInMakesAPerson(t *testing.T) {
	t.Parallel()
	e := enter(t)
	_, err := e.api.Authenticate(t.Context(), e.bearer("s-1"))
	identitytest.WantCode(t, "before the first sign-in", err, errs.UserNotFound)
	u, err := e.api.SignInUser(t.Context(), e.verified("s-1", "new@example.org"), from)
	if err != nil || u.Email != "new@example.org" || u.Role != "user" || u.RoleFrom != "platform" || u.Issuer != e.issuer.URL {
		t.Fatalf("%+v, %v", u, err)
	}
	c, err := e.api.Authenticate(t.Context(), e.bearer("s-1"))
	if err != nil || c.User != u.ID || c.Role != "user" || c.Tenant != (ids.Tenant{}) {
		t.Errorf("%+v, %v", c, err)
	}
	again, err := e.api.SignInUser(t.Context(), e.verified("s-1", "renamed@example.org"), from)
	if err != nil || again.ID != u.ID || again.Email != "renamed@example.org" {
		t.Errorf("again: %+v, %v", again, err)
	}
	if n := e.audited(t, "user.sign_in"); n != 2 {
		t.Errorf("%d audit rows for two sign-ins", n)
	}
}

// Decision 12: only a user whom an administrator has created is found by the verified address.
func TestSignInLinksLocalPeopleAlone(t *testing.T) {
	t.Parallel()
	e := enter(t)
	unverified := e.verified("s-dev", "dev@dev.localhost")
	unverified.EmailVerified = false
	_, err := e.api.SignInUser(t.Context(), unverified, from)
	identitytest.WantCode(t, "an address that is not verified", err, errs.LoginFailed)

	u, err := e.api.SignInUser(t.Context(), e.verified("s-dev", "dev@dev.localhost"), from)
	if err != nil || u.ID != e.Seed.Dev.ID || u.TenantRole != "owner" || u.Name != "Dev" {
		t.Fatalf("linked %+v, %v", u, err)
	}
	_, err = e.api.SignInUser(t.Context(), e.verified("s-other", "dev@dev.localhost"), from)
	identitytest.WantCode(t, "the same address under another subject", err, errs.LoginFailed)
	other := e.verified("s-dev", "dev@dev.localhost")
	other.Issuer = "https://evil.example"
	_, err = e.api.SignInUser(t.Context(), other, from)
	identitytest.WantCode(t, "the same subject of another issuer", err, errs.LoginFailed)
	_, err = e.api.SignInUser(t.Context(), e.verified("s-dev", "operator@dev.localhost"), from)
	identitytest.WantCode(t, "an address of another user", err, errs.LoginFailed)

	e.Exec(t, "UPDATE users SET disabled_at = now() WHERE id = $1", e.Seed.Dev.ID)
	_, err = e.api.SignInUser(t.Context(), e.verified("s-dev", "dev@dev.localhost"), from)
	identitytest.WantCode(t, "a disabled person", err, errs.LoginFailed)
	_, err = e.api.Authenticate(t.Context(), e.bearer("s-dev"))
	identitytest.WantCode(t, "a disabled person's token", err, errs.TokenInvalid)
}

func TestProviderDecidesRolesWhereTheProfileMapsThem(t *testing.T) {
	t.Parallel()
	e := enter(t)
	v := e.verified("s-1", "new@example.org")
	v.MapsRoles, v.Role = true, "operator"
	u, err := e.api.SignInUser(t.Context(), v, from)
	if err != nil || u.Role != "operator" || u.RoleFrom != "provider" {
		t.Fatalf("%+v, %v", u, err)
	}
	if c, err := e.api.Authenticate(t.Context(), e.bearer("s-1")); err != nil || c.Role != "operator" {
		t.Errorf("%+v, %v", c, err)
	}
	v.Role = "user"
	if _, err := e.api.SignInUser(t.Context(), v, from); err != nil {
		t.Fatal(err)
	}
	if c, err := e.api.Authenticate(t.Context(), e.bearer("s-1")); err != nil || c.Role != "user" {
		t.Errorf("demoted: %+v, %v", c, err)
	}
	if n := e.Count(t, `SELECT count(*) FROM outbox_events WHERE subject = 'provisioning.access_lost' AND payload->>'user_id' = $1::text`, u.ID.String()); n != 1 {
		t.Errorf("%d events of the lost role", n)
	}
	v.MapsRoles = false
	e.Exec(t, "UPDATE users SET role = 'admin' WHERE id = $1", u.ID)
	if u, err := e.api.SignInUser(t.Context(), v, from); err != nil || u.Role != "admin" || u.RoleFrom != "platform" {
		t.Errorf("without a table: %+v, %v", u, err)
	}
}

// A stranger who invites an address does not get its user by the user's sign-in.
func TestASignInAcceptsNoInvitation(t *testing.T) {
	t.Parallel()
	e := enter(t)
	for i, row := range []struct{ email, expires string }{{"late@example.org", "-1 minute"}, {"in@example.org", "1 day"}, {"dev@dev.localhost", "1 day"}} {
		e.Exec(t, "INSERT INTO invitations (id, org_id, email, role, invited_by, expires_at) VALUES ($1, $2, $3, 'billing', $1, now() + $4::interval)",
			uuid.Must(uuid.NewV7()), e.Seed.Tenant, strings.ToUpper(row.email[:1])+row.email[1:], row.expires)
		u, err := e.api.SignInUser(t.Context(), e.verified(row.email, row.email), from)
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"", "", "owner"}[i]; u.TenantRole != want {
			t.Errorf("%s is %q, want %q", row.email, u.TenantRole, want)
		}
	}
	var open int
	if err := e.Pool.QueryRow(t.Context(), "SELECT count(*) FROM invitations WHERE accepted_at IS NULL").Scan(&open); err != nil || open != 3 {
		t.Errorf("%d invitations are open, %v", open, err)
	}
}

func TestManyFirstSignInsMakeOnePerson(t *testing.T) {
	t.Parallel()
	e := enter(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[ids.User]int{}
	for range 30 {
		wg.Go(func() {
			u, err := e.api.SignInUser(t.Context(), e.verified("s-1", "new@example.org"), from)
			mu.Lock()
			defer mu.Unlock()
			if seen[u.ID]++; err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(seen) != 1 {
		t.Errorf("made %v", seen)
	}
}

func TestSessionBeginsAndEnds(t *testing.T) {
	t.Parallel()
	e := enter(t)
	started, err := e.api.SignInSession(t.Context(), e.verified("s-dev", "dev@dev.localhost"), signin.NewSession{Kind: "browser", Grant: signin.HeldTokens{Refresh: "refresh-secret"}, Origin: from})
	if err != nil || started.User.ID != e.Seed.Dev.ID || started.Session.Address != "192.0.2.7" {
		t.Fatalf("%+v, %v", started, err)
	}
	if left := started.Session.ExpiresAt.Sub(started.Session.CreatedAt); left != 12*time.Hour {
		t.Errorf("lives for %s", left)
	}
	c, err := e.api.Authenticate(t.Context(), started.Token)
	if err != nil || c.User != e.Seed.Dev.ID || c.Session != started.Session.ID || c.Limited {
		t.Errorf("%+v, %v", c, err)
	}
	var row string
	if err := e.Pool.QueryRow(t.Context(), "SELECT to_jsonb(s)::text || encode(grant_enc, 'escape') FROM sessions s").Scan(&row); err != nil ||
		strings.Contains(row, "refresh-secret") || strings.Contains(row, started.Token[4:]) {
		t.Errorf("stored in clear: %s, %v", row, err)
	}
	if e.audited(t, "session.start") != 1 || e.audited(t, "user.sign_in") != 0 {
		t.Error("one sign-in is not one audit row")
	}
	if _, err := e.api.Logout(t.Context(), c, started.Token, ""); err != nil {
		t.Fatal(err)
	}
	_, err = e.api.Authenticate(t.Context(), started.Token)
	identitytest.WantCode(t, "after its end", err, errs.TokenInvalid)
	if n := e.audited(t, "session.end"); n != 1 {
		t.Errorf("%d audit rows of its end", n)
	}
}

// A tenant may limit the sessions of its users. A limit that no sign-in reads has no effect.
func TestSessionEndsByThePolicyOfTheTenant(t *testing.T) {
	t.Parallel()
	e := enter(t)
	e.Exec(t, "INSERT INTO policy_values (key, scope, subject, value, revision) VALUES ('auth.session_max_hours', 'tenant:dev', $1, '1', 1)", "tenant:"+e.Seed.Tenant.String())
	started, err := e.process(t, &hint.Bus{}).SignInSession(t.Context(), e.verified("s-dev", "dev@dev.localhost"), signin.NewSession{Kind: "browser", Origin: from})
	if err != nil {
		t.Fatal(err)
	}
	if left := started.Session.ExpiresAt.Sub(started.Session.CreatedAt); left != time.Hour {
		t.Errorf("lives for %s", left)
	}
}

// A right that another process took away is gone here with the hint, or without
// it after a second.
func TestLostRightsAreFeltElsewhere(t *testing.T) {
	t.Parallel()
	e := enter(t)
	hints := &hint.Bus{}
	other := e.process(t, hints)
	started, err := e.api.SignInSession(t.Context(), e.verified("s-dev", "dev@dev.localhost"), signin.NewSession{Kind: "browser", Origin: from})
	if err != nil {
		t.Fatal(err)
	}
	tokens := map[string]string{"session": started.Token, "provider's token": e.bearer("s-dev")}
	for name, token := range tokens {
		if _, err := other.Authenticate(t.Context(), token); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for name, token := range tokens {
		if _, err := e.api.Logout(t.Context(), identity.Caller{User: e.Seed.Dev.ID}, token, ""); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, err := e.api.Authenticate(t.Context(), token)
		identitytest.WantCode(t, name+" where it was ended", err, errs.TokenInvalid)
		if _, err := other.Authenticate(t.Context(), token); err != nil {
			t.Errorf("%s is not cached: %v", name, err)
		}
	}
	e.seconds.Add(1)
	for name, token := range tokens {
		_, err := other.Authenticate(t.Context(), token)
		identitytest.WantCode(t, name+" elsewhere after a second", err, errs.TokenInvalid)
	}

	if _, err := other.Authenticate(t.Context(), e.Seed.Dev.Key); err != nil {
		t.Fatal(err)
	}
	go func() { _ = other.Run(t.Context()) }()
	e.Exec(t, "UPDATE api_keys SET revoked_at = now()")
	deadline := time.Now().Add(10 * time.Second)
	for {
		hints.Wake(identity.Topic)
		if _, err := other.Authenticate(t.Context(), e.Seed.Dev.Key); errs.CodeOf(err) == errs.TokenInvalid {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the hint was not heard")
		}
	}
}

// Of one ECDSA signature anybody makes another that is as good. The token is still
// the one that was logged out.
func TestRevokedTokensStayRevokedUnderAnotherSignature(t *testing.T) {
	t.Parallel()
	e := enter(t)
	person, err := e.api.SignInUser(t.Context(), e.verified("s-1", "new@example.org"), from)
	if err != nil {
		t.Fatal(err)
	}
	token := e.bearer("s-1")
	if _, err := e.api.Authenticate(t.Context(), mirrored(t, token)); err != nil {
		t.Fatalf("the other signature is none: %v", err)
	}
	if _, err := e.api.Logout(t.Context(), identity.Caller{User: person.ID}, token, ""); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"as it was": token, "with the other signature": mirrored(t, token)} {
		_, err := e.api.Authenticate(t.Context(), text)
		identitytest.WantCode(t, name, err, errs.TokenInvalid)
	}
}

// mirrored signs a token of P-256 again without the key: s becomes n - s.
func mirrored(t *testing.T, token string) string {
	t.Helper()
	cut := strings.LastIndex(token, ".") + 1
	signature, err := base64.RawURLEncoding.DecodeString(token[cut:])
	if err != nil || len(signature) != 64 {
		t.Fatalf("%d bytes of signature, %v", len(signature), err)
	}
	s := new(big.Int).SetBytes(signature[32:])
	s.Sub(elliptic.P256().Params().N, s).FillBytes(signature[32:])
	return token[:cut] + base64.RawURLEncoding.EncodeToString(signature)
}

// A verified token is remembered, and forgotten with the key that it was signed by.
func TestVerifiedTokensAreForgottenWithTheKeys(t *testing.T) {
	t.Parallel()
	e := enter(t)
	if _, err := e.api.SignInUser(t.Context(), e.verified("s-1", "new@example.org"), from); err != nil {
		t.Fatal(err)
	}
	token := e.issuer.Token("ES256", oidctest.P256, nil, oidctest.Object{"sub": "s-1", "exp": time.Now().Unix() + 7200})
	for range 3 {
		if _, err := e.api.Authenticate(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		e.seconds.Add(1)
	}
	e.issuer.Publish(e.issuer.Public(oidctest.RSA, "", "sig"))
	e.seconds.Add(300)
	deadline := time.Now().Add(10 * time.Second)
	for {
		_, err := e.api.Authenticate(t.Context(), token)
		if errs.CodeOf(err) == errs.TokenInvalid {
			return
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("still accepted: %v", err)
		}
		e.seconds.Add(1)
	}
}

func TestUseIsNotedOnceAMinute(t *testing.T) {
	t.Parallel()
	e := enter(t)
	used := func() (at *time.Time) {
		if err := e.Pool.QueryRow(t.Context(), "SELECT max(last_used_at) FROM api_keys").Scan(&at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	look := func() *time.Time {
		e.seconds.Add(1)
		if _, err := e.api.Authenticate(t.Context(), e.Seed.Dev.Key); err != nil {
			t.Fatal(err)
		}
		return used()
	}
	if used() != nil {
		t.Fatal("used before its first use")
	}
	first := look()
	if second := look(); first == nil || !second.Equal(*first) {
		t.Errorf("noted at %v and %v", first, second)
	}
	e.Exec(t, "UPDATE api_keys SET last_used_at = last_used_at - interval '61 seconds'")
	if third := look(); !third.After(*first) {
		t.Errorf("not noted after a minute: %v", third)
	}
}

func TestPolicyTurnsKeysOff(t *testing.T) {
	t.Parallel()
	e := enter(t)
	e.Exec(t, "INSERT INTO policy_values (key, scope, subject, value, revision) VALUES ('auth.api_keys_enabled', 'platform', 'platform', 'false', 1)")
	_, err := e.process(t, &hint.Bus{}).Authenticate(t.Context(), e.Seed.Dev.Key)
	identitytest.WantCode(t, "a key where there are none", err, errs.TokenInvalid)
}

// A session that has ended, for any reason, stores no refresh token once the provider has revoked it.
func TestEndedSessionsKeepNoRefreshToken(t *testing.T) {
	t.Parallel()
	e := enter(t)
	provider := &scripted{Provider: e.api.Provider}
	e.api.Provider = provider
	admin := identity.Caller{User: e.Seed.Admin.ID, Role: "admin"}
	for name, end := range map[string]func(signin.SessionInfo) error{
		"by-its-owner": func(i signin.SessionInfo) error {
			c := identity.Caller{User: i.User}
			return e.api.EndSessionByID(identitytest.In(t.Context(), c), identitytest.Change[struct{}](c), i.ID, false)
		},
		"with-its-person": func(i signin.SessionInfo) error {
			_, err := e.api.UpdateUser(identitytest.In(t.Context(), admin), identitytest.Change[identity.User](admin), i.User, 0, identity.UserPatch{Disabled: new(true)})
			return err
		},
	} {
		started, err := e.api.SignInSession(t.Context(), e.verified(name, name+"@example.org"), signin.NewSession{Kind: "browser", Grant: signin.HeldTokens{Refresh: name}, Origin: from})
		if err != nil {
			t.Fatal(err)
		}
		if err := end(started.Session); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := e.api.RevokeEnded(t.Context(), 10); err != nil || !slices.Contains(provider.revoked, name) {
			t.Errorf("%s: revoked %v, %v", name, provider.revoked, err)
		}
		var kept, ended bool
		err = e.Pool.QueryRow(t.Context(), "SELECT grant_enc IS NOT NULL, ended_at IS NOT NULL FROM sessions WHERE id = $1", started.Session.ID).Scan(&kept, &ended)
		if err != nil || kept || !ended {
			t.Errorf("%s: stored %v, ended %v, %v", name, kept, ended, err)
		}
	}
}
