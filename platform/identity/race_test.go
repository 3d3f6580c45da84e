package identity_test

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
)

func TestATenantKeepsAnOwner(t *testing.T) {
	t.Parallel()
	w := identitytest.NewTenancy(t)
	other := w.Person(t, "second@dev.localhost", w.Seed.Tenant, "owner")
	pair := []identity.Caller{w.Owner, other}
	for round := range 20 {
		codes := identitytest.Together(4, func(i int) error {
			whom := pair[i%2].User // each demotes the other, or leaves
			if i < 2 {
				_, err := w.PutTenantMember(identitytest.In(t.Context(), pair[1-i%2]), identitytest.Change[identity.Member](pair[1-i%2]), whom, "member")
				return err
			}
			_, err := w.PutTenantMember(identitytest.In(t.Context(), pair[i%2]), identitytest.Change[identity.Member](pair[i%2]), whom, "viewer")
			return err
		})
		if n := w.Count(t, `SELECT count(*) FROM tenant_memberships WHERE org_id = $1 AND role = 'owner'`, w.Seed.Tenant); n != 1 {
			t.Fatalf("round %d: %d owners are left (%v)", round, n, codes)
		}
		if codes[""]+codes[errs.Conflict] != 4 {
			t.Errorf("round %d: %v", round, codes)
		}
		w.Exec(t, `UPDATE tenant_memberships SET role = 'owner' WHERE user_id IN ($1, $2)`, w.Owner.User, other.User)
	}
	// One who cannot sign in is no owner to rely on.
	if _, err := w.UpdateUser(identitytest.In(t.Context(), w.Admin), identitytest.Change[identity.User](w.Admin), other.User, 0, identity.UserPatch{Disabled: new(true)}); err != nil {
		t.Fatal(err)
	}
	identitytest.WantCode(t, "next to a disabled one", w.RemoveTenantMember(identitytest.In(t.Context(), w.Admin), identitytest.Change[struct{}](w.Admin), w.Owner.User), errs.Conflict)
}

func TestThePlatformKeepsAnAdministrator(t *testing.T) {
	t.Parallel()
	w := identitytest.NewTenancy(t)
	other := w.Person(t, "second@dev.localhost", w.Seed.Tenant, "viewer")
	other.Role = "admin"
	for range 20 {
		w.Exec(t, `UPDATE users SET role = 'admin' WHERE id IN ($1, $2)`, w.Admin.User, other.User)
		pair := []identity.Caller{w.Admin, other}
		codes := identitytest.Together(2, func(i int) error {
			_, err := w.UpdateUser(identitytest.In(t.Context(), pair[i]), identitytest.Change[identity.User](pair[i]), pair[1-i].User, 0, identity.UserPatch{Role: new("user")})
			return err
		})
		if n := w.Count(t, `SELECT count(*) FROM users WHERE role = 'admin'`); n != 1 || codes[""] != 1 || codes[errs.Forbidden] != 1 {
			t.Fatalf("%d administrators are left (%v)", n, codes)
		}
	}
}

func TestOneNameIsTakenOnce(t *testing.T) {
	t.Parallel()
	w := identitytest.NewTenancy(t)
	ctx := t.Context()
	p := w.Project(t, "renamed")
	for name, do := range map[string]func() error{
		"tenant": func() error {
			_, err := w.CreateTenant(identitytest.In(ctx, w.Admin), identitytest.Change[identity.Tenant](w.Admin), "one", "EUR")
			return err
		},
		"project": func() error {
			_, err := w.CreateProject(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Project](w.Owner), "one", "")
			return err
		},
		"service account": func() error {
			_, err := w.Keys.CreateServiceAccount(identitytest.In(ctx, w.Owner), identitytest.Change[keys.ServiceAccount](w.Owner), p.ID, keys.NewServiceAccount{Name: "one", Scopes: []string{"allocations:read"}})
			return err
		},
		"key": func() error {
			_, err := w.Keys.CreateAPIKey(identitytest.In(ctx, w.Owner), identitytest.Change[keys.APIKey](w.Owner), keys.NewAPIKey{Name: "one"})
			return err
		},
		"invitation": func() error {
			_, err := w.Invite(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Invitation](w.Owner), "one@x.localhost", "member")
			return err
		},
		"user": func() error {
			_, err := w.CreateUser(identitytest.In(ctx, w.Admin), identitytest.Change[identity.User](w.Admin), identity.NewUser{Email: "one@x.localhost", Name: "One", Role: "user"})
			return err
		},
	} {
		if codes := identitytest.Together(8, func(int) error { return do() }); codes[""] != 1 || codes[errs.AlreadyExists] != 7 {
			t.Errorf("%s: %v", name, codes)
		}
	}
	// A rename races with a creation and with an equal one.
	codes := identitytest.Together(8, func(i int) error {
		if i%2 == 0 {
			_, err := w.CreateProject(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Project](w.Owner), "two", "")
			return err
		}
		_, err := w.UpdateProject(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Project](w.Owner), p.ID, 0, identity.ProjectPatch{Name: new("two")})
		return err
	})
	if n := w.Count(t, `SELECT count(*) FROM projects WHERE name = 'two'`); n != 1 || codes[errs.Internal] != 0 {
		t.Errorf("%d projects of one name (%v)", n, codes)
	}
}

