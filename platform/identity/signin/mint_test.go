package signin_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/platform/identity/oidc/oidctest"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
)

// account makes a service account with a credential and returns its secret.
func (e *authFixture) account(t *testing.T, scopes ...string) (secret string, id ids.ServiceAccount) {
	t.Helper()
	id = ids.New[ids.ServiceAccount]()
	secret = "gps_" + base64.RawURLEncoding.EncodeToString(slices.Concat(id.UUID[:], id.UUID[:]))
	hash := sha256.Sum256([]byte(secret))
	e.Exec(t, "INSERT INTO service_accounts (id, org_id, project_id, name, scopes, created_by) VALUES ($1, $2, $3, $4, $5, $1)",
		id, e.Seed.Tenant, e.Seed.Project, "robot-"+id.String(), scopes)
	e.Exec(t, "INSERT INTO service_account_credentials (id, service_account_id, org_id, secret_hash) VALUES ($1, $2, $3, $4)",
		uuid.Must(uuid.NewV7()), id, e.Seed.Tenant, hash[:])
	return secret, id
}

func TestProgramGetsATokenAndNoMoreThanItMay(t *testing.T) {
	t.Parallel()
	e := enter(t)
	secret, id := e.account(t, "allocations:read", "allocations:write")
	m, err := e.api.MintToken(t.Context(), secret, nil, "")
	if err != nil || m.For != time.Hour || !slices.Equal(m.Scopes, []string{"allocations:read", "allocations:write"}) {
		t.Fatalf("%+v, %v", m, err)
	}
	c, err := e.api.Authenticate(t.Context(), m.Token)
	if err != nil || c.ServiceAccount != id || c.User != (ids.User{}) || c.Tenant != e.Seed.Tenant || c.Project != e.Seed.Project || !c.Limited ||
		!slices.Equal(c.Scopes.Names(), m.Scopes) || c.Role != "" || c.Actor() != "service-account:"+id.String() {
		t.Errorf("%+v, %v", c, err)
	}
	less, err := e.api.MintToken(t.Context(), secret, []string{"allocations:read"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if c, err := e.api.Authenticate(t.Context(), less.Token); err != nil || !slices.Equal(c.Scopes.Names(), []string{"allocations:read"}) {
		t.Errorf("%+v, %v", c, err)
	}
	_, err = e.api.MintToken(t.Context(), secret, []string{"billing:read"}, "")
	identitytest.WantCode(t, "more than the account has", err, errs.Forbidden)
	_, err = e.api.MintToken(t.Context(), secret, []string{"everything"}, "")
	identitytest.WantCode(t, "a scope that there is not", err, errs.ValidationError)
	elsewhere, err := e.api.MintToken(t.Context(), secret, nil, "other-api")
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.api.Authenticate(t.Context(), elsewhere.Token)
	identitytest.WantCode(t, "a token for another audience", err, errs.TokenInvalid)

	var claims map[string]any
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(m.Token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	if err = json.Unmarshal(text, &claims); err != nil || claims["actor_type"] != "service_account" || claims["iss"] != "gpuaas:test" || claims["sub"] != id.String() {
		t.Errorf("%v, %v", claims, err)
	}
	var used int
	if err := e.Pool.QueryRow(t.Context(), `SELECT count(*) FROM service_accounts a JOIN service_account_credentials k ON k.service_account_id = a.id
		WHERE a.last_used_at IS NOT NULL AND k.last_used_at IS NOT NULL`).Scan(&used); err != nil || used != 1 {
		t.Errorf("%d accounts were used, %v", used, err)
	}
	// Scopes that the account lost are lost to its tokens.
	e.Exec(t, "UPDATE service_accounts SET scopes = '{allocations:write}' WHERE id = $1", id)
	e.seconds.Add(1)
	if c, err := e.api.Authenticate(t.Context(), less.Token); err != nil || c.Scopes != 0 || !c.Limited {
		t.Errorf("%+v, %v", c, err)
	}
}

// INV-63: a restored database has lost the ends of tokens, so it accepts none that was issued before the restore.
func TestINV63ATokenOfTheTimeBeforeARestoreIsRejected(t *testing.T) {
	t.Parallel()
	e := enter(t)
	secret, _ := e.account(t, "allocations:read")
	m, err := e.api.MintToken(t.Context(), secret, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	restored := e.api.Tokens.Clock.Now()
	e.api.Tokens.NotBefore = func() time.Time { return restored }
	if _, err := e.api.Tokens.Verify(m.Token); err != nil {
		t.Errorf("issued in the second of the restore: %v", err)
	}
	restored = restored.Add(time.Second)
	_, err = e.api.Tokens.Verify(m.Token)
	identitytest.WantCode(t, "issued before the restore", err, errs.TokenInvalid)
}

// Threat: an SSH key or a further credential of a service account lives longer than the credential.
func TestATokenKnowsTheEndOfItsCredential(t *testing.T) {
	t.Parallel()
	e := enter(t)
	secret, _ := e.account(t, "allocations:read")
	caller := func() identity.Caller {
		m, err := e.api.MintToken(t.Context(), secret, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		c, err := e.api.Authenticate(t.Context(), m.Token)
		if err != nil || c.Credential == (ids.Credential{}) {
			t.Fatalf("%+v, %v", c, err)
		}
		return c
	}
	if c := caller(); !c.KeyEnd.IsZero() {
		t.Errorf("a credential without an end ends at %s", c.KeyEnd)
	}
	e.Exec(t, "UPDATE service_account_credentials SET expires_at = now() + interval '90 minutes' WHERE secret_hash IS NOT NULL")
	if c := caller(); time.Until(c.KeyEnd).Round(time.Minute) != 90*time.Minute {
		t.Errorf("it ends at %s", c.KeyEnd)
	}
}

func TestProgramStopsWithItsAccount(t *testing.T) {
	t.Parallel()
	e := enter(t)
	for name, sql := range map[string]string{
		"a disabled account":   "UPDATE service_accounts SET disabled_at = now() WHERE id = $1",
		"a deleted account":    "UPDATE service_accounts SET deleted_at = now() WHERE id = $1",
		"a revoked credential": "UPDATE service_account_credentials SET revoked_at = now() WHERE service_account_id = $1",
		"an expired one":       "UPDATE service_account_credentials SET expires_at = now() - interval '1 second' WHERE service_account_id = $1",
		"another project":      "UPDATE service_accounts SET project_id = (SELECT id FROM projects WHERE name = 'lab') WHERE id = $1",
	} {
		secret, id := e.account(t, "allocations:read")
		m, err := e.api.MintToken(t.Context(), secret, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.api.Authenticate(t.Context(), m.Token); err != nil {
			t.Fatalf("%s, before: %v", name, err)
		}
		e.Exec(t, sql, id)
		e.seconds.Add(1)
		_, err = e.api.Authenticate(t.Context(), m.Token)
		identitytest.WantCode(t, name, err, errs.TokenInvalid)
		if name == "another project" {
			continue
		}
		want := errs.TokenInvalid
		if name == "an expired one" {
			want = errs.TokenExpired
		}
		_, err = e.api.MintToken(t.Context(), secret, nil, "")
		identitytest.WantCode(t, "minting for "+name, err, want)
	}
}

func TestTokenLivesAsLongAsThePolicySays(t *testing.T) {
	t.Parallel()
	e := enter(t)
	secret, id := e.account(t, "allocations:read")
	e.Exec(t, "UPDATE service_account_credentials SET expires_at = now() + interval '10 minutes' WHERE service_account_id = $1", id)
	m, err := e.api.MintToken(t.Context(), secret, nil, "")
	if err != nil || m.For > 10*time.Minute || m.For < 9*time.Minute {
		t.Fatalf("outlives its credential: %+v, %v", m, err)
	}
	e.seconds.Add(int64(m.For/time.Second) + 61)
	_, err = e.api.Authenticate(t.Context(), m.Token)
	identitytest.WantCode(t, "after its end", err, errs.TokenExpired)
}

// A token of a service account is never accepted as a user's, or the reverse, whichever key signed it.
func TestINV59ProgramsAndPeopleAreNotMistaken(t *testing.T) {
	t.Parallel()
	e := enter(t)
	secret, _ := e.account(t, "allocations:read")
	m, err := e.api.MintToken(t.Context(), secret, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.api.Provider.Verify(t.Context(), m.Token); errs.CodeOf(err) != errs.TokenInvalid {
		t.Errorf("the provider accepts a service account's token: %v", err)
	}
	own := oidctest.Object{"iss": "gpuaas:test", "actor_type": "service_account"}
	kid := e.keys.Active()
	parts := strings.Split(m.Token, ".")
	for name, token := range map[string]string{
		"the provider signs in our name": e.issuer.Token("EdDSA", oidctest.Ed25519, nil, own),
		"and names our key":              e.issuer.Token("EdDSA", oidctest.Ed25519, oidctest.Object{"kid": kid}, own),
		"a person's token":               e.bearer("s-1"),
		"unsigned in our name":           oidctest.B64([]byte(`{"alg":"none","kid":"`+kid+`","typ":"at+jwt"}`)) + "." + parts[1] + ".",
		"HS256 with our public key":      oidctest.HMAC(`{"alg":"HS256","kid":"`+kid+`","typ":"at+jwt"}`, `{"iss":"gpuaas:test"}`, e.keys.Public()[kid]),
		"another header over our claims": oidctest.B64([]byte(`{"alg":"EdDSA","kid":"`+kid+`","typ":"JWT"}`)) + "." + parts[1] + "." + parts[2],
		"a signature that is cut":        m.Token[:len(m.Token)-4],
		"a key of another process":       foreignKey(t, e),
	} {
		if _, err := e.api.Tokens.Verify(token); errs.CodeOf(err) != errs.TokenInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func foreignKey(t *testing.T, e *authFixture) string {
	t.Helper()
	ring, err := pki.OpenKeyring(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	other := &signin.Tokens{Issuer: "gpuaas:test", Audience: e.issuer.Audience, Keys: ring}
	token, err := other.Mint(signin.Claims{Audience: e.issuer.Audience, Until: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestOwnKeysRotate(t *testing.T) {
	t.Parallel()
	e := enter(t)
	secret, _ := e.account(t, "allocations:read")
	old, err := e.api.MintToken(t.Context(), secret, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	first := e.keys.Active()
	if _, err := e.keys.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	fresh, err := e.api.MintToken(t.Context(), secret, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{"of the old key": old.Token, "of the new": fresh.Token} {
		if _, err := e.api.Authenticate(t.Context(), token); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	document, err := e.api.Tokens.Document()
	if err != nil || strings.Count(string(document), `"kty":"OKP"`) != 2 || strings.Contains(string(document), `"d":`) {
		t.Errorf("%s, %v", document, err)
	}
	if err := e.keys.Retire(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	e.seconds.Add(1)
	_, err = e.api.Authenticate(t.Context(), old.Token)
	identitytest.WantCode(t, "of a retired key", err, errs.TokenInvalid)
}
