package signin_test

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
	"github.com/gpuaas/gpuaas/platform/identity/oidc/oidctest"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
)

// A stolen password of an administrator or operator is not enough where the platform requires a second factor:
// neither for a session, nor for a provider's token, nor for an API key from a sign-in without it.
func TestAdministratorsNeedTheSecondFactor(t *testing.T) {
	t.Parallel()
	e := enter(t)
	ctx := t.Context()
	strong, weak := identity.SignIn{At: time.Now(), Methods: "1 otp"}, identity.SignIn{At: time.Now(), Methods: "1 pwd"}
	in := func(api *signin.Service, subject string, how identity.SignIn) (signin.Started, error) {
		v := e.verified(subject, subject+"@example.org")
		v.SignIn = how
		return api.SignInSession(ctx, v, signin.NewSession{Kind: "browser", Origin: from})
	}
	before, err := in(e.api, "boss", weak)
	if err != nil {
		t.Fatal(err)
	}
	e.Exec(t, "UPDATE users SET role = 'operator' WHERE id = $1", before.User.ID)
	made := func(how identity.SignIn) string {
		c := identity.Caller{User: before.User.ID, SignIn: how}
		k, err := (&keys.Service{Service: e.api.Service}).CreateAPIKey(identitytest.In(ctx, c), identitytest.Change[keys.APIKey](c), keys.NewAPIKey{Name: how.Methods})
		if err != nil {
			t.Fatal(err)
		}
		return k.Secret
	}
	weakKey, strongKey := made(weak), made(strong)
	e.Exec(t, `INSERT INTO policy_values (key, scope, subject, value, revision) VALUES ('auth.admin_acr', 'platform', 'platform', '"urn:hw otp"', 2)`)
	api := e.process(t, &hint.Bus{})

	_, err = in(api, "boss", weak)
	identitytest.WantCode(t, "a sign-in without it", err, errs.StepUpRequired)
	v := e.verified("boss", "boss@example.org")
	_, err = api.SignInUser(ctx, v, from)
	identitytest.WantCode(t, "a program's sign-in without it", err, errs.StepUpRequired)
	for name, token := range map[string]string{
		"an older session": before.Token, "an API key without it": weakKey, "a token of the provider": e.bearer("boss"),
	} {
		_, err := api.Authenticate(ctx, token)
		identitytest.WantCode(t, name, err, errs.StepUpRequired)
	}
	started, err := in(api, "boss", strong)
	if err != nil {
		t.Fatal(err)
	}
	bearer := e.issuer.Token("ES256", oidctest.P256, nil, oidctest.Object{"sub": "boss", "acr": "urn:hw"})
	for name, token := range map[string]string{"a session with it": started.Token, "an API key with it": strongKey, "a token with it": bearer} {
		if _, err := api.Authenticate(ctx, token); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := in(api, "tenant", weak); err != nil {
		t.Errorf("a user without a role of the platform: %v", err)
	}
	link, err := api.FirstAdminLink(ctx, "root@example.org")
	if err != nil {
		t.Fatal(err)
	}
	root, err := api.UseLink(ctx, link.Code, from)
	if err == nil {
		_, err = api.Authenticate(ctx, root.Token)
	}
	if err != nil {
		t.Errorf("a code of the server itself: %v", err)
	}
}
