package signin_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/platform/identity/oidc"
	"github.com/gpuaas/gpuaas/platform/identity/oidc/oidctest"
)

const ourAddress = "https://gpuaas.example"

// admit creates a service account whose credential admits the jobs with a subject.
func (e *authFixture) admit(t *testing.T, issuer, subject string) ids.ServiceAccount {
	t.Helper()
	_, id := e.account(t, "plans:propose")
	e.Exec(t, "INSERT INTO service_account_credentials (id, service_account_id, org_id, issuer, subject) VALUES ($1, $2, $3, $4, $5)",
		uuid.Must(uuid.NewV7()), id, e.Seed.Tenant, issuer, subject)
	return id
}

// Threats: a job of another repository or another ref, a token for another installation, and a token of
// an issuer that is not trusted act as the service account.
func TestJobsOfAForgeActAsAServiceAccount(t *testing.T) {
	t.Parallel()
	e := enter(t)
	forge, other := oidctest.Start(t), oidctest.Start(t)
	e.api.VerifyJob = oidc.NewJobIssuers([]string{forge.URL}, func() string { return ourAddress }, clock.Clock{}, nil).Verify
	ref := e.admit(t, forge.URL, "repo:acme/fleet:ref:refs/heads/main")
	anyRef := e.admit(t, forge.URL, "repo:acme/fleet:*")
	elsewhere := e.admit(t, other.URL, "repo:acme/fleet:*")
	now := time.Now().Unix()
	token := func(i *oidctest.Issuer, subject string, changes oidctest.Object) string {
		claims := oidctest.Object{"iss": i.URL, "sub": subject, "aud": ourAddress, "exp": now + 300, "iat": now, "jti": "1", "repository": "acme/fleet"}
		return i.Sign(oidctest.JSON(oidctest.Object{"alg": "RS256", "kid": oidctest.RSA, "typ": "JWT"}), oidctest.JSON(claims.With(changes)), "RS256", oidctest.RSA)
	}
	for name, c := range map[string]struct {
		account ids.ServiceAccount
		token   string
		code    errs.Code
	}{
		"the ref":                     {ref, token(forge, "repo:acme/fleet:ref:refs/heads/main", nil), ""},
		"any ref":                     {anyRef, token(forge, "repo:acme/fleet:pull_request", nil), ""},
		"another ref":                 {ref, token(forge, "repo:acme/fleet:pull_request", nil), errs.TokenInvalid},
		"a longer ref":                {ref, token(forge, "repo:acme/fleet:ref:refs/heads/main2", nil), errs.TokenInvalid},
		"another repository":          {anyRef, token(forge, "repo:acme/fleet2:pull_request", nil), errs.TokenInvalid},
		"another owner":               {anyRef, token(forge, "repo:evil/fleet:pull_request", nil), errs.TokenInvalid},
		"an asterisk in the subject":  {ref, token(forge, "repo:acme/fleet:*", nil), errs.TokenInvalid},
		"of an issuer not trusted":    {elsewhere, token(other, "repo:acme/fleet:pull_request", nil), errs.TokenInvalid},
		"for another installation":    {anyRef, token(forge, "repo:acme/fleet:pull_request", oidctest.Object{"aud": "https://other.example"}), errs.TokenInvalid},
		"without an audience":         {anyRef, token(forge, "repo:acme/fleet:pull_request", oidctest.Object{"aud": nil}), errs.TokenInvalid},
		"expired":                     {anyRef, token(forge, "repo:acme/fleet:pull_request", oidctest.Object{"exp": now - 120}), errs.TokenExpired},
		"without an end":              {anyRef, token(forge, "repo:acme/fleet:pull_request", oidctest.Object{"exp": nil}), errs.TokenInvalid},
		"of an unknown account":       {ids.New[ids.ServiceAccount](), token(forge, "repo:acme/fleet:pull_request", nil), errs.TokenInvalid},
		"signed with a withdrawn key": {anyRef, forge.Token("RS256", oidctest.Gone, oidctest.Object{"alg": "RS256", "kid": oidctest.Gone}, oidctest.Object{"iss": forge.URL}), errs.TokenInvalid},
		"nonsense":                    {anyRef, "x.y.z", errs.TokenInvalid},
	} {
		m, err := e.api.MintTokenForJob(t.Context(), c.token, c.account, nil, "")
		identitytest.WantCode(t, name, err, c.code)
		if c.code != "" {
			continue
		}
		if m.For > 5*time.Minute || m.For < 4*time.Minute {
			t.Errorf("%s: the token is valid for %s, and that of the job for 5 minutes", name, m.For)
		}
		who, err := e.api.Authenticate(t.Context(), m.Token)
		if err != nil || who.ServiceAccount != c.account || len(who.Scopes.Names()) != 1 {
			t.Errorf("%s: acts as %+v, %v", name, who, err)
		}
		// What the job creates ends with its token.
		if left := time.Until(who.KeyEnd); who.Credential == (ids.Credential{}) || left > 7*time.Minute || left < 4*time.Minute { // a minute of leeway
			t.Errorf("%s: credential %s ends in %s", name, who.Credential, left)
		}
	}
	m, err := e.api.MintTokenForJob(t.Context(), token(forge, "repo:acme/fleet:x", nil), anyRef, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	e.Exec(t, "UPDATE service_account_credentials SET revoked_at = now() WHERE service_account_id = $1 AND issuer IS NOT NULL", anyRef)
	e.api.RightsChanged()
	if _, err := e.api.Authenticate(t.Context(), m.Token); err == nil {
		t.Error("a token outlives its revoked credential")
	}
	_, err = e.api.MintTokenForJob(t.Context(), token(forge, "repo:acme/fleet:x", nil), anyRef, nil, "")
	identitytest.WantCode(t, "revoked", err, errs.TokenInvalid)
}