func TestINV06OneKeyOneChange(t *testing.T) {
	t.Parallel()
	w := identitytest.NewTenancy(t)
	k := func(route string) identity.Key {
		k := w.Key("once", "body")
		k.Route = route
		return k
	}
	projects := identity.Change[identity.Project]{Caller: w.Owner, Key: k("/projects"), Answer: func(p identity.Project) identity.Reply {
		return identity.Reply{Status: 201, Location: "/projects/" + p.ID.String(), ETag: `"1"`, Body: []byte(p.Name)}
	}}
	apiKeys := identity.Change[keys.APIKey]{Caller: w.Owner, Key: k("/api-keys"), Answer: func(k keys.APIKey) identity.Reply {
		return identity.Reply{Status: 201, Body: []byte(k.Secret), Secret: true}
	}}
	for name, c := range map[string]struct {
		key   identity.Key
		rows  string
		again func() error
	}{
		"project": {projects.Key, `SELECT count(*) FROM projects WHERE name = 'once'`, func() error {
			_, err := w.CreateProject(identitytest.In(t.Context(), w.Owner), projects, "once", "")
			return err
		}},
		"API key": {apiKeys.Key, `SELECT count(*) FROM api_keys WHERE name = 'once'`, func() error {
			_, err := w.Keys.CreateAPIKey(identitytest.In(t.Context(), w.Owner), apiKeys, keys.NewAPIKey{Name: "once"})
			return err
		}},
	} {
		codes := identitytest.Together(100, func(int) error {
			err := c.again()
			if err == nil {
				return nil
			}
			// The middleware does the same: the first response stays, whatever error this attempt has
			// met.
			switch _, found, lost := w.Replay(identitytest.In(t.Context(), w.Admin), c.key); {
			case lost != nil:
				return lost
			case found:
				return errs.New(errs.Conflict, "replayed")
			}
			return err
		})
		if n := w.Count(t, c.rows); n != 1 || codes[""] != 1 || codes[errs.Conflict]+codes[errs.IdempotencyInFlight] != 99 {
			t.Errorf("%s: %d effects (%v)", name, n, codes)
		}
		if n := w.Count(t, `SELECT count(*) FROM audit_logs WHERE after->>'name' = 'once' AND action = $1`, map[string]string{"project": "project.create", "API key": "api_key.create"}[name]); n != 1 {
			t.Errorf("%s: %d audit rows", name, n)
		}
	}
}

// A member who leaves the tenant while a project adds them is in no project afterwards.
func TestWhoLeavesTheTenantIsInNoProject(t *testing.T) {
	t.Parallel()
	w := identitytest.NewTenancy(t)
	for range 10 {
		codes := identitytest.Together(2, func(i int) error {
			if i == 0 {
				return w.RemoveTenantMember(identitytest.In(t.Context(), w.Owner), identitytest.Change[struct{}](w.Owner), w.Member.User)
			}
			_, err := w.PutProjectMember(identitytest.In(t.Context(), w.Owner), identitytest.Change[identity.Member](w.Owner), w.Seed.Project, w.Member.User, "admin")
			return err
		})
		if n := w.Count(t, `SELECT count(*) FROM project_memberships WHERE user_id = $1`, w.Member.User); n != 0 || codes[errs.Internal] != 0 {
			t.Fatalf("in %d projects (%v)", n, codes)
		}
		if _, err := w.PutTenantMember(identitytest.In(t.Context(), w.Admin), identitytest.Change[identity.Member](w.Admin), w.Member.User, "member"); err != nil {
			t.Fatal(err)
		}
	}
}

