package identity_test

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/api/asyncapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/devseed"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
	"github.com/gpuaas/gpuaas/platform/identity/revocation"
	"github.com/gpuaas/gpuaas/policies"
)

const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"

// Each change writes one audit row, and a change that removes a right sends a hint.
func TestINV57EveryChangeHasOneAuditRow(t *testing.T) {
	t.Parallel()
	w := identitytest.NewTenancy(t)
	ctx, scopes := t.Context(), policies.ScopeNames()[:2]
	var (
		project    identity.Project
		invitation identity.Invitation
		account    keys.ServiceAccount
		credential keys.Credential
		key        keys.APIKey
		user       identity.User
		ssh        keys.SSHKey
	)
	session := w.Session(t, w.Member.User)
	caller, err := w.Fresh().Authenticate(ctx, session)
	if err != nil {
		t.Fatal(err)
	}
	live, err := w.SignIn.Sessions(identitytest.In(ctx, caller), caller, ids.Session{}, 5)
	if err != nil || len(live) != 1 || live[0].User != w.Member.User {
		t.Fatalf("sessions %+v, %v", live, err)
	}
	alone := w.Person(t, "alone@dev.localhost", ids.Tenant{}, "")
	toAlone := func(by identity.Caller) ids.Invitation { return w.Invitation(t, by, alone.Email) }
	hints, stop := w.Hints.Listen(identity.Topic)
	defer stop()

	for _, c := range []struct {
		action string
		hinted bool
		do     func() error
	}{
		{"tenant.create", false, func() (err error) {
			_, err = w.CreateTenant(identitytest.In(ctx, w.Admin), identitytest.Change[identity.Tenant](w.Admin), "third", "EUR")
			return err
		}},
		{"tenant.update", false, func() (err error) {
			_, err = w.UpdateTenant(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Tenant](w.Owner), 1, "renamed")
			return err
		}},
		{"tenant.member.put", true, func() (err error) {
			_, err = w.PutTenantMember(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Member](w.Owner), w.Member.User, "billing")
			return err
		}},
		{"invitation.create", false, func() (err error) {
			invitation, err = w.Invite(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Invitation](w.Owner), "New@Dev.localhost", "member")
			return err
		}},
		{"invitation.revoke", false, func() error {
			return w.RevokeInvitation(identitytest.In(ctx, w.Owner), identitytest.Change[struct{}](w.Owner), invitation.ID)
		}},
		{"invitation.accept", true, func() error {
			return w.AcceptInvitation(identitytest.In(ctx, alone), identitytest.Change[struct{}](alone), toAlone(w.Owner))
		}},
		{"invitation.decline", false, func() error {
			return w.DeclineInvitation(identitytest.In(ctx, alone), identitytest.Change[struct{}](alone), toAlone(w.Foreign.Owner))
		}},
		{"project.create", false, func() (err error) {
			project, err = w.CreateProject(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Project](w.Owner), "bench", " for tests ")
			return err
		}},
		{"project.update", true, func() (err error) {
			project, err = w.UpdateProject(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Project](w.Owner), project.ID, 1, identity.ProjectPatch{Name: new("bench2")})
			return err
		}},
		{"project.member.put", true, func() (err error) {
			_, err = w.PutProjectMember(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Member](w.Owner), project.ID, w.Member.User, "member")
			return err
		}},
		{"project.member.remove", true, func() error {
			return w.RemoveProjectMember(identitytest.In(ctx, w.Owner), identitytest.Change[struct{}](w.Owner), project.ID, w.Member.User)
		}},
		{"service_account.create", false, func() (err error) {
			account, err = w.Keys.CreateServiceAccount(identitytest.In(ctx, w.Owner), identitytest.Change[keys.ServiceAccount](w.Owner), project.ID,
				keys.NewServiceAccount{Name: "robot", Scopes: scopes})
			return err
		}},
		{"service_account.update", true, func() (err error) {
			account, err = w.Keys.UpdateServiceAccount(identitytest.In(ctx, w.Owner), identitytest.Change[keys.ServiceAccount](w.Owner), account.ID, 1,
				keys.ServiceAccountPatch{Scopes: new(scopes[:1])})
			return err
		}},
		{"credential.create", false, func() (err error) {
			credential, err = w.Keys.CreateCredential(identitytest.In(ctx, w.Owner), identitytest.Change[keys.Credential](w.Owner), account.ID, keys.NewCredential{TTL: time.Hour})
			return err
		}},
		{"credential.revoke", true, func() error {
			return w.Keys.RevokeCredential(identitytest.In(ctx, w.Owner), identitytest.Change[struct{}](w.Owner), account.ID, credential.ID)
		}},
		{"service_account.delete", true, func() error {
			return w.Keys.DeleteServiceAccount(identitytest.In(ctx, w.Owner), identitytest.Change[struct{}](w.Owner), account.ID, account.Version)
		}},
		{"project.delete", false, func() error { return w.Close(t, w.Owner, project.ID, project.Version) }},
		{"api_key.create", false, func() (err error) {
			key, err = w.Keys.CreateAPIKey(identitytest.In(ctx, w.Member), identitytest.Change[keys.APIKey](w.Member), keys.NewAPIKey{Name: "ci", Scopes: scopes, TTL: time.Hour})
			return err
		}},
		{"api_key.revoke", true, func() error {
			return w.Keys.RevokeAPIKey(identitytest.In(ctx, w.Member), identitytest.Change[struct{}](w.Member), key.ID)
		}},
		{"session.end", true, func() error {
			return w.SignIn.EndSessionByID(identitytest.In(ctx, w.Member), identitytest.Change[struct{}](w.Member), live[0].ID, false)
		}},
		{"ssh_key.create", false, func() (err error) {
			ssh, err = w.Keys.AddSSHKey(identitytest.In(ctx, w.Member), identitytest.Change[keys.SSHKey](w.Member), "laptop", publicKey)
			return err
		}},
		{"ssh_key.delete", false, func() error {
			return w.Keys.DeleteSSHKey(identitytest.In(ctx, w.Member), identitytest.Change[struct{}](w.Member), ssh.ID)
		}},
		{"user.create", false, func() (err error) {
			user, err = w.CreateUser(identitytest.In(ctx, w.Admin), identitytest.Change[identity.User](w.Admin), identity.NewUser{Email: "x@x.localhost", Name: "X", Role: "operator"})
			return err
		}},
		{"user.update", true, func() (err error) {
			user, err = w.UpdateUser(identitytest.In(ctx, w.Admin), identitytest.Change[identity.User](w.Admin), user.ID, 1, identity.UserPatch{Disabled: new(true)})
			return err
		}},
		{"tenant.member.remove", true, func() error {
			return w.RemoveTenantMember(identitytest.In(ctx, w.Owner), identitytest.Change[struct{}](w.Owner), w.Member.User)
		}},
	} {
		const mine, all = `SELECT count(*) FROM audit_logs WHERE action = $1 AND target_urn LIKE 'core42:aicloud:%'`, `SELECT count(*) FROM audit_logs`
		before, whole := w.Count(t, mine, c.action), w.Count(t, all)
		if err := c.do(); err != nil {
			t.Fatalf("%s: %v", c.action, err)
		}
		if got, total := w.Count(t, mine, c.action)-before, w.Count(t, all)-whole; got != 1 || total != 1 {
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
		if n := w.Count(t, `SELECT count(*) FROM audit_logs a WHERE to_jsonb(a)::text LIKE '%' || $1 || '%'`, secret[4:]); n != 0 {
			t.Errorf("a secret is in %d audit rows", n)
		}
	}
	if got := w.Count(t, `SELECT count(*) FROM audit_logs WHERE action = 'user.update' AND before = '{"disabled": false}' AND after = '{"disabled": true}'`); got != 1 {
		t.Errorf("the change of a user is noted %d times as what changed", got)
	}
}

