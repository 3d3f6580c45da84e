package keys_test

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
	"github.com/gpuaas/gpuaas/policies"
)

// A thief of a session or of an API key cannot create what outlives it, and cannot make another user
// powerful.
func TestAnOldSignInCreatesNoCredential(t *testing.T) {
	t.Parallel()
	w := identitytest.NewTenancy(t)
	account := w.Account(t, "robot")
	line, _ := ed(t)
	admin, owner := "admin", "owner"
	disabled := w.Account(t, "disabled")
	w.Exec(t, `UPDATE service_accounts SET disabled_at = now() WHERE id = $1`, disabled.ID)
	guest := w.Person(t, "guest@dev.localhost", ids.Tenant{}, "")
	invitation := w.Invitation(t, w.Owner, guest.Email)
	for name, try := range map[string]func(c identity.Caller) error{
		"an API key": func(c identity.Caller) error {
			_, err := w.Keys.CreateAPIKey(identitytest.In(t.Context(), c), identitytest.Change[keys.APIKey](c), keys.NewAPIKey{Name: "k"})
			return err
		},
		"an SSH key": func(c identity.Caller) error {
			_, err := w.Keys.AddSSHKey(identitytest.In(t.Context(), c), identitytest.Change[keys.SSHKey](c), "k", line)
			return err
		},
		"a credential": func(c identity.Caller) error {
			_, err := w.Keys.CreateCredential(identitytest.In(t.Context(), c), identitytest.Change[keys.Credential](c), account.ID, keys.NewCredential{})
			return err
		},
		"a service account that can do more": func(c identity.Caller) error {
			scopes := append([]string{policies.ScopeNames()[1]}, account.Scopes...)
			_, err := w.Keys.UpdateServiceAccount(identitytest.In(t.Context(), c), identitytest.Change[keys.ServiceAccount](c), account.ID, 0, keys.ServiceAccountPatch{Scopes: &scopes})
			return err
		},
		"a disabled service account work": func(c identity.Caller) error {
			_, err := w.Keys.UpdateServiceAccount(identitytest.In(t.Context(), c), identitytest.Change[keys.ServiceAccount](c), disabled.ID, 0, keys.ServiceAccountPatch{Disabled: new(bool)})
			return err
		},
		"a membership": func(c identity.Caller) error {
			c.User, c.Tenant = guest.User, ids.Tenant{}
			return w.AcceptInvitation(identitytest.In(t.Context(), c), identitytest.Change[struct{}](c), invitation)
		},
		"an invitation of an owner": func(c identity.Caller) error {
			_, err := w.Invite(identitytest.In(t.Context(), c), identitytest.Change[identity.Invitation](c), "new@x.localhost", owner)
			return err
		},
		"another owner": func(c identity.Caller) error {
			_, err := w.PutTenantMember(identitytest.In(t.Context(), c), identitytest.Change[identity.Member](c), w.Member.User, owner)
			return err
		},
		"a new administrator": func(c identity.Caller) error {
			c.User, c.Role = w.Admin.User, "admin"
			_, err := w.CreateUser(identitytest.In(t.Context(), w.Admin), identitytest.Change[identity.User](c), identity.NewUser{Email: "root@x.localhost", Name: "R", Role: admin})
			return err
		},
		"a role": func(c identity.Caller) error {
			c.User, c.Role = w.Admin.User, "admin"
			_, err := w.UpdateUser(identitytest.In(t.Context(), c), identitytest.Change[identity.User](c), w.Member.User, 0, identity.UserPatch{Role: &admin})
			return err
		},
	} {
		old, key, unknown := w.Owner, w.Owner, w.Owner
		old.SignIn.At = time.Now().Add(-16 * time.Minute)
		key.SignIn, key.Key = identity.SignIn{}, ids.New[ids.APIKey]()
		unknown.SignIn = identity.SignIn{}
		for by, c := range map[string]identity.Caller{"an old sign-in": old, "an API key": key, "a sign-in without a time": unknown} {
			identitytest.WantCode(t, by+" makes "+name, try(c), errs.StepUpRequired)
		}
		if err := try(w.Owner); err != nil {
			t.Errorf("a recent sign-in makes %s: %v", name, err)
		}
	}
}