// The name of what has ended is free, and what hung on it works no more.
func TestWhatEndsTakesItsRightsAlong(t *testing.T) {
	t.Parallel()
	w := identitytest.NewTenancy(t)
	ctx := t.Context()
	p := w.Project(t, "bench")
	a, err := w.Keys.CreateServiceAccount(identitytest.In(ctx, w.Owner), identitytest.Change[keys.ServiceAccount](w.Owner), p.ID, keys.NewServiceAccount{Name: "robot", Scopes: []string{"allocations:read"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t, w.Owner, p.ID, 1); err != nil {
		t.Fatal(err)
	}
	_, err = w.ProjectByID(identitytest.In(ctx, w.Owner), w.Owner, p.ID)
	identitytest.WantCode(t, "a closed project", err, errs.NotFound)
	identitytest.WantCode(t, "closing it again", w.Close(t, w.Owner, p.ID, 0), errs.NotFound)
	_, err = w.Keys.ServiceAccountByID(identitytest.In(ctx, w.Owner), w.Owner, a.ID)
	identitytest.WantCode(t, "an account of it", err, errs.NotFound)
	if n := w.Count(t, `SELECT count(*) FROM service_accounts WHERE id = $1 AND disabled_at IS NOT NULL`, a.ID); n != 1 {
		t.Error("its account may go on")
	}
	w.Project(t, "bench")

	session := w.Session(t, w.Member.User)
	if _, err := w.Fresh().Authenticate(ctx, session); err != nil {
		t.Fatal(err)
	}
	made, err := w.Keys.CreateAPIKey(identitytest.In(ctx, w.Member), identitytest.Change[keys.APIKey](w.Member), keys.NewAPIKey{Name: "ci"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.UpdateUser(identitytest.In(ctx, w.Admin), identitytest.Change[identity.User](w.Admin), w.Member.User, 1, identity.UserPatch{Disabled: new(true)}); err != nil {
		t.Fatal(err)
	}
	for what, token := range map[string]string{"session": session, "key": made.Secret} {
		_, err := w.Fresh().Authenticate(ctx, token)
		identitytest.WantCode(t, "a disabled person's "+what, err, errs.TokenInvalid)
	}
	if _, err := w.UpdateUser(identitytest.In(ctx, w.Admin), identitytest.Change[identity.User](w.Admin), w.Member.User, 2, identity.UserPatch{Disabled: new(false)}); err != nil {
		t.Fatal(err)
	}
	_, err = w.Fresh().Authenticate(ctx, session)
	identitytest.WantCode(t, "the session after all", err, errs.TokenInvalid)
	if _, err := w.Fresh().Authenticate(ctx, made.Secret); err != nil {
		t.Errorf("the key after all: %v", err)
	}
	identitytest.WantCode(t, "another's session", w.SignIn.EndSessionByID(identitytest.In(ctx, w.Owner), identitytest.Change[struct{}](w.Owner), ids.New[ids.Session](), false), errs.NotFound)
}

// An invitation that was not accepted does not reserve the address.
func TestAnExpiredInvitationFreesTheAddress(t *testing.T) {
	t.Parallel()
	w := identitytest.NewTenancy(t)
	invite := func() (identity.Invitation, error) {
		return w.Invite(identitytest.In(t.Context(), w.Owner), identitytest.Change[identity.Invitation](w.Owner), "new@x.localhost", "member")
	}
	first, err := invite()
	if err != nil || first.ExpiresAt.Sub(first.CreatedAt) != 7*24*time.Hour {
		t.Fatalf("%+v, %v", first, err)
	}
	_, err = invite()
	identitytest.WantCode(t, "while it is open", err, errs.AlreadyExists)
	w.Exec(t, `UPDATE invitations SET expires_at = now()`)
	if list, err := w.Invitations(identitytest.In(t.Context(), w.Owner), w.Owner, ids.Invitation{}, 5); err != nil || len(list) != 0 {
		t.Errorf("listed %+v, %v", list, err)
	}
	second, err := invite()
	if err != nil || second.ID == first.ID {
		t.Errorf("after it has expired: %+v, %v", second, err)
	}
	identitytest.WantCode(t, "revoking the first", w.RevokeInvitation(identitytest.In(t.Context(), w.Owner), identitytest.Change[struct{}](w.Owner), first.ID), errs.NotFound)
}