// The loss of a membership, of a role of the platform and of an account is an event of the change, and a changed name is none.
func TestLostAccessIsAnEvent(t *testing.T) {
	t.Parallel()
	w := identitytest.NewTenancy(t)
	ctx, owner, admin := t.Context(), w.Owner, w.Admin
	project := w.Project(t, "bench")
	if _, err := w.PutProjectMember(identitytest.In(ctx, owner), identitytest.Change[identity.Member](owner), project.ID, w.Member.User, "member"); err != nil {
		t.Fatal(err)
	}
	operator, err := w.CreateUser(identitytest.In(ctx, admin), identitytest.Change[identity.User](admin), identity.NewUser{Email: "x@x.localhost", Name: "X", Role: "operator"})
	if err != nil {
		t.Fatal(err)
	}
	update := func(patch identity.UserPatch) func() error {
		return func() error {
			_, err := w.UpdateUser(identitytest.In(ctx, admin), identitytest.Change[identity.User](admin), operator.ID, 0, patch)
			return err
		}
	}
	for _, c := range []struct {
		do   func() error
		user ids.User
		want string // tenant, project, scope, reason, name
	}{
		{func() error {
			return w.RemoveProjectMember(identitytest.In(ctx, owner), identitytest.Change[struct{}](owner), project.ID, w.Member.User)
		}, w.Member.User, "true true project membership_removed bench"},
		{func() error {
			return w.RemoveTenantMember(identitytest.In(ctx, owner), identitytest.Change[struct{}](owner), w.Member.User)
		}, w.Member.User, "true false tenant membership_removed "},
		{update(identity.UserPatch{Name: new("Y")}), operator.ID, ""},
		{update(identity.UserPatch{Role: new("user")}), operator.ID, "false false platform role_removed "},
		{update(identity.UserPatch{Disabled: new(true)}), operator.ID, "false false platform account_disabled "},
		{update(identity.UserPatch{Disabled: new(false)}), operator.ID, ""},
	} {
		before := w.Count(t, `SELECT count(*) FROM outbox_events`)
		if err := c.do(); err != nil {
			t.Fatalf("%s: %v", c.want, err)
		}
		if n := w.Count(t, `SELECT count(*) FROM outbox_events`) - before; n != min(len(c.want), 1) {
			t.Fatalf("%q: %d events", c.want, n)
		}
		if c.want == "" {
			continue
		}
		var got string
		var payload []byte
		if err := w.Pool.QueryRow(ctx, `SELECT concat_ws(' ', (org_id IS NOT NULL)::text, (project_id IS NOT NULL)::text, payload->>'scope', payload->>'reason', coalesce(payload->>'name', '')), payload
			FROM outbox_events WHERE stream = 'PROVISIONING' AND correlation_id = 'c' AND payload->>'user_id' = $1::text ORDER BY seq DESC LIMIT 1`, c.user.String()).Scan(&got, &payload); err != nil {
			t.Fatalf("%s: %v", c.want, err)
		}
		if err := asyncapi.Validate(revocation.SubjectAccessLost, payload); err != nil || got != c.want {
			t.Errorf("%q, expected %q, %v", got, c.want, err)
		}
	}
}

