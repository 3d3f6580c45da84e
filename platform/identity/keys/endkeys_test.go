package keys_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
	"github.com/gpuaas/gpuaas/policies"
)

// endFixture is a tenancy that requires no recent sign-in, and records whose allocations get other keys.
type endFixture struct {
	*identitytest.Tenancy

	rekeyed []uuid.UUID
}

func endings(t *testing.T) *endFixture {
	t.Helper()
	f := &endFixture{Tenancy: identitytest.NewTenancy(t)}
	f.Policy = func(identity.Caller) policies.View {
		return policies.Snapshot{}.For().With(string(policies.AuthStepUpMinutes), policies.Platform, int64(0))
	}
	f.Rekey = func(_ context.Context, _ pgx.Tx, principal uuid.UUID) error {
		f.rekeyed = append(f.rekeyed, principal)
		return nil
	}
	return f
}

// credential creates a credential, and returns the caller that has a token of it.
func (f *endFixture) credential(t *testing.T, by identity.Caller, account keys.ServiceAccount) identity.Caller {
	t.Helper()
	c, err := f.Keys.CreateCredential(identitytest.In(t.Context(), by), identitytest.Change[keys.Credential](by), account.ID, keys.NewCredential{})
	if err != nil {
		t.Fatal(err)
	}
	return identity.Caller{ServiceAccount: account.ID, Tenant: account.Tenant, Project: account.Project, Credential: c.ID, Limited: true}
}

func (f *endFixture) addSSHKey(t *testing.T, by identity.Caller) error {
	t.Helper()
	line, _ := ed(t)
	_, err := f.Keys.AddSSHKey(identitytest.In(t.Context(), by), identitytest.Change[keys.SSHKey](by), uuid.NewString(), line)
	return err
}

func (f *endFixture) wantSSHKeys(t *testing.T, when string, of identity.Caller, want int) {
	t.Helper()
	if n := f.Count(t, `SELECT count(*) FROM ssh_keys WHERE user_id = $1`, of.Principal()); n != want {
		t.Errorf("%s: %d SSH keys, want %d", when, n, want)
	}
	if !slices.Contains(f.rekeyed, of.Principal()) {
		t.Errorf("%s: allocations do not get other keys", when)
	}
}

// Threat: a thief of a credential, or of its token, adds an SSH key of the service account, which opens its
// allocations after the credential was revoked.
func TestAnSSHKeyEndsWithTheCredentialThatAddedIt(t *testing.T) {
	t.Parallel()
	f := endings(t)
	account := f.Account(t, "robot")
	first, second := f.credential(t, f.Owner, account), f.credential(t, f.Owner, account)
	for _, c := range []identity.Caller{first, first, second} {
		if err := f.addSSHKey(t, c); err != nil {
			t.Fatal(err)
		}
	}
	ctx := identitytest.In(t.Context(), f.Owner)
	if err := f.Keys.RevokeCredential(ctx, identitytest.Change[struct{}](f.Owner), account.ID, first.Credential); err != nil {
		t.Fatal(err)
	}
	f.wantSSHKeys(t, "after the revocation of the first", first, 1)
	identitytest.WantCode(t, "a token of the revoked credential", f.addSSHKey(t, first), errs.TokenInvalid)

	if err := f.addSSHKey(t, identity.Caller{ServiceAccount: account.ID, Tenant: account.Tenant, Project: account.Project}); err != nil {
		t.Fatal(err)
	}
	if err := f.Keys.DeleteServiceAccount(ctx, identitytest.Change[struct{}](f.Owner), account.ID, 0); err != nil {
		t.Fatal(err)
	}
	f.wantSSHKeys(t, "after the deletion of the account", first, 0)
}

// An SSH key has no end, so a token of a CI job or of a credential with an end adds none, and the credentials
// that it creates end with it.
func TestATokenWithAnEndAddsNoSSHKey(t *testing.T) {
	t.Parallel()
	f := endings(t)
	account := f.Account(t, "robot")
	c := f.credential(t, f.Owner, account)
	c.KeyEnd = time.Now().Add(time.Hour).Truncate(time.Microsecond)
	identitytest.WantCode(t, "an SSH key", f.addSSHKey(t, c), errs.Forbidden)
	if end, err := c.Within(nil); err != nil || !end.Equal(c.KeyEnd) {
		t.Errorf("a credential of it ends at %v, %v", end, err)
	}
}

