package identity_test

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// together runs do n times at once and counts what they came to.
func together(n int, do func(i int) error) map[errs.Code]int {
	var wg sync.WaitGroup
	var mu sync.Mutex
	start, codes := make(chan struct{}), map[errs.Code]int{}
	for i := range n {
		wg.Go(func() {
			<-start
			err := do(i)
			mu.Lock()
			defer mu.Unlock()
			codes[errs.CodeOf(err)]++
		})
	}
	close(start)
	wg.Wait()
	return codes
}

func TestATenantKeepsAnOwner(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	other := w.person(t, "second@dev.localhost", w.seed.Tenant, "owner")
	pair := []identity.Caller{w.owner, other}
	for round := range 20 {
		codes := together(4, func(i int) error {
			whom := pair[i%2].User // each demotes the other, or leaves
			if i < 2 {
				_, err := w.PutTenantMember(in(t.Context(), pair[1-i%2]), ask[identity.Member](pair[1-i%2]), whom, "member")
				return err
			}
			_, err := w.PutTenantMember(in(t.Context(), pair[i%2]), ask[identity.Member](pair[i%2]), whom, "viewer")
			return err
		})
		if n := w.count(t, `SELECT count(*) FROM tenant_memberships WHERE org_id = $1 AND role = 'owner'`, w.seed.Tenant); n != 1 {
			t.Fatalf("round %d: %d owners are left (%v)", round, n, codes)
		}
		if codes[""]+codes[errs.Conflict] != 4 {
			t.Errorf("round %d: %v", round, codes)
		}
		w.exec(t, `UPDATE tenant_memberships SET role = 'owner' WHERE user_id IN ($1, $2)`, w.owner.User, other.User)
	}
	// One who cannot sign in is no owner to rely on.
	if _, err := w.UpdateUser(in(t.Context(), w.admin), ask[identity.User](w.admin), other.User, 0, identity.UserPatch{Disabled: new(true)}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "next to a disabled one", w.RemoveTenantMember(in(t.Context(), w.admin), ask[struct{}](w.admin), w.owner.User), errs.Conflict)
}

func TestThePlatformKeepsAnAdministrator(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	other := w.person(t, "second@dev.localhost", w.seed.Tenant, "viewer")
	other.Role = "admin"
	for range 20 {
		w.exec(t, `UPDATE users SET role = 'admin' WHERE id IN ($1, $2)`, w.admin.User, other.User)
		pair := []identity.Caller{w.admin, other}
		codes := together(2, func(i int) error {
			_, err := w.UpdateUser(in(t.Context(), pair[i]), ask[identity.User](pair[i]), pair[1-i].User, 0, identity.UserPatch{Role: new("user")})
			return err
		})
		if n := w.count(t, `SELECT count(*) FROM users WHERE role = 'admin'`); n != 1 || codes[""] != 1 || codes[errs.Forbidden] != 1 {
			t.Fatalf("%d administrators are left (%v)", n, codes)
		}
	}
}

