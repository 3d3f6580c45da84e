package devseed_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity/devseed"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
)

// The database contains exactly the users of the table.
func TestSeedHoldsThePeople(t *testing.T) {
	t.Parallel()
	b := identitytest.New(t)
	got := map[string]devseed.Person{}
	rows, err := b.Pool.Query(t.Context(), `
		SELECT u.email, u.name, u.role, t.name, m.role, coalesce(jsonb_object_agg(p.name, pm.role) FILTER (WHERE p.id IS NOT NULL), '{}')
		FROM users u JOIN tenant_memberships m ON m.user_id = u.id JOIN tenants t ON t.id = m.org_id
		LEFT JOIN project_memberships pm ON pm.user_id = u.id LEFT JOIN projects p ON p.id = pm.project_id AND p.org_id = t.id
		GROUP BY 1, 2, 3, 4, 5`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var p devseed.Person
		if err := rows.Scan(&p.Email, &p.Name, &p.Role, &p.TenantName, &p.TenantRole, &p.Projects); err != nil {
			t.Fatal(err)
		}
		got[p.Email] = p
	}
	want := map[string]devseed.Person{}
	for _, p := range devseed.People() {
		if p.Projects == nil {
			p.Projects = map[string]string{}
		}
		want[p.Email] = p
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, p := range b.Seed.People {
		c, err := b.SignIn.Authenticate(t.Context(), b.Seed.Dev.Key)
		if err != nil || p.ID.String() == "" || p.Email == "dev@dev.localhost" && p.ID != c.User {
			t.Errorf("%+v, %v", p, err)
		}
	}
	for _, name := range []string{"dev/default", "dev/lab", "acme/default"} {
		if _, ok := b.Seed.Projects[name]; !ok || len(b.Seed.Projects) != 3 {
			t.Errorf("projects %v", maps.Collect(maps.All(b.Seed.Projects)))
		}
	}
}

// Every role has a user. The matrix of roles needs them.
func TestEveryRoleIsSomebodys(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	for _, p := range devseed.People() {
		found["platform "+p.Role]++
		found[p.TenantName+" "+p.TenantRole]++
		for project, role := range p.Projects {
			found[p.TenantName+"/"+project+" "+role]++
		}
	}
	for _, want := range []string{
		"platform user", "platform admin", "platform operator", "platform billing_operator",
		"dev owner", "dev billing", "dev member", "dev viewer", "acme owner", "acme billing", "acme member", "acme viewer",
		"dev/default admin", "dev/default member", "dev/default viewer", "dev/lab admin",
		"acme/default admin", "acme/default member", "acme/default viewer",
	} {
		if found[want] == 0 {
			t.Errorf("no user is %s", want)
		}
	}
}

// The issuer's address changes between starts; people are found by their e-mail
// again, and what was decided about them since stays.
func TestSeedLinksUsersAgain(t *testing.T) {
	t.Parallel()
	b := identitytest.New(t)
	b.Exec(t, `UPDATE users SET oidc_issuer = 'http://127.0.0.1:4444', oidc_subject = 'elsewhere' WHERE id = $1`, b.Seed.Dev.ID.UUID)
	b.Exec(t, `UPDATE tenant_memberships SET role = 'member' WHERE user_id = $1`, b.Seed.Dev.ID.UUID)
	again := b.Reseed(t, false)
	if again.Dev.ID != b.Seed.Dev.ID {
		t.Errorf("%s became %s", b.Seed.Dev.ID, again.Dev.ID)
	}
	var issuer, subject, role string
	var audited int
	if err := b.Pool.QueryRow(t.Context(), `
		SELECT oidc_issuer, oidc_subject, m.role, (SELECT count(*) FROM audit_logs WHERE actor = 'system:up' AND action = 'development.seed')
		FROM users u JOIN tenant_memberships m ON m.user_id = u.id WHERE u.id = $1`, again.Dev.ID.UUID).Scan(&issuer, &subject, &role, &audited); err != nil {
		t.Fatal(err)
	}
	if issuer != "local" || subject != "dev@dev.localhost" || role != "member" || audited != 2 {
		t.Errorf("issuer %s, subject %s, role %s, %d audit rows", issuer, subject, role, audited)
	}
}

func TestProviderRoles(t *testing.T) {
	t.Parallel()
	for role, want := range map[string][]string{
		"user": nil, "admin": {"gpuaas-admin"}, "operator": {"gpuaas-operator"}, "billing_operator": {"gpuaas-billing-operator"},
	} {
		if diff := cmp.Diff(want, devseed.Person{Role: role}.ProviderRoles()); diff != "" {
			t.Error(diff)
		}
	}
}

func TestSeedMayRunAtEveryStart(t *testing.T) {
	t.Parallel()
	b := identitytest.New(t)
	first := b.Seed
	diff := pgtest.Diff(t, b.Pool)
	second := b.Reseed(t, false)
	if got := diff(); got != "" {
		t.Errorf("changed:\n%s", got)
	}
	if second.Tenant != first.Tenant || second.Project != first.Project || second.Dev.ID != first.Dev.ID || second.Dev.Key != "" {
		t.Errorf("%+v became %+v", first, second)
	}
	third := b.Reseed(t, true)
	_, err := b.Fresh().Authenticate(t.Context(), first.Dev.Key)
	identitytest.WantCode(t, "the key before the fresh one", err, errs.TokenInvalid)
	if _, err := b.SignIn.Authenticate(t.Context(), third.Dev.Key); err != nil {
		t.Error(err)
	}
	if len(third.People) != len(devseed.People()) {
		t.Errorf("people %+v", third.People)
	}
}