// An old sign-in can remove scopes of a service account and disable it.
func TestAnOldSignInReducesAServiceAccount(t *testing.T) {
	t.Parallel()
	w := identitytest.NewTenancy(t)
	account := w.Account(t, "robot")
	old, yes, text := w.Owner, true, "of the pipeline"
	old.SignIn.At = time.Now().Add(-16 * time.Minute)
	_, err := w.Keys.UpdateServiceAccount(identitytest.In(t.Context(), old), identitytest.Change[keys.ServiceAccount](old), account.ID, 0,
		keys.ServiceAccountPatch{Disabled: &yes, Description: &text, Scopes: &account.Scopes})
	if err != nil {
		t.Error(err)
	}
}

// Where a recent sign-in is not required, a key still creates nothing that lives longer than the key, and all
// of it ends with the key.
func TestACredentialEndsWithItsMaker(t *testing.T) {
	t.Parallel()
	w := identitytest.NewTenancy(t)
	w.Policy = func(identity.Caller) policies.View {
		return policies.Snapshot{}.For().With(string(policies.AuthStepUpMinutes), policies.Platform, int64(0))
	}
	account := w.Account(t, "robot")
	ctx := identitytest.In(t.Context(), w.Owner)
	first, err := w.Keys.CreateAPIKey(ctx, identitytest.Change[keys.APIKey](w.Owner), keys.NewAPIKey{Name: "first", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	thief, err := w.Fresh().Authenticate(t.Context(), first.Secret)
	if err != nil || thief.Key != first.ID || !thief.KeyEnd.Equal(*first.ExpiresAt) {
		t.Fatalf("%+v, %v", thief, err)
	}
	_, err = w.Keys.CreateAPIKey(ctx, identitytest.Change[keys.APIKey](thief), keys.NewAPIKey{Name: "longer", TTL: 2 * time.Hour})
	identitytest.WantCode(t, "a longer key", err, errs.ValidationError)
	_, err = w.Keys.CreateCredential(ctx, identitytest.Change[keys.Credential](thief), account.ID, keys.NewCredential{TTL: 2 * time.Hour})
	identitytest.WantCode(t, "a longer credential", err, errs.ValidationError)
	line, _ := ed(t)
	_, err = w.Keys.AddSSHKey(ctx, identitytest.Change[keys.SSHKey](thief), "k", line)
	identitytest.WantCode(t, "an SSH key without an end", err, errs.Forbidden)

	second, err := w.Keys.CreateAPIKey(ctx, identitytest.Change[keys.APIKey](thief), keys.NewAPIKey{Name: "second"})
	if err != nil || second.ExpiresAt == nil || !second.ExpiresAt.Equal(thief.KeyEnd) {
		t.Fatalf("%+v, %v", second, err)
	}
	further, err := w.Fresh().Authenticate(t.Context(), second.Secret)
	if err != nil {
		t.Fatal(err)
	}
	third, err := w.Keys.CreateAPIKey(ctx, identitytest.Change[keys.APIKey](further), keys.NewAPIKey{Name: "third"})
	if err != nil {
		t.Fatal(err)
	}
	credential, err := w.Keys.CreateCredential(ctx, identitytest.Change[keys.Credential](further), account.ID, keys.NewCredential{})
	if err != nil || credential.ExpiresAt == nil {
		t.Fatalf("%+v, %v", credential, err)
	}
	if err := w.Keys.RevokeAPIKey(ctx, identitytest.Change[struct{}](w.Owner), first.ID); err != nil {
		t.Fatal(err)
	}
	for name, secret := range map[string]string{"the second": second.Secret, "the third": third.Secret} {
		_, err := w.Fresh().Authenticate(t.Context(), secret)
		identitytest.WantCode(t, name, err, errs.TokenInvalid)
	}
	if n := w.Count(t, `SELECT count(*) FROM service_account_credentials WHERE revoked_at IS NULL`); n != 0 {
		t.Errorf("%d credentials of the key are in force", n)
	}
}

// A role that a Role object declares may list createUser. Its holder creates no administrator and no owner.
func TestOnlyAnAdministratorCreatesAUserWithARole(t *testing.T) {
	t.Parallel()
	w := identitytest.NewTenancy(t)
	c := w.Owner
	c.Role = "helpdesk"
	for name, n := range map[string]identity.NewUser{
		"an administrator": {Email: "root@x.localhost", Name: "R", Role: "admin"},
		"an owner":         {Email: "owner@x.localhost", Name: "O", Role: "user", Tenant: w.Owner.Tenant, TenantRole: "owner"},
	} {
		_, err := w.CreateUser(identitytest.In(t.Context(), w.Admin), identitytest.Change[identity.User](c), n)
		identitytest.WantCode(t, name, err, errs.Forbidden)
	}
}