func TestWhatIsThereAlreadyIsNoChange(t *testing.T) {
	t.Parallel()
	w := identitytest.NewTenancy(t)
	ctx := t.Context()
	p, a := w.Project(t, "bench"), w.Account(t, "robot")
	if _, err := w.PutProjectMember(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Member](w.Owner), p.ID, w.Member.User, "viewer"); err != nil {
		t.Fatal(err)
	}
	diff := pgtest.Diff(t, w.Pool)
	for name, do := range map[string]func() error{
		"tenant": func() error {
			_, err := w.UpdateTenant(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Tenant](w.Owner), 0, "dev")
			return err
		},
		"role": func() error {
			m, err := w.PutTenantMember(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Member](w.Owner), w.Member.User, "member")
			return cmp.Or(err, wantMember(m, w.Member.User, "member"))
		},
		"role in a project": func() error {
			m, err := w.PutProjectMember(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Member](w.Owner), p.ID, w.Member.User, "viewer")
			return cmp.Or(err, wantMember(m, w.Member.User, "viewer"))
		},
		"project": func() error {
			_, err := w.UpdateProject(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Project](w.Owner), p.ID, 1, identity.ProjectPatch{Name: new("bench")})
			return err
		},
		"service account": func() error {
			_, err := w.Keys.UpdateServiceAccount(identitytest.In(ctx, w.Owner), identitytest.Change[keys.ServiceAccount](w.Owner), a.ID, 1, keys.ServiceAccountPatch{Scopes: &a.Scopes, Disabled: new(false)})
			return err
		},
		"user": func() error {
			_, err := w.UpdateUser(identitytest.In(ctx, w.Admin), identitytest.Change[identity.User](w.Admin), w.Member.User, 1, identity.UserPatch{Role: new("user")})
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
	w := identitytest.NewTenancy(t)
	ctx := t.Context()
	p, a := w.Project(t, "bench"), w.Account(t, "robot")
	theirs, err := w.Keys.CreateServiceAccount(identitytest.In(ctx, w.Foreign.Owner), identitytest.Change[keys.ServiceAccount](w.Foreign.Owner), w.Foreign.Project,
		keys.NewServiceAccount{Name: "robot", Scopes: policies.ScopeNames()[:1]})
	if err != nil {
		t.Fatal(err)
	}
	invited, err := w.Invite(identitytest.In(ctx, w.Foreign.Owner), identitytest.Change[identity.Invitation](w.Foreign.Owner), "they@there.localhost", "member")
	if err != nil {
		t.Fatal(err)
	}
	loner, err := w.CreateUser(identitytest.In(ctx, w.Admin), identitytest.Change[identity.User](w.Admin), identity.NewUser{Email: "loner@x.localhost", Name: "L", Role: "user"})
	if err != nil {
		t.Fatal(err)
	}
	w.Exec(t, `UPDATE users SET role_from = 'provider' WHERE id = $1`, w.Member.User)
	key, err := w.Keys.CreateAPIKey(identitytest.In(ctx, w.Owner), identitytest.Change[keys.APIKey](w.Owner), keys.NewAPIKey{Name: "ci"})
	if err != nil {
		t.Fatal(err)
	}
	limited := w.Owner
	limited.Limited = true
	limited.Scopes, _ = policies.ParseScopes(policies.ScopeNames()[:1])
	robot := identity.Caller{ServiceAccount: a.ID, Tenant: w.Seed.Tenant, Project: w.Seed.Project}

	tenantRole := func(c identity.Caller, user ids.User, role string) func() error {
		return func() error {
			_, err := w.PutTenantMember(identitytest.In(ctx, c), identitytest.Change[identity.Member](c), user, role)
			return err
		}
	}
	projectRole := func(c identity.Caller, project ids.Project, user ids.User, role string) func() error {
		return func() error {
			_, err := w.PutProjectMember(identitytest.In(ctx, c), identitytest.Change[identity.Member](c), project, user, role)
			return err
		}
	}
	patch := func(c identity.Caller, id ids.Project, version int64, patch identity.ProjectPatch) func() error {
		return func() error {
			_, err := w.UpdateProject(identitytest.In(ctx, c), identitytest.Change[identity.Project](c), id, version, patch)
			return err
		}
	}
	account := func(c identity.Caller, project ids.Project, name string, scopes ...string) func() error {
		return func() error {
			_, err := w.Keys.CreateServiceAccount(identitytest.In(ctx, c), identitytest.Change[keys.ServiceAccount](c), project, keys.NewServiceAccount{Name: name, Scopes: scopes})
			return err
		}
	}
	alter := func(c identity.Caller, id ids.ServiceAccount, version int64, patch keys.ServiceAccountPatch) func() error {
		return func() error {
			_, err := w.Keys.UpdateServiceAccount(identitytest.In(ctx, c), identitytest.Change[keys.ServiceAccount](c), id, version, patch)
			return err
		}
	}
	user := func(n identity.NewUser) func() error {
		return func() error {
			_, err := w.CreateUser(identitytest.In(ctx, w.Admin), identitytest.Change[identity.User](w.Admin), n)
			return err
		}
	}
	edit := func(c identity.Caller, id ids.User, version int64, patch identity.UserPatch) func() error {
		return func() error {
			_, err := w.UpdateUser(identitytest.In(ctx, c), identitytest.Change[identity.User](c), id, version, patch)
			return err
		}
	}
	apiKey := func(c identity.Caller, n keys.NewAPIKey) func() error {
		return func() error {
			_, err := w.Keys.CreateAPIKey(identitytest.In(ctx, c), identitytest.Change[keys.APIKey](c), n)
			return err
		}
	}
	invite := func(email, role string) func() error {
		return func() error {
			_, err := w.Invite(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Invitation](w.Owner), email, role)
			return err
		}
	}
	scope := policies.ScopeNames()

	diff := pgtest.Diff(t, w.Pool)
	for name, c := range map[string]struct {
		do    func() error
		code  errs.Code
		field string
	}{
		"tenant's name": {func() error {
			_, err := w.CreateTenant(identitytest.In(ctx, w.Admin), identitytest.Change[identity.Tenant](w.Admin), "A b", "EUR")
			return err
		}, errs.ValidationError, "name"},
		"tenant's currency": {func() error {
			_, err := w.CreateTenant(identitytest.In(ctx, w.Admin), identitytest.Change[identity.Tenant](w.Admin), "ab", "eur")
			return err
		}, errs.ValidationError, "currency"},
		"tenant twice": {func() error {
			_, err := w.CreateTenant(identitytest.In(ctx, w.Admin), identitytest.Change[identity.Tenant](w.Admin), "dev", "EUR")
			return err
		}, errs.AlreadyExists, "name"},
		"tenant renamed to another's name": {func() error {
			_, err := w.UpdateTenant(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Tenant](w.Owner), 0, "other")
			return err
		}, errs.AlreadyExists, "name"},
		"tenant renamed to another's id": {func() error {
			_, err := w.UpdateTenant(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Tenant](w.Owner), 0, w.Foreign.Owner.Tenant.String())
			return err
		}, errs.ValidationError, "name"},
		"tenant of an old version": {func() error {
			_, err := w.UpdateTenant(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Tenant](w.Owner), 7, "x")
			return err
		}, errs.VersionMismatch, ""},

		"role that is none":       {tenantRole(w.Owner, w.Member.User, "king"), errs.ValidationError, "role"},
		"another tenant's person": {tenantRole(w.Owner, w.Foreign.Owner.User, "member"), errs.NotFound, ""},
		"the same for an admin":   {tenantRole(w.Admin, w.Foreign.Owner.User, "member"), errs.NotFound, ""},
		"nobody":                  {tenantRole(w.Owner, ids.New[ids.User](), "member"), errs.NotFound, ""},
		"a person without tenant": {tenantRole(w.Owner, loner.ID, "member"), errs.NotFound, ""},
		"the last owner demoted":  {tenantRole(w.Owner, w.Owner.User, "member"), errs.Conflict, ""},
		"the last owner removed": {func() error {
			return w.RemoveTenantMember(identitytest.In(ctx, w.Admin), identitytest.Change[struct{}](w.Admin), w.Owner.User)
		}, errs.Conflict, ""},
		"another's member removed": {func() error {
			return w.RemoveTenantMember(identitytest.In(ctx, w.Owner), identitytest.Change[struct{}](w.Owner), w.Foreign.Owner.User)
		}, errs.NotFound, ""},
		"no member removed": {func() error {
			return w.RemoveTenantMember(identitytest.In(ctx, w.Owner), identitytest.Change[struct{}](w.Owner), loner.ID)
		}, errs.NotFound, ""},

		"invitation without address": {invite("nobody", "member"), errs.ValidationError, "email"},
		"invitation with a name":     {invite("N <n@x.localhost>", "member"), errs.ValidationError, "email"},
		"invitation to no role":      {invite("n@x.localhost", "admin"), errs.ValidationError, "role"},
		"invitation of a member":     {invite("MATE@dev.localhost", "owner"), errs.AlreadyExists, "email"},
		"another tenant's invitation": {func() error {
			return w.RevokeInvitation(identitytest.In(ctx, w.Owner), identitytest.Change[struct{}](w.Owner), invited.ID)
		}, errs.NotFound, ""},

		"project's name": {func() error {
			_, err := w.CreateProject(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Project](w.Owner), "-x", "")
			return err
		}, errs.ValidationError, "name"},
		"project's name is long": {func() error {
			_, err := w.CreateProject(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Project](w.Owner), strings.Repeat("x", 64), "")
			return err
		}, errs.ValidationError, "name"},
		"project's description": {func() error {
			_, err := w.CreateProject(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Project](w.Owner), "x", "a\x00b")
			return err
		}, errs.ValidationError, "description"},
		"project twice": {func() error {
			_, err := w.CreateProject(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Project](w.Owner), "bench", "")
			return err
		}, errs.AlreadyExists, "name"},
		"project renamed to another's":  {patch(w.Owner, p.ID, 0, identity.ProjectPatch{Name: new("default")}), errs.AlreadyExists, "name"},
		"project of an old version":     {patch(w.Owner, p.ID, 2, identity.ProjectPatch{Name: new("x")}), errs.VersionMismatch, ""},
		"project of another tenant":     {patch(w.Owner, w.Foreign.Project, 0, identity.ProjectPatch{Name: new("x")}), errs.NotFound, ""},
		"project that one is not in":    {patch(w.Member, p.ID, 0, identity.ProjectPatch{Name: new("x")}), errs.Forbidden, ""},
		"project closed by a member":    {func() error { return w.Close(t, w.Member, p.ID, 0) }, errs.Forbidden, ""},
		"project closed by another":     {func() error { return w.Close(t, w.Foreign.Owner, p.ID, 0) }, errs.NotFound, ""},
		"project closed of old version": {func() error { return w.Close(t, w.Owner, p.ID, 9) }, errs.VersionMismatch, ""},
		"project role that is none":     {projectRole(w.Owner, p.ID, w.Member.User, "owner"), errs.ValidationError, "role"},
		"project role of a stranger":    {projectRole(w.Owner, p.ID, w.Foreign.Owner.User, "admin"), errs.NotFound, ""},
		"project role of the homeless":  {projectRole(w.Owner, p.ID, loner.ID, "admin"), errs.NotFound, ""},
		"project role by a member":      {projectRole(w.Member, p.ID, w.Member.User, "admin"), errs.Forbidden, ""},
		"project role elsewhere":        {projectRole(w.Owner, w.Foreign.Project, w.Member.User, "admin"), errs.NotFound, ""},
		"no project member removed": {func() error {
			return w.RemoveProjectMember(identitytest.In(ctx, w.Owner), identitytest.Change[struct{}](w.Owner), p.ID, w.Member.User)
		}, errs.NotFound, ""},

		"account's name":              {account(w.Owner, p.ID, "", scope[0]), errs.ValidationError, "name"},
		"account without scopes":      {account(w.Owner, p.ID, "x"), errs.ValidationError, "scopes"},
		"account with made-up scopes": {account(w.Owner, p.ID, "x", "all:all"), errs.ValidationError, "scopes"},
		"account twice":               {account(w.Owner, w.Seed.Project, "robot", scope[0]), errs.AlreadyExists, "name"},
		"account elsewhere":           {account(w.Owner, w.Foreign.Project, "x", scope[0]), errs.NotFound, ""},
		"account by a member":         {account(w.Member, p.ID, "x", scope[0]), errs.Forbidden, ""},
		"account beyond one's token":  {account(limited, p.ID, "x", scope[1]), errs.Forbidden, "scopes"},
		"account widened beyond it":   {alter(limited, a.ID, 0, keys.ServiceAccountPatch{Scopes: &scope}), errs.Forbidden, "scopes"},
		"another tenant's account":    {alter(w.Owner, theirs.ID, 0, keys.ServiceAccountPatch{Disabled: new(true)}), errs.NotFound, ""},
		"account of an old version":   {alter(w.Owner, a.ID, 4, keys.ServiceAccountPatch{Disabled: new(true)}), errs.VersionMismatch, ""},
		"account changed by a member": {alter(w.Member, a.ID, 0, keys.ServiceAccountPatch{Disabled: new(true)}), errs.Forbidden, ""},
		"another's account deleted": {func() error {
			return w.Keys.DeleteServiceAccount(identitytest.In(ctx, w.Owner), identitytest.Change[struct{}](w.Owner), theirs.ID, 0)
		}, errs.NotFound, ""},
		"another's account's secret": {func() error {
			_, err := w.Keys.CreateCredential(identitytest.In(ctx, w.Owner), identitytest.Change[keys.Credential](w.Owner), theirs.ID, keys.NewCredential{})
			return err
		}, errs.NotFound, ""},
		"a secret for a moment": {func() error {
			_, err := w.Keys.CreateCredential(identitytest.In(ctx, w.Owner), identitytest.Change[keys.Credential](w.Owner), a.ID, keys.NewCredential{TTL: 1})
			return err
		}, errs.ValidationError, "ttl_seconds"},
		"no secret revoked": {func() error {
			return w.Keys.RevokeCredential(identitytest.In(ctx, w.Owner), identitytest.Change[struct{}](w.Owner), a.ID, ids.New[ids.Credential]())
		}, errs.NotFound, ""},
		"API key's name":             {apiKey(w.Owner, keys.NewAPIKey{Name: " "}), errs.ValidationError, "name"},
		"API key twice":              {apiKey(w.Owner, keys.NewAPIKey{Name: "ci"}), errs.AlreadyExists, "name"},
		"API key's scopes":           {apiKey(w.Owner, keys.NewAPIKey{Name: "x", Scopes: []string{"x"}}), errs.ValidationError, "scopes"},
		"API key's end":              {apiKey(w.Owner, keys.NewAPIKey{Name: "x", TTL: -1}), errs.ValidationError, "ttl_seconds"},
		"API key beyond one's token": {apiKey(limited, keys.NewAPIKey{Name: "x", Scopes: scope[1:2]}), errs.Forbidden, "scopes"},
		"API key without bounds":     {apiKey(limited, keys.NewAPIKey{Name: "x"}), errs.Forbidden, "scopes"},
		"API key of a program":       {apiKey(robot, keys.NewAPIKey{Name: "x", Scopes: scope[:1]}), errs.Forbidden, ""},
		"API key of another": {func() error {
			return w.Keys.RevokeAPIKey(identitytest.In(ctx, w.Member), identitytest.Change[struct{}](w.Member), key.ID)
		}, errs.NotFound, ""},
		"session of no user": {func() error {
			return w.SignIn.EndSessionByID(identitytest.In(ctx, w.Admin), identitytest.Change[struct{}](w.Admin), ids.New[ids.Session](), true)
		}, errs.NotFound, ""},
		"user's address":               {user(identity.NewUser{Email: "x", Name: "X", Role: "user"}), errs.ValidationError, "email"},
		"user's name":                  {user(identity.NewUser{Email: "x@x.localhost", Role: "user"}), errs.ValidationError, "name"},
		"user's role":                  {user(identity.NewUser{Email: "x@x.localhost", Name: "X", Role: "root"}), errs.ValidationError, "role"},
		"user's role in a tenant":      {user(identity.NewUser{Email: "x@x.localhost", Name: "X", Role: "user", Tenant: w.Seed.Tenant}), errs.ValidationError, "tenant_role"},
		"user's tenant":                {user(identity.NewUser{Email: "x@x.localhost", Name: "X", Role: "user", Tenant: ids.New[ids.Tenant](), TenantRole: "member"}), errs.NotFound, ""},
		"user twice":                   {user(identity.NewUser{Email: "LONER@x.localhost", Name: "X", Role: "user"}), errs.AlreadyExists, "email"},
		"role that the provider gives": {edit(w.Admin, w.Member.User, 0, identity.UserPatch{Role: new("admin")}), errs.Conflict, "role"},
		"role of one's own":            {edit(w.Admin, w.Admin.User, 0, identity.UserPatch{Role: new("user")}), errs.Conflict, "role"},
		"disabling oneself":            {edit(w.Admin, w.Admin.User, 0, identity.UserPatch{Disabled: new(true)}), errs.Conflict, "disabled"},
		"user of an old version":       {edit(w.Admin, loner.ID, 5, identity.UserPatch{Disabled: new(true)}), errs.VersionMismatch, ""},
		"unknown user":                 {edit(w.Admin, ids.New[ids.User](), 0, identity.UserPatch{Disabled: new(true)}), errs.NotFound, ""},
		"user changed by no admin":     {edit(w.Owner, w.Seed.Operator.ID, 0, identity.UserPatch{Role: new("admin")}), errs.Forbidden, ""},
		"profile of a program": {func() error {
			_, err := w.UpdateMe(identitytest.In(ctx, robot), identitytest.Change[identity.User](robot), 0, "x")
			return err
		}, errs.Forbidden, ""},
	} {
		err := c.do()
		identitytest.WantCode(t, name, err, c.code)
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
	w := identitytest.NewTenancy(t)
	ctx := t.Context()
	for _, name := range []string{"a", "b", "c"} {
		p := w.Project(t, name)
		w.Account(t, name)
		if name == "b" {
			if _, err := w.PutProjectMember(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Member](w.Owner), p.ID, w.Member.User, "viewer"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Invite(identitytest.In(ctx, w.Owner), identitytest.Change[identity.Invitation](w.Owner), name+"@x.localhost", "viewer"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Keys.CreateAPIKey(identitytest.In(ctx, w.Owner), identitytest.Change[keys.APIKey](w.Owner), keys.NewAPIKey{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, got []string, err error, wanted ...string) {
		t.Helper()
		if err != nil || !slices.Equal(got, wanted) {
			t.Errorf("%s: got %v, want %v (%v)", what, got, wanted, err)
		}
	}
	tenants, err := w.Tenants(identitytest.In(ctx, w.Admin), "dev", 5)
	want("tenants", names(tenants, func(t identity.Tenant) string { return t.Name }), err, "other")
	name := func(p identity.Project) string { return p.Name + ":" + p.Role }
	page, err := w.ProjectPage(identitytest.In(ctx, w.Owner), w.Owner, "", "a", 2)
	want("an owner's projects", names(page, name), err, "b:admin", "c:admin")
	page, err = w.ProjectPage(identitytest.In(ctx, w.Owner), w.Owner, "FAUL", "", 5)
	want("an owner's projects by a part of the name", names(page, name), err, "default:admin")
	page, err = w.ProjectPage(identitytest.In(ctx, w.Member), w.Member, "", "", 5)
	want("a member's projects", names(page, name), err, "b:viewer")
	robot := identity.Caller{ServiceAccount: ids.New[ids.ServiceAccount](), Tenant: w.Seed.Tenant, Project: w.Seed.Project, ProjectRole: "member"}
	page, err = w.ProjectPage(identitytest.In(ctx, robot), robot, "", "", 5)
	want("a program's projects", names(page, name), err, "default:member")
	operator := identity.Caller{User: w.Seed.Operator.ID, Role: "operator", Tenant: w.Seed.Tenant}
	page, err = w.ProjectPage(identitytest.In(ctx, operator), operator, "", "c", 5)
	want("an operator's projects", names(page, name), err, "default:viewer", "lab:")
	accounts, err := w.Keys.ServiceAccounts(identitytest.In(ctx, w.Owner), w.Owner, w.Seed.Project, "a", 1)
	want("accounts", names(accounts, func(a keys.ServiceAccount) string { return a.Name }), err, "b")
	boss := w.Foreign.Owner
	w.Person(t, "a@other.localhost", boss.Tenant, "viewer")
	w.Person(t, "b@other.localhost", boss.Tenant, "member")
	w.Person(t, "c@other.localhost", boss.Tenant, "member")
	members, err := w.TenantMembers(identitytest.In(ctx, boss), boss, boss.User, 2)
	want("members", names(members, func(m identity.Member) string { return m.Email + " " + m.Role }), err, "a@other.localhost viewer", "b@other.localhost member")
	invited, err := w.Invitations(identitytest.In(ctx, w.Owner), w.Owner, ids.Invitation{}, 2)
	want("invitations", names(invited, func(i identity.Invitation) string { return i.Email }), err, "a@x.localhost", "b@x.localhost")
	apiKeys, err := w.Keys.APIKeys(identitytest.In(ctx, w.Owner), w.Owner, ids.APIKey{}, 9)
	want("keys", names(apiKeys, func(k keys.APIKey) string { return k.Name + k.Secret }), err, devseed.KeyName, "a", "b", "c")
	users, err := w.Users(identitytest.In(ctx, w.Admin), identity.UserFilter{Text: "OTHER.local", Role: "user", Tenant: boss.Tenant, After: boss.User, Limit: 2})
	want("users", names(users, func(u identity.User) string { return u.Email + " " + u.TenantName + " " + u.TenantRole }), err,
		"a@other.localhost other viewer", "b@other.localhost other member")
	_, err = w.ProjectMembers(identitytest.In(ctx, w.Member), w.Member, w.Seed.Project, ids.User{}, 5)
	identitytest.WantCode(t, "members of a project that one is not in", err, errs.Forbidden)
	_, err = w.ProjectMembers(identitytest.In(ctx, w.Owner), w.Owner, w.Foreign.Project, ids.User{}, 5)
	identitytest.WantCode(t, "members of another tenant's project", err, errs.NotFound)
}

func names[T any](all []T, of func(T) string) (list []string) {
	for _, v := range all {
		list = append(list, of(v))
	}
	return list
}
