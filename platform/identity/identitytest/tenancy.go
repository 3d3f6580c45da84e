package identitytest

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
	"github.com/gpuaas/gpuaas/policies"
)

// Tenancy is a tenant with an owner and a member, and another tenant whose rows none of them may see.
// The services have the database role of the API.
type Tenancy struct {
	*Fixture

	Owner, Member, Admin identity.Caller
	Foreign              Foreign
}

// Foreign is the other tenant.
type Foreign struct {
	Tenant  ids.Tenant
	Project ids.Project
	Owner   identity.Caller
}

// NewTenancy creates both tenants.
func NewTenancy(t *testing.T) *Tenancy {
	t.Helper()
	w := &Tenancy{Fixture: New(t)}
	w.Use(&identity.Service{DB: pgtest.Scoped(t, w.Pool), Naming: ids.DefaultNaming, Seal: Seal(t), Hints: &hint.Bus{}})
	w.Admin = identity.Caller{User: w.Seed.Admin.ID, Role: "admin", Tenant: w.Seed.Tenant, TenantRole: "viewer", CorrelationID: "c", SignIn: signedIn()}
	w.Owner = identity.Caller{User: w.Seed.Dev.ID, Role: "user", Tenant: w.Seed.Tenant, TenantRole: "owner", CorrelationID: "c", SignIn: signedIn()}
	w.Member = w.Person(t, "mate@dev.localhost", w.Seed.Tenant, "member")

	other, err := w.CreateTenant(In(t.Context(), w.Admin), Change[identity.Tenant](w.Admin), "other", "USD")
	if err != nil {
		t.Fatal(err)
	}
	w.Foreign.Tenant = other.ID
	w.Foreign.Owner = w.Person(t, "owner@other.localhost", other.ID, "owner")
	all, err := w.Projects(In(t.Context(), w.Foreign.Owner), w.Foreign.Owner)
	if err != nil || len(all) != 1 || all[0].Name != "default" {
		t.Fatalf("a new tenant's projects: %+v, %v", all, err)
	}
	w.Foreign.Project = all[0].ID
	return w
}

// Person creates a user of a tenant.
func (w *Tenancy) Person(t *testing.T, email string, tenant ids.Tenant, role string) identity.Caller {
	t.Helper()
	u, err := w.CreateUser(In(t.Context(), w.Admin), Change[identity.User](w.Admin),
		identity.NewUser{Email: email, Name: "Somebody", Role: "user", Tenant: tenant, TenantRole: role})
	if err != nil {
		t.Fatal(err)
	}
	return identity.Caller{User: u.ID, Role: "user", Tenant: tenant, TenantRole: role, Email: u.Email, SignIn: signedIn()}
}

// signedIn is a sign-in of this moment.
func signedIn() identity.SignIn { return identity.SignIn{At: clock.Clock{}.Now()} }

// Invitation writes an invitation of a viewer to the caller's tenant.
func (w *Tenancy) Invitation(t *testing.T, by identity.Caller, email string) (id ids.Invitation) {
	t.Helper()
	id = ids.New[ids.Invitation]()
	w.Exec(t, `INSERT INTO invitations (id, org_id, email, role, invited_by, expires_at) VALUES ($1, $2, $3, 'viewer', $4, now() + interval '1 day')`,
		id, by.Tenant, email, by.User)
	return id
}

// Project creates a project of the owner.
func (w *Tenancy) Project(t *testing.T, name string) identity.Project {
	t.Helper()
	p, err := w.CreateProject(In(t.Context(), w.Owner), Change[identity.Project](w.Owner), name, "")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Account creates a service account in the seeded project.
func (w *Tenancy) Account(t *testing.T, name string) keys.ServiceAccount {
	t.Helper()
	a, err := w.Keys.CreateServiceAccount(In(t.Context(), w.Owner), Change[keys.ServiceAccount](w.Owner), w.Seed.Project,
		keys.NewServiceAccount{Name: name, Scopes: policies.ScopeNames()[:1]})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Close closes a project as its caller.
func (w *Tenancy) Close(t *testing.T, c identity.Caller, id ids.Project, version int64) error {
	t.Helper()
	p, err := w.ProjectByID(In(t.Context(), c), c, id)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	if err := w.QueueCloseProject(b, Change[struct{}](c), p, version); err != nil {
		return err
	}
	return pg.Commit(In(t.Context(), c), w.DB, b, func() {})
}