func TestOneNameIsTakenOnce(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	ctx := t.Context()
	p := w.project(t, "renamed")
	for name, do := range map[string]func() error{
		"tenant": func() error {
			_, err := w.CreateTenant(in(ctx, w.admin), ask[identity.Tenant](w.admin), "one", "EUR")
			return err
		},
		"project": func() error {
			_, err := w.CreateProject(in(ctx, w.owner), ask[identity.Project](w.owner), "one", "")
			return err
		},
		"service account": func() error {
			_, err := w.CreateServiceAccount(in(ctx, w.owner), ask[identity.ServiceAccount](w.owner), p.ID, identity.NewServiceAccount{Name: "one", Scopes: []string{"allocations:read"}})
			return err
		},
		"key": func() error {
			_, err := w.CreateAPIKey(in(ctx, w.owner), ask[identity.APIKey](w.owner), identity.NewAPIKey{Name: "one"})
			return err
		},
		"invitation": func() error {
			_, err := w.Invite(in(ctx, w.owner), ask[identity.Invitation](w.owner), "one@x.localhost", "member")
			return err
		},
		"user": func() error {
			_, err := w.CreateUser(in(ctx, w.admin), ask[identity.User](w.admin), identity.NewUser{Email: "one@x.localhost", Name: "One", Role: "user"})
			return err
		},
	} {
		if codes := together(8, func(int) error { return do() }); codes[""] != 1 || codes[errs.AlreadyExists] != 7 {
			t.Errorf("%s: %v", name, codes)
		}
	}
	// A rename races with a creation and with an equal one.
	codes := together(8, func(i int) error {
		if i%2 == 0 {
			_, err := w.CreateProject(in(ctx, w.owner), ask[identity.Project](w.owner), "two", "")
			return err
		}
		_, err := w.UpdateProject(in(ctx, w.owner), ask[identity.Project](w.owner), p.ID, 0, identity.ProjectPatch{Name: new("two")})
		return err
	})
	if n := w.count(t, `SELECT count(*) FROM projects WHERE name = 'two'`); n != 1 || codes[errs.Internal] != 0 {
		t.Errorf("%d projects of one name (%v)", n, codes)
	}
}

func TestINV06OneKeyOneChange(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	k := func(route string) identity.Key {
		k := key(w.bundle, "once", "body")
		k.Route = route
		return k
	}
	projects := identity.Change[identity.Project]{Caller: w.owner, Key: k("/projects"), Answer: func(p identity.Project) identity.Reply {
		return identity.Reply{Status: 201, Location: "/projects/" + p.ID.String(), ETag: `"1"`, Body: []byte(p.Name)}
	}}
	keys := identity.Change[identity.APIKey]{Caller: w.owner, Key: k("/api-keys"), Answer: func(k identity.APIKey) identity.Reply {
		return identity.Reply{Status: 201, Body: []byte(k.Secret), Secret: true}
	}}
	for name, c := range map[string]struct {
		key   identity.Key
		rows  string
		again func() error
	}{
		"project": {projects.Key, `SELECT count(*) FROM projects WHERE name = 'once'`, func() error {
			_, err := w.CreateProject(in(t.Context(), w.owner), projects, "once", "")
			return err
		}},
		"API key": {keys.Key, `SELECT count(*) FROM api_keys WHERE name = 'once'`, func() error {
			_, err := w.CreateAPIKey(in(t.Context(), w.owner), keys, identity.NewAPIKey{Name: "once"})
			return err
		}},
	} {
		codes := together(100, func(int) error {
			err := c.again()
			if err == nil {
				return nil
			}
			// The middleware does the same: the first response stays, whatever error this attempt has
			// met.
			switch _, found, lost := w.Replay(in(t.Context(), w.admin), c.key); {
			case lost != nil:
				return lost
			case found:
				return errs.New(errs.Conflict, "replayed")
			}
			return err
		})
		if n := w.count(t, c.rows); n != 1 || codes[""] != 1 || codes[errs.Conflict]+codes[errs.IdempotencyInFlight] != 99 {
			t.Errorf("%s: %d effects (%v)", name, n, codes)
		}
		if n := w.count(t, `SELECT count(*) FROM audit_logs WHERE after->>'name' = 'once' AND action = $1`, map[string]string{"project": "project.create", "API key": "api_key.create"}[name]); n != 1 {
			t.Errorf("%s: %d audit rows", name, n)
		}
	}
}

