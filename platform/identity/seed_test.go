package identity_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuaas/gpuaas/platform/identity"
)

// The database contains exactly the users of the table.
func TestSeedHoldsThePeople(t *testing.T) {
	t.Parallel()
	b := setup(t)
	got := map[string]identity.Person{}
	rows, err := b.db.Query(t.Context(), `
		SELECT u.email, u.name, u.role, t.name, m.role, coalesce(jsonb_object_agg(p.name, pm.role) FILTER (WHERE p.id IS NOT NULL), '{}')
		FROM users u JOIN tenant_memberships m ON m.user_id = u.id JOIN tenants t ON t.id = m.org_id
		LEFT JOIN project_memberships pm ON pm.user_id = u.id LEFT JOIN projects p ON p.id = pm.project_id AND p.org_id = t.id
		GROUP BY 1, 2, 3, 4, 5`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var p identity.Person
		if err := rows.Scan(&p.Email, &p.Name, &p.Role, &p.TenantName, &p.TenantRole, &p.Projects); err != nil {
			t.Fatal(err)
		}
		got[p.Email] = p
	}
	want := map[string]identity.Person{}
	for _, p := range identity.DevelopmentPeople() {
		if p.Projects == nil {
			p.Projects = map[string]string{}
		}
		want[p.Email] = p
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, p := range b.seed.People {
		c, err := b.Authenticate(t.Context(), b.seed.Dev.Key)
		if err != nil || p.ID.String() == "" || p.Email == "dev@dev.localhost" && p.ID != c.User {
			t.Errorf("%+v, %v", p, err)
		}
	}
	for _, name := range []string{"dev/default", "dev/lab", "acme/default"} {
		if _, ok := b.seed.Projects[name]; !ok || len(b.seed.Projects) != 3 {
			t.Errorf("projects %v", maps.Collect(maps.All(b.seed.Projects)))
		}
	}
}

// Every role has a user. The matrix of roles needs them.
func TestEveryRoleIsSomebodys(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	for _, p := range identity.DevelopmentPeople() {
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
	b := setup(t)
	b.exec(t, `UPDATE users SET oidc_issuer = 'http://127.0.0.1:4444', oidc_subject = 'elsewhere' WHERE id = $1`, b.seed.Dev.ID.UUID)
	b.exec(t, `UPDATE tenant_memberships SET role = 'member' WHERE user_id = $1`, b.seed.Dev.ID.UUID)
	again := b.reseed(t, false)
	if again.Dev.ID != b.seed.Dev.ID {
		t.Errorf("%s became %s", b.seed.Dev.ID, again.Dev.ID)
	}
	var issuer, subject, role string
	var audited int
	if err := b.db.QueryRow(t.Context(), `
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
		if diff := cmp.Diff(want, identity.Person{Role: role}.ProviderRoles()); diff != "" {
			t.Error(diff)
		}
	}
}
