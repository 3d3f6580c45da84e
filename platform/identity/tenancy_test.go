package identity_test

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// tenancy is a tenant with an owner and a member, and another tenant that none
// of them may learn of.
type tenancy struct {
	*bundle

	super                *identity.Service // sees all, and needs no audit row
	owner, member, admin identity.Caller
	foreign              foreign
}

type foreign struct {
	tenant  ids.Tenant
	project ids.Project
	owner   identity.Caller
}

func aead(t *testing.T) cipher.AEAD {
	t.Helper()
	block, err := aes.NewCipher(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func newTenancy(t *testing.T) *tenancy {
	t.Helper()
	w := &tenancy{bundle: setup(t)}
	// As the API has it: of its own tenant's rows it sees those, and no others.
	w.super = w.Service
	w.Service = &identity.Service{DB: pgtest.Scoped(t, w.db), Naming: ids.DefaultNaming, Seal: aead(t), Hints: &hint.Bus{}}
	w.admin = identity.Caller{User: w.seed.Admin.ID, Role: "admin", Tenant: w.seed.Tenant, TenantRole: "viewer", CorrelationID: "c"}
	w.owner = identity.Caller{User: w.seed.Dev.ID, Role: "user", Tenant: w.seed.Tenant, TenantRole: "owner", CorrelationID: "c"}
	w.member = w.person(t, "mate@dev.localhost", w.seed.Tenant, "member")

	other, err := w.CreateTenant(in(t.Context(), w.admin), ask[identity.Tenant](w.admin), "other", "USD")
	if err != nil {
		t.Fatal(err)
	}
	w.foreign.tenant = other.ID
	w.foreign.owner = w.person(t, "owner@other.localhost", other.ID, "owner")
	all, err := w.Projects(in(t.Context(), w.foreign.owner), w.foreign.owner)
	if err != nil || len(all) != 1 || all[0].Name != "default" {
		t.Fatalf("a new tenant's projects: %+v, %v", all, err)
	}
	w.foreign.project = all[0].ID
	return w
}

// in returns the scope that the middleware gives a request of c.
func in(ctx context.Context, c identity.Caller) context.Context {
	s := pg.Scope{Tenant: c.Tenant.String(), Principal: c.Principal().String()}
	if c.Role == "admin" {
		s.Tenant = pg.Platform.Tenant
	}
	return pg.WithScope(ctx, s)
}

// ask returns a change of c without an idempotency key.
func ask[T any](c identity.Caller) identity.Change[T] { return identity.Change[T]{Caller: c} }

func (w *tenancy) person(t *testing.T, email string, tenant ids.Tenant, role string) identity.Caller {
	t.Helper()
	u, err := w.CreateUser(in(t.Context(), w.admin), ask[identity.User](w.admin),
		identity.NewUser{Email: email, Name: "Somebody", Role: "user", Tenant: tenant, TenantRole: role})
	if err != nil {
		t.Fatal(err)
	}
	return identity.Caller{User: u.ID, Role: "user", Tenant: tenant, TenantRole: role, Email: u.Email}
}

func (w *tenancy) project(t *testing.T, name string) identity.Project {
	t.Helper()
	p, err := w.CreateProject(in(t.Context(), w.owner), ask[identity.Project](w.owner), name, "")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (w *tenancy) account(t *testing.T, name string) identity.ServiceAccount {
	t.Helper()
	a, err := w.CreateServiceAccount(in(t.Context(), w.owner), ask[identity.ServiceAccount](w.owner), w.seed.Project,
		identity.NewServiceAccount{Name: name, Scopes: policies.ScopeNames()[:1]})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (w *tenancy) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := w.db.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (w *tenancy) close(t *testing.T, c identity.Caller, id ids.Project, version int64) error {
	t.Helper()
	p, err := w.ProjectByID(in(t.Context(), c), c, id)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	if err := w.QueueCloseProject(b, ask[struct{}](c), p, version); err != nil {
		return err
	}
	return pg.Commit(in(t.Context(), c), w.DB, b, func() {})
}

// Each change writes one audit row, and a change that removes a right sends a hint.
func TestINV57EveryChangeHasOneAuditRow(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	ctx, scopes := t.Context(), policies.ScopeNames()[:2]
	var (
		project    identity.Project
		invitation identity.Invitation
		account    identity.ServiceAccount
		credential identity.Credential
		key        identity.APIKey
		user       identity.User
		ssh        identity.SSHKey
	)
	session, _, err := w.super.StartSession(ctx, identity.NewSession{User: w.member.User, Kind: "browser", Issuer: "local"})
	if err != nil {
		t.Fatal(err)
	}
	caller, err := w.super.Authenticate(ctx, session)
	if err != nil {
		t.Fatal(err)
	}
	live, err := w.Sessions(in(ctx, caller), caller, ids.Session{}, 5)
	if err != nil || len(live) != 1 || live[0].User != w.member.User {
		t.Fatalf("sessions %+v, %v", live, err)
	}
	line, _ := ed(t)
	hints, stop := w.Hints.Listen(identity.Topic)
	defer stop()

	for _, c := range []struct {
		action string
		hinted bool
		do     func() error
	}{
		{"tenant.create", false, func() (err error) {
			_, err = w.CreateTenant(in(ctx, w.admin), ask[identity.Tenant](w.admin), "third", "EUR")
			return err
		}},
		{"tenant.update", false, func() (err error) {
			_, err = w.UpdateTenant(in(ctx, w.owner), ask[identity.Tenant](w.owner), 1, "renamed")
			return err
		}},
		{"tenant.member.put", true, func() (err error) {
			_, err = w.PutTenantMember(in(ctx, w.owner), ask[identity.Member](w.owner), w.member.User, "billing")
			return err
		}},
		{"invitation.create", false, func() (err error) {
			invitation, err = w.Invite(in(ctx, w.owner), ask[identity.Invitation](w.owner), "New@Dev.localhost", "member")
			return err
		}},
		{"invitation.revoke", false, func() error { return w.RevokeInvitation(in(ctx, w.owner), ask[struct{}](w.owner), invitation.ID) }},
		{"project.create", false, func() (err error) {
			project, err = w.CreateProject(in(ctx, w.owner), ask[identity.Project](w.owner), "bench", " for tests ")
			return err
		}},
		{"project.update", true, func() (err error) {
			project, err = w.UpdateProject(in(ctx, w.owner), ask[identity.Project](w.owner), project.ID, 1, identity.ProjectPatch{Name: new("bench2")})
			return err
		}},
		{"project.member.put", true, func() (err error) {
			_, err = w.PutProjectMember(in(ctx, w.owner), ask[identity.Member](w.owner), project.ID, w.member.User, "member")
			return err
		}},
		{"project.member.remove", true, func() error {
			return w.RemoveProjectMember(in(ctx, w.owner), ask[struct{}](w.owner), project.ID, w.member.User)
		}},
		{"service_account.create", false, func() (err error) {
			account, err = w.CreateServiceAccount(in(ctx, w.owner), ask[identity.ServiceAccount](w.owner), project.ID,
				identity.NewServiceAccount{Name: "robot", Scopes: scopes})
			return err
		}},
		{"service_account.update", true, func() (err error) {
			account, err = w.UpdateServiceAccount(in(ctx, w.owner), ask[identity.ServiceAccount](w.owner), account.ID, 1,
				identity.ServiceAccountPatch{Scopes: new(scopes[:1])})
			return err
		}},
		{"credential.create", false, func() (err error) {
			credential, err = w.CreateCredential(in(ctx, w.owner), ask[identity.Credential](w.owner), account.ID, time.Hour)
			return err
		}},
		{"credential.revoke", true, func() error {
			return w.RevokeCredential(in(ctx, w.owner), ask[struct{}](w.owner), account.ID, credential.ID)
		}},
		{"service_account.delete", true, func() error {
			return w.DeleteServiceAccount(in(ctx, w.owner), ask[struct{}](w.owner), account.ID, account.Version)
		}},
		{"project.delete", false, func() error { return w.close(t, w.owner, project.ID, project.Version) }},
		{"api_key.create", false, func() (err error) {
			key, err = w.CreateAPIKey(in(ctx, w.member), ask[identity.APIKey](w.member), identity.NewAPIKey{Name: "ci", Scopes: scopes, TTL: time.Hour})
			return err
		}},
		{"api_key.revoke", true, func() error { return w.RevokeAPIKey(in(ctx, w.member), ask[struct{}](w.member), key.ID) }},
		{"session.end", true, func() error { return w.EndSessionByID(in(ctx, w.member), ask[struct{}](w.member), live[0].ID, false) }},
		{"ssh_key.create", false, func() (err error) {
			ssh, err = w.AddSSHKey(in(ctx, w.member), ask[identity.SSHKey](w.member), "laptop", line)
			return err
		}},
		{"ssh_key.delete", false, func() error { return w.DeleteSSHKey(in(ctx, w.member), ask[struct{}](w.member), ssh.ID) }},
		{"user.create", false, func() (err error) {
			user, err = w.CreateUser(in(ctx, w.admin), ask[identity.User](w.admin), identity.NewUser{Email: "x@x.localhost", Name: "X", Role: "operator"})
			return err
		}},
		{"user.update", true, func() (err error) {
			user, err = w.UpdateUser(in(ctx, w.admin), ask[identity.User](w.admin), user.ID, 1, identity.UserPatch{Disabled: new(true)})
			return err
		}},
		{"tenant.member.remove", true, func() error {
			return w.RemoveTenantMember(in(ctx, w.owner), ask[struct{}](w.owner), w.member.User)
		}},
	} {
		const mine, all = `SELECT count(*) FROM audit_logs WHERE action = $1 AND target_urn LIKE 'core42:aicloud:%'`, `SELECT count(*) FROM audit_logs`
		before, whole := w.count(t, mine, c.action), w.count(t, all)
		if err := c.do(); err != nil {
			t.Fatalf("%s: %v", c.action, err)
		}
		if got, total := w.count(t, mine, c.action)-before, w.count(t, all)-whole; got != 1 || total != 1 {
			t.Errorf("%s: %d rows of it, %d in all", c.action, got, total)
		}
		select {
		case <-hints:
			if !c.hinted {
				t.Logf("%s also hints", c.action)
			}
		default:
			if c.hinted {
				t.Errorf("%s removes a right and sends no hint", c.action)
			}
		}
	}
	for _, secret := range []string{key.Secret, credential.Secret} {
		if n := w.count(t, `SELECT count(*) FROM audit_logs a WHERE to_jsonb(a)::text LIKE '%' || $1 || '%'`, secret[4:]); n != 0 {
			t.Errorf("a secret is in %d audit rows", n)
		}
	}
	if got := w.count(t, `SELECT count(*) FROM audit_logs WHERE action = 'user.update' AND before = '{"disabled": false}' AND after = '{"disabled": true}'`); got != 1 {
		t.Errorf("the change of a user is noted %d times as what changed", got)
	}
}

func TestWhatIsThereAlreadyIsNoChange(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	ctx := t.Context()
	p, a := w.project(t, "bench"), w.account(t, "robot")
	if _, err := w.PutProjectMember(in(ctx, w.owner), ask[identity.Member](w.owner), p.ID, w.member.User, "viewer"); err != nil {
		t.Fatal(err)
	}
	diff := pgtest.Diff(t, w.db)
	for name, do := range map[string]func() error{
		"tenant": func() error {
			_, err := w.UpdateTenant(in(ctx, w.owner), ask[identity.Tenant](w.owner), 0, "dev")
			return err
		},
		"role": func() error {
			m, err := w.PutTenantMember(in(ctx, w.owner), ask[identity.Member](w.owner), w.member.User, "member")
			return cmp.Or(err, wantMember(m, w.member.User, "member"))
		},
		"role in a project": func() error {
			m, err := w.PutProjectMember(in(ctx, w.owner), ask[identity.Member](w.owner), p.ID, w.member.User, "viewer")
			return cmp.Or(err, wantMember(m, w.member.User, "viewer"))
		},
		"project": func() error {
			_, err := w.UpdateProject(in(ctx, w.owner), ask[identity.Project](w.owner), p.ID, 1, identity.ProjectPatch{Name: new("bench")})
			return err
		},
		"service account": func() error {
			_, err := w.UpdateServiceAccount(in(ctx, w.owner), ask[identity.ServiceAccount](w.owner), a.ID, 1, identity.ServiceAccountPatch{Scopes: &a.Scopes, Disabled: new(false)})
			return err
		},
		"user": func() error {
			_, err := w.UpdateUser(in(ctx, w.admin), ask[identity.User](w.admin), w.member.User, 1, identity.UserPatch{Role: new("user")})
			return err
		},
	} {
		if err := do(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := diff(); got != "" {
		t.Errorf("changed:\n%s", got)
	}
}

func wantMember(m identity.Member, user ids.User, role string) error {
	if m.User != user || m.Role != role || m.Email == "" {
		return errs.New(errs.Internal, "got %+v", m)
	}
	return nil
}

// Other tenants' ids answer as unknown ones do, and a version that has passed
// changes nothing.
func TestRejectedChanges(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	ctx := t.Context()
	p, a := w.project(t, "bench"), w.account(t, "robot")
	theirs, err := w.CreateServiceAccount(in(ctx, w.foreign.owner), ask[identity.ServiceAccount](w.foreign.owner), w.foreign.project,
		identity.NewServiceAccount{Name: "robot", Scopes: policies.ScopeNames()[:1]})
	if err != nil {
		t.Fatal(err)
	}
	invited, err := w.Invite(in(ctx, w.foreign.owner), ask[identity.Invitation](w.foreign.owner), "they@there.localhost", "member")
	if err != nil {
		t.Fatal(err)
	}
	loner, err := w.CreateUser(in(ctx, w.admin), ask[identity.User](w.admin), identity.NewUser{Email: "loner@x.localhost", Name: "L", Role: "user"})
	if err != nil {
		t.Fatal(err)
	}
	w.exec(t, `UPDATE users SET role_from = 'provider' WHERE id = $1`, w.member.User)
	key, err := w.CreateAPIKey(in(ctx, w.owner), ask[identity.APIKey](w.owner), identity.NewAPIKey{Name: "ci"})
	if err != nil {
		t.Fatal(err)
	}
	limited := w.owner
	limited.Limited = true
	limited.Scopes, _ = policies.ParseScopes(policies.ScopeNames()[:1])
	robot := identity.Caller{ServiceAccount: a.ID, Tenant: w.seed.Tenant, Project: w.seed.Project}

	tenantRole := func(c identity.Caller, user ids.User, role string) func() error {
		return func() error { _, err := w.PutTenantMember(in(ctx, c), ask[identity.Member](c), user, role); return err }
	}
	projectRole := func(c identity.Caller, project ids.Project, user ids.User, role string) func() error {
		return func() error {
			_, err := w.PutProjectMember(in(ctx, c), ask[identity.Member](c), project, user, role)
			return err
		}
	}
	patch := func(c identity.Caller, id ids.Project, version int64, patch identity.ProjectPatch) func() error {
		return func() error {
			_, err := w.UpdateProject(in(ctx, c), ask[identity.Project](c), id, version, patch)
			return err
		}
	}
	account := func(c identity.Caller, project ids.Project, name string, scopes ...string) func() error {
		return func() error {
			_, err := w.CreateServiceAccount(in(ctx, c), ask[identity.ServiceAccount](c), project, identity.NewServiceAccount{Name: name, Scopes: scopes})
			return err
		}
	}
	alter := func(c identity.Caller, id ids.ServiceAccount, version int64, patch identity.ServiceAccountPatch) func() error {
		return func() error {
			_, err := w.UpdateServiceAccount(in(ctx, c), ask[identity.ServiceAccount](c), id, version, patch)
			return err
		}
	}
	user := func(n identity.NewUser) func() error {
		return func() error { _, err := w.CreateUser(in(ctx, w.admin), ask[identity.User](w.admin), n); return err }
	}
	edit := func(c identity.Caller, id ids.User, version int64, patch identity.UserPatch) func() error {
		return func() error {
			_, err := w.UpdateUser(in(ctx, c), ask[identity.User](c), id, version, patch)
			return err
		}
	}
	apiKey := func(c identity.Caller, n identity.NewAPIKey) func() error {
		return func() error { _, err := w.CreateAPIKey(in(ctx, c), ask[identity.APIKey](c), n); return err }
	}
	invite := func(email, role string) func() error {
		return func() error {
			_, err := w.Invite(in(ctx, w.owner), ask[identity.Invitation](w.owner), email, role)
			return err
		}
	}
	scope := policies.ScopeNames()

	diff := pgtest.Diff(t, w.db)
	for name, c := range map[string]struct {
		do    func() error
		code  errs.Code
		field string
	}{
		"tenant's name": {func() error {
			_, err := w.CreateTenant(in(ctx, w.admin), ask[identity.Tenant](w.admin), "A b", "EUR")
			return err
		}, errs.ValidationError, "name"},
		"tenant's currency": {func() error {
			_, err := w.CreateTenant(in(ctx, w.admin), ask[identity.Tenant](w.admin), "ab", "eur")
			return err
		}, errs.ValidationError, "currency"},
		"tenant twice": {func() error {
			_, err := w.CreateTenant(in(ctx, w.admin), ask[identity.Tenant](w.admin), "dev", "EUR")
			return err
		}, errs.AlreadyExists, "name"},
		"tenant renamed to another's name": {func() error {
			_, err := w.UpdateTenant(in(ctx, w.owner), ask[identity.Tenant](w.owner), 0, "other")
			return err
		}, errs.AlreadyExists, "name"},
		"tenant renamed to another's id": {func() error {
			_, err := w.UpdateTenant(in(ctx, w.owner), ask[identity.Tenant](w.owner), 0, w.foreign.owner.Tenant.String())
			return err
		}, errs.ValidationError, "name"},
		"tenant of an old version": {func() error {
			_, err := w.UpdateTenant(in(ctx, w.owner), ask[identity.Tenant](w.owner), 7, "x")
			return err
		}, errs.VersionMismatch, ""},

		"role that is none":       {tenantRole(w.owner, w.member.User, "king"), errs.ValidationError, "role"},
		"another tenant's person": {tenantRole(w.owner, w.foreign.owner.User, "member"), errs.NotFound, ""},
		"the same for an admin":   {tenantRole(w.admin, w.foreign.owner.User, "member"), errs.NotFound, ""},
		"nobody":                  {tenantRole(w.owner, ids.New[ids.User](), "member"), errs.NotFound, ""},
		"a person without tenant": {tenantRole(w.owner, loner.ID, "member"), errs.NotFound, ""},
		"the last owner demoted":  {tenantRole(w.owner, w.owner.User, "member"), errs.Conflict, ""},
		"the last owner removed":  {func() error { return w.RemoveTenantMember(in(ctx, w.admin), ask[struct{}](w.admin), w.owner.User) }, errs.Conflict, ""},
		"another's member removed": {func() error {
			return w.RemoveTenantMember(in(ctx, w.owner), ask[struct{}](w.owner), w.foreign.owner.User)
		}, errs.NotFound, ""},
		"no member removed": {func() error { return w.RemoveTenantMember(in(ctx, w.owner), ask[struct{}](w.owner), loner.ID) }, errs.NotFound, ""},

		"invitation without address":  {invite("nobody", "member"), errs.ValidationError, "email"},
		"invitation with a name":      {invite("N <n@x.localhost>", "member"), errs.ValidationError, "email"},
		"invitation to no role":       {invite("n@x.localhost", "admin"), errs.ValidationError, "role"},
		"invitation of a member":      {invite("MATE@dev.localhost", "owner"), errs.AlreadyExists, "email"},
		"another tenant's invitation": {func() error { return w.RevokeInvitation(in(ctx, w.owner), ask[struct{}](w.owner), invited.ID) }, errs.NotFound, ""},

		"project's name": {func() error {
			_, err := w.CreateProject(in(ctx, w.owner), ask[identity.Project](w.owner), "-x", "")
			return err
		}, errs.ValidationError, "name"},
		"project's name is long": {func() error {
			_, err := w.CreateProject(in(ctx, w.owner), ask[identity.Project](w.owner), strings.Repeat("x", 64), "")
			return err
		}, errs.ValidationError, "name"},
		"project's description": {func() error {
			_, err := w.CreateProject(in(ctx, w.owner), ask[identity.Project](w.owner), "x", "a\x00b")
			return err
		}, errs.ValidationError, "description"},
		"project twice": {func() error {
			_, err := w.CreateProject(in(ctx, w.owner), ask[identity.Project](w.owner), "bench", "")
			return err
		}, errs.AlreadyExists, "name"},
		"project renamed to another's":  {patch(w.owner, p.ID, 0, identity.ProjectPatch{Name: new("default")}), errs.AlreadyExists, "name"},
		"project of an old version":     {patch(w.owner, p.ID, 2, identity.ProjectPatch{Name: new("x")}), errs.VersionMismatch, ""},
		"project of another tenant":     {patch(w.owner, w.foreign.project, 0, identity.ProjectPatch{Name: new("x")}), errs.NotFound, ""},
		"project that one is not in":    {patch(w.member, p.ID, 0, identity.ProjectPatch{Name: new("x")}), errs.Forbidden, ""},
		"project closed by a member":    {func() error { return w.close(t, w.member, p.ID, 0) }, errs.Forbidden, ""},
		"project closed by another":     {func() error { return w.close(t, w.foreign.owner, p.ID, 0) }, errs.NotFound, ""},
		"project closed of old version": {func() error { return w.close(t, w.owner, p.ID, 9) }, errs.VersionMismatch, ""},
		"project role that is none":     {projectRole(w.owner, p.ID, w.member.User, "owner"), errs.ValidationError, "role"},
		"project role of a stranger":    {projectRole(w.owner, p.ID, w.foreign.owner.User, "admin"), errs.NotFound, ""},
		"project role of the homeless":  {projectRole(w.owner, p.ID, loner.ID, "admin"), errs.NotFound, ""},
		"project role by a member":      {projectRole(w.member, p.ID, w.member.User, "admin"), errs.Forbidden, ""},
		"project role elsewhere":        {projectRole(w.owner, w.foreign.project, w.member.User, "admin"), errs.NotFound, ""},
		"no project member removed": {func() error {
			return w.RemoveProjectMember(in(ctx, w.owner), ask[struct{}](w.owner), p.ID, w.member.User)
		}, errs.NotFound, ""},

		"account's name":              {account(w.owner, p.ID, "", scope[0]), errs.ValidationError, "name"},
		"account without scopes":      {account(w.owner, p.ID, "x"), errs.ValidationError, "scopes"},
		"account with made-up scopes": {account(w.owner, p.ID, "x", "all:all"), errs.ValidationError, "scopes"},
		"account twice":               {account(w.owner, w.seed.Project, "robot", scope[0]), errs.AlreadyExists, "name"},
		"account elsewhere":           {account(w.owner, w.foreign.project, "x", scope[0]), errs.NotFound, ""},
		"account by a member":         {account(w.member, p.ID, "x", scope[0]), errs.Forbidden, ""},
		"account beyond one's token":  {account(limited, p.ID, "x", scope[1]), errs.Forbidden, "scopes"},
		"account widened beyond it":   {alter(limited, a.ID, 0, identity.ServiceAccountPatch{Scopes: &scope}), errs.Forbidden, "scopes"},
		"another tenant's account":    {alter(w.owner, theirs.ID, 0, identity.ServiceAccountPatch{Disabled: new(true)}), errs.NotFound, ""},
		"account of an old version":   {alter(w.owner, a.ID, 4, identity.ServiceAccountPatch{Disabled: new(true)}), errs.VersionMismatch, ""},
		"account changed by a member": {alter(w.member, a.ID, 0, identity.ServiceAccountPatch{Disabled: new(true)}), errs.Forbidden, ""},
		"another's account deleted":   {func() error { return w.DeleteServiceAccount(in(ctx, w.owner), ask[struct{}](w.owner), theirs.ID, 0) }, errs.NotFound, ""},
		"another's account's secret": {func() error {
			_, err := w.CreateCredential(in(ctx, w.owner), ask[identity.Credential](w.owner), theirs.ID, 0)
			return err
		}, errs.NotFound, ""},
		"a secret for a moment": {func() error {
			_, err := w.CreateCredential(in(ctx, w.owner), ask[identity.Credential](w.owner), a.ID, 1)
			return err
		}, errs.ValidationError, "ttl_seconds"},
		"no secret revoked": {func() error {
			return w.RevokeCredential(in(ctx, w.owner), ask[struct{}](w.owner), a.ID, ids.New[ids.Credential]())
		}, errs.NotFound, ""},
		"API key's name":             {apiKey(w.owner, identity.NewAPIKey{Name: " "}), errs.ValidationError, "name"},
		"API key twice":              {apiKey(w.owner, identity.NewAPIKey{Name: "ci"}), errs.AlreadyExists, "name"},
		"API key's scopes":           {apiKey(w.owner, identity.NewAPIKey{Name: "x", Scopes: []string{"x"}}), errs.ValidationError, "scopes"},
		"API key's end":              {apiKey(w.owner, identity.NewAPIKey{Name: "x", TTL: -1}), errs.ValidationError, "ttl_seconds"},
		"API key beyond one's token": {apiKey(limited, identity.NewAPIKey{Name: "x", Scopes: scope[1:2]}), errs.Forbidden, "scopes"},
		"API key without bounds":     {apiKey(limited, identity.NewAPIKey{Name: "x"}), errs.Forbidden, "scopes"},
		"API key of a program":       {apiKey(robot, identity.NewAPIKey{Name: "x", Scopes: scope[:1]}), errs.Forbidden, ""},
		"API key of another":         {func() error { return w.RevokeAPIKey(in(ctx, w.member), ask[struct{}](w.member), key.ID) }, errs.NotFound, ""},
		"session of no user": {func() error {
			return w.EndSessionByID(in(ctx, w.admin), ask[struct{}](w.admin), ids.New[ids.Session](), true)
		}, errs.NotFound, ""},
		"user's address":               {user(identity.NewUser{Email: "x", Name: "X", Role: "user"}), errs.ValidationError, "email"},
		"user's name":                  {user(identity.NewUser{Email: "x@x.localhost", Role: "user"}), errs.ValidationError, "name"},
		"user's role":                  {user(identity.NewUser{Email: "x@x.localhost", Name: "X", Role: "root"}), errs.ValidationError, "role"},
		"user's role in a tenant":      {user(identity.NewUser{Email: "x@x.localhost", Name: "X", Role: "user", Tenant: w.seed.Tenant}), errs.ValidationError, "tenant_role"},
		"user's tenant":                {user(identity.NewUser{Email: "x@x.localhost", Name: "X", Role: "user", Tenant: ids.New[ids.Tenant](), TenantRole: "member"}), errs.NotFound, ""},
		"user twice":                   {user(identity.NewUser{Email: "LONER@x.localhost", Name: "X", Role: "user"}), errs.AlreadyExists, "email"},
		"role that the provider gives": {edit(w.admin, w.member.User, 0, identity.UserPatch{Role: new("admin")}), errs.Conflict, "role"},
		"role of one's own":            {edit(w.admin, w.admin.User, 0, identity.UserPatch{Role: new("user")}), errs.Conflict, "role"},
		"disabling oneself":            {edit(w.admin, w.admin.User, 0, identity.UserPatch{Disabled: new(true)}), errs.Conflict, "disabled"},
		"user of an old version":       {edit(w.admin, loner.ID, 5, identity.UserPatch{Disabled: new(true)}), errs.VersionMismatch, ""},
		"unknown user":                 {edit(w.admin, ids.New[ids.User](), 0, identity.UserPatch{Disabled: new(true)}), errs.NotFound, ""},
		"user changed by no admin":     {edit(w.owner, w.seed.Operator.ID, 0, identity.UserPatch{Role: new("admin")}), errs.Forbidden, ""},
		"profile of a program":         {func() error { _, err := w.UpdateMe(in(ctx, robot), ask[identity.User](robot), 0, "x"); return err }, errs.Forbidden, ""},
	} {
		err := c.do()
		wantCode(t, name, err, c.code)
		if e, ok := errors.AsType[*errs.Error](err); ok && e.Field != c.field {
			t.Errorf("%s: at %q, want %q", name, e.Field, c.field)
		}
	}
	if got := diff(); got != "" {
		t.Errorf("changed:\n%s", got)
	}
}

func TestListsGoOnWhereTheyEnded(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	ctx := t.Context()
	for _, name := range []string{"a", "b", "c"} {
		p := w.project(t, name)
		w.account(t, name)
		if name == "b" {
			if _, err := w.PutProjectMember(in(ctx, w.owner), ask[identity.Member](w.owner), p.ID, w.member.User, "viewer"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Invite(in(ctx, w.owner), ask[identity.Invitation](w.owner), name+"@x.localhost", "viewer"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.CreateAPIKey(in(ctx, w.owner), ask[identity.APIKey](w.owner), identity.NewAPIKey{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, got []string, err error, wanted ...string) {
		t.Helper()
		if err != nil || !slices.Equal(got, wanted) {
			t.Errorf("%s: got %v, want %v (%v)", what, got, wanted, err)
		}
	}
	tenants, err := w.Tenants(in(ctx, w.admin), "dev", 5)
	want("tenants", names(tenants, func(t identity.Tenant) string { return t.Name }), err, "other")
	name := func(p identity.Project) string { return p.Name + ":" + p.Role }
	page, err := w.ProjectPage(in(ctx, w.owner), w.owner, "a", 2)
	want("an owner's projects", names(page, name), err, "b:admin", "c:admin")
	page, err = w.ProjectPage(in(ctx, w.member), w.member, "", 5)
	want("a member's projects", names(page, name), err, "b:viewer")
	robot := identity.Caller{ServiceAccount: ids.New[ids.ServiceAccount](), Tenant: w.seed.Tenant, Project: w.seed.Project, ProjectRole: "member"}
	page, err = w.ProjectPage(in(ctx, robot), robot, "", 5)
	want("a program's projects", names(page, name), err, "default:member")
	operator := identity.Caller{User: w.seed.Operator.ID, Role: "operator", Tenant: w.seed.Tenant}
	page, err = w.ProjectPage(in(ctx, operator), operator, "c", 5)
	want("an operator's projects", names(page, name), err, "default:viewer", "lab:")
	accounts, err := w.ServiceAccounts(in(ctx, w.owner), w.owner, w.seed.Project, "a", 1)
	want("accounts", names(accounts, func(a identity.ServiceAccount) string { return a.Name }), err, "b")
	boss := w.foreign.owner
	w.person(t, "a@other.localhost", boss.Tenant, "viewer")
	w.person(t, "b@other.localhost", boss.Tenant, "member")
	w.person(t, "c@other.localhost", boss.Tenant, "member")
	members, err := w.TenantMembers(in(ctx, boss), boss, boss.User, 2)
	want("members", names(members, func(m identity.Member) string { return m.Email + " " + m.Role }), err, "a@other.localhost viewer", "b@other.localhost member")
	invited, err := w.Invitations(in(ctx, w.owner), w.owner, ids.Invitation{}, 2)
	want("invitations", names(invited, func(i identity.Invitation) string { return i.Email }), err, "a@x.localhost", "b@x.localhost")
	keys, err := w.APIKeys(in(ctx, w.owner), w.owner, ids.APIKey{}, 9)
	want("keys", names(keys, func(k identity.APIKey) string { return k.Name + k.Secret }), err, identity.DevelopmentKey, "a", "b", "c")
	users, err := w.Users(in(ctx, w.admin), identity.UserFilter{Text: "OTHER.local", Role: "user", Tenant: boss.Tenant, After: boss.User, Limit: 2})
	want("users", names(users, func(u identity.User) string { return u.Email + " " + u.TenantName + " " + u.TenantRole }), err,
		"a@other.localhost other viewer", "b@other.localhost other member")
	_, err = w.ProjectMembers(in(ctx, w.member), w.member, w.seed.Project, ids.User{}, 5)
	wantCode(t, "members of a project that one is not in", err, errs.Forbidden)
	_, err = w.ProjectMembers(in(ctx, w.owner), w.owner, w.foreign.project, ids.User{}, 5)
	wantCode(t, "members of another tenant's project", err, errs.NotFound)
}

func names[T any](all []T, of func(T) string) (list []string) {
	for _, v := range all {
		list = append(list, of(v))
	}
	return list
}