func TestReplayShowsTheSecretThatNoRowHolds(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	a := w.account(t, "robot")
	var shown identity.Credential
	ch := identity.Change[identity.Credential]{Caller: w.owner, Key: key(w.bundle, "secret", "body"), Answer: func(c identity.Credential) identity.Reply {
		shown = c
		text, _ := json.Marshal(map[string]string{"id": c.ID.String(), "secret": c.Secret})
		return identity.Reply{Status: 201, Body: text, Secret: true}
	}}
	made, err := w.CreateCredential(in(t.Context(), w.owner), ch, a.ID, 0)
	if err != nil || made.Secret != shown.Secret || len(made.Secret) != 47 || made.Secret[:4] != "gps_" {
		t.Fatalf("%+v, %v", made, err)
	}
	_, err = w.CreateCredential(in(t.Context(), w.owner), ch, a.ID, 0)
	wantCode(t, "the same again", err, errs.IdempotencyInFlight) // which the middleware answers with the stored response
	first, found, err := w.Replay(in(t.Context(), w.admin), ch.Key)
	var body struct{ Secret string }
	if err != nil || !found || json.Unmarshal(first.Body, &body) != nil || body.Secret != made.Secret {
		t.Errorf("replayed %q, %v", first.Body, err)
	}
	if n := w.count(t, `SELECT count(*) FROM service_account_credentials`); n != 1 {
		t.Errorf("%d credentials", n)
	}
	for _, table := range []string{"idempotency_keys", "service_account_credentials", "audit_logs"} {
		// In text, and in what a bytea's hex form would hide.
		n := w.count(t, `SELECT count(*) FROM `+table+` r
			WHERE to_jsonb(r)::text LIKE '%' || $1 || '%' OR to_jsonb(r)::text LIKE '%' || encode(convert_to($1, 'UTF8'), 'hex') || '%'`, made.Secret[4:])
		if n != 0 {
			t.Errorf("the secret is in %d rows of %s", n, table)
		}
	}
	list, err := w.Credentials(in(t.Context(), w.owner), w.owner, a.ID, ids.Credential{}, 5)
	if err != nil || len(list) != 1 || list[0].Secret != "" || list[0].ID != made.ID {
		t.Errorf("listed %+v, %v", list, err)
	}
}

func TestTwoCredentialsOverlapAtMost(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	a := w.account(t, "robot")
	create := func(int) error {
		_, err := w.CreateCredential(in(t.Context(), w.owner), ask[identity.Credential](w.owner), a.ID, 0)
		return err
	}
	if codes := together(20, create); codes[""] != 2 || codes[errs.Conflict] != 18 {
		t.Errorf("%v", codes)
	}
	all, err := w.Credentials(in(t.Context(), w.owner), w.owner, a.ID, ids.Credential{}, 5)
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	if err := w.RevokeCredential(in(t.Context(), w.owner), ask[struct{}](w.owner), a.ID, all[0].ID); err != nil {
		t.Fatal(err)
	}
	if err := create(0); err != nil {
		t.Errorf("after one was revoked: %v", err)
	}
	wantCode(t, "a third", create(0), errs.Conflict)
	w.exec(t, `UPDATE service_account_credentials SET expires_at = now() WHERE id = $1`, all[1].ID)
	if err := create(0); err != nil {
		t.Errorf("after one has expired: %v", err)
	}
}

// A member who leaves the tenant while a project adds them is in no project afterwards.
func TestWhoLeavesTheTenantIsInNoProject(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	for range 10 {
		codes := together(2, func(i int) error {
			if i == 0 {
				return w.RemoveTenantMember(in(t.Context(), w.owner), ask[struct{}](w.owner), w.member.User)
			}
			_, err := w.PutProjectMember(in(t.Context(), w.owner), ask[identity.Member](w.owner), w.seed.Project, w.member.User, "admin")
			return err
		})
		if n := w.count(t, `SELECT count(*) FROM project_memberships WHERE user_id = $1`, w.member.User); n != 0 || codes[errs.Internal] != 0 {
			t.Fatalf("in %d projects (%v)", n, codes)
		}
		if _, err := w.PutTenantMember(in(t.Context(), w.admin), ask[identity.Member](w.admin), w.member.User, "member"); err != nil {
			t.Fatal(err)
		}
	}
}