// Threat: a thief of an API key creates a credential, and with it an SSH key of a service account.
func TestAnSSHKeyEndsWithTheKeyOfItsCredential(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(f *endFixture, key ids.APIKey) error{
		"the key is revoked": func(f *endFixture, key ids.APIKey) error {
			return f.Keys.RevokeAPIKey(identitytest.In(t.Context(), f.Owner), identitytest.Change[struct{}](f.Owner), key)
		},
		"the password is changed": func(f *endFixture, _ ids.APIKey) error {
			return f.SignIn.SetPassword(t.Context(), f.Owner, "", "correct horse battery", true)
		},
		"the user is relinked": func(f *endFixture, _ ids.APIKey) error {
			f.Exec(t, `UPDATE users SET oidc_issuer = 'https://id.example', oidc_subject = 'old' WHERE id = $1`, f.Owner.User)
			_, err := f.UpdateUser(identitytest.In(t.Context(), f.Admin), identitytest.Change[identity.User](f.Admin), f.Owner.User, 0, identity.UserPatch{Relink: true})
			return err
		},
		"the user is deleted": func(f *endFixture, _ ids.APIKey) error {
			f.Exec(t, `UPDATE tenant_memberships SET role = 'owner' WHERE user_id = $1`, f.Member.User)
			return f.DeleteUser(identitytest.In(t.Context(), f.Admin), identitytest.Change[struct{}](f.Admin), f.Owner.User, 0, func(pgx.Tx) error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := endings(t)
			f.Policy = func(identity.Caller) policies.View {
				return policies.Snapshot{}.For().With(string(policies.AuthStepUpMinutes), policies.Platform, int64(0)).
					With(string(policies.AuthPersonalLoginEnabled), policies.Platform, true)
			}
			ctx := identitytest.In(t.Context(), f.Owner)
			thief := f.Owner
			for _, name := range []string{"first", "second"} {
				k, err := f.Keys.CreateAPIKey(ctx, identitytest.Change[keys.APIKey](thief), keys.NewAPIKey{Name: name})
				if err != nil {
					t.Fatal(err)
				}
				thief.Key = k.ID
			}
			robot := f.credential(t, thief, f.Account(t, "robot"))
			if err := f.addSSHKey(t, robot); err != nil {
				t.Fatal(err)
			}
			if err := f.addSSHKey(t, thief); err != nil {
				t.Fatal(err)
			}
			first := ids.From[ids.APIKey](f.uuid(t, `SELECT id FROM api_keys WHERE name = 'first'`))
			if err := end(f, first); err != nil {
				t.Fatal(err)
			}
			f.wantSSHKeys(t, "of the account", robot, 0)
			f.wantSSHKeys(t, "of the user", thief, 0)
		})
	}
}

func (f *endFixture) uuid(t *testing.T, sql string) (id uuid.UUID) {
	t.Helper()
	if err := f.Pool.QueryRow(t.Context(), sql).Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}

// Threat: the address of a relinked user has another owner now, and the former one still has keys. An administrator
// can leave them, because the owner is the same.
func TestRelinkingEndsKeys(t *testing.T) {
	t.Parallel()
	for stay, want := range map[bool]int{false: 0, true: 1} {
		f := endings(t)
		f.Exec(t, `UPDATE users SET oidc_issuer = 'https://id.example', oidc_subject = 'old' WHERE id = $1`, f.Member.User)
		k, err := f.Keys.CreateAPIKey(identitytest.In(t.Context(), f.Member), identitytest.Change[keys.APIKey](f.Member), keys.NewAPIKey{Name: "ci"})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.addSSHKey(t, f.Member); err != nil {
			t.Fatal(err)
		}
		ctx, ch := identitytest.In(t.Context(), f.Admin), identitytest.Change[identity.User](f.Admin)
		_, err = f.UpdateUser(ctx, ch, f.Member.User, 0, identity.UserPatch{SameOwner: true})
		identitytest.WantCode(t, "keys that stay without another identity", err, errs.ValidationError)
		if _, err := f.UpdateUser(ctx, ch, f.Member.User, 0, identity.UserPatch{Relink: true, SameOwner: stay}); err != nil {
			t.Fatal(err)
		}
		f.wantSSHKeys(t, "after the user was relinked", f.Member, want)
		if _, err := f.Fresh().Authenticate(t.Context(), k.Secret); (err == nil) != stay {
			t.Errorf("%v: the API key: %v", stay, err)
		}
		if n := f.Count(t, `SELECT count(*) FROM audit_logs WHERE action = 'user.update' AND (after->>'keys_ended')::boolean = $1`, !stay); n != 1 {
			t.Errorf("%v: %d audit rows", stay, n)
		}
	}
}