// The name of what has ended is free, and what hung on it works no more.
func TestWhatEndsTakesItsRightsAlong(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	ctx := t.Context()
	p := w.project(t, "bench")
	a, err := w.CreateServiceAccount(in(ctx, w.owner), ask[identity.ServiceAccount](w.owner), p.ID, identity.NewServiceAccount{Name: "robot", Scopes: []string{"allocations:read"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.close(t, w.owner, p.ID, 1); err != nil {
		t.Fatal(err)
	}
	_, err = w.ProjectByID(in(ctx, w.owner), w.owner, p.ID)
	wantCode(t, "a closed project", err, errs.NotFound)
	wantCode(t, "closing it again", w.close(t, w.owner, p.ID, 0), errs.NotFound)
	_, err = w.ServiceAccountByID(in(ctx, w.owner), w.owner, a.ID)
	wantCode(t, "an account of it", err, errs.NotFound)
	if n := w.count(t, `SELECT count(*) FROM service_accounts WHERE id = $1 AND disabled_at IS NOT NULL`, a.ID); n != 1 {
		t.Error("its account may go on")
	}
	w.project(t, "bench")

	session, _, err := w.super.StartSession(ctx, identity.NewSession{User: w.member.User, Kind: "browser", Issuer: "local"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.fresh().Authenticate(ctx, session); err != nil {
		t.Fatal(err)
	}
	made, err := w.CreateAPIKey(in(ctx, w.member), ask[identity.APIKey](w.member), identity.NewAPIKey{Name: "ci"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.UpdateUser(in(ctx, w.admin), ask[identity.User](w.admin), w.member.User, 1, identity.UserPatch{Disabled: new(true)}); err != nil {
		t.Fatal(err)
	}
	for what, token := range map[string]string{"session": session, "key": made.Secret} {
		_, err := w.fresh().Authenticate(ctx, token)
		wantCode(t, "a disabled person's "+what, err, errs.TokenInvalid)
	}
	if _, err := w.UpdateUser(in(ctx, w.admin), ask[identity.User](w.admin), w.member.User, 2, identity.UserPatch{Disabled: new(false)}); err != nil {
		t.Fatal(err)
	}
	_, err = w.fresh().Authenticate(ctx, session)
	wantCode(t, "the session after all", err, errs.TokenInvalid)
	if _, err := w.fresh().Authenticate(ctx, made.Secret); err != nil {
		t.Errorf("the key after all: %v", err)
	}
	wantCode(t, "another's session", w.EndSessionByID(in(ctx, w.owner), ask[struct{}](w.owner), ids.New[ids.Session](), false), errs.NotFound)
}

// An invitation that was not accepted does not reserve the address.
func TestAnExpiredInvitationFreesTheAddress(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	invite := func() (identity.Invitation, error) {
		return w.Invite(in(t.Context(), w.owner), ask[identity.Invitation](w.owner), "new@x.localhost", "member")
	}
	first, err := invite()
	if err != nil || first.ExpiresAt.Sub(first.CreatedAt) != 7*24*time.Hour {
		t.Fatalf("%+v, %v", first, err)
	}
	_, err = invite()
	wantCode(t, "while it is open", err, errs.AlreadyExists)
	w.exec(t, `UPDATE invitations SET expires_at = now()`)
	if list, err := w.Invitations(in(t.Context(), w.owner), w.owner, ids.Invitation{}, 5); err != nil || len(list) != 0 {
		t.Errorf("listed %+v, %v", list, err)
	}
	second, err := invite()
	if err != nil || second.ID == first.ID {
		t.Errorf("after it has expired: %+v, %v", second, err)
	}
	wantCode(t, "revoking the first", w.RevokeInvitation(in(t.Context(), w.owner), ask[struct{}](w.owner), first.ID), errs.NotFound)
}
