package request

import (
	"testing"

	"github.com/gpuaas/gpuaas/api/openapi"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// Each role name of a membership or a token has its bit, and no two share one.
func TestEveryRoleHasABitOfItsOwn(t *testing.T) {
	t.Parallel()
	var all Roles
	for _, r := range policies.Roles() {
		bit := bitsOf[r.Name]
		switch {
		case r.Scope == "token" && bit != 0:
			t.Errorf("%s bounds roles and is none", r.Name)
		case r.Scope != "token" && (bit == 0 || all&bit != 0):
			t.Errorf("%s has the bit %b", r.Name, bit)
		}
		all |= bit
	}
	for name, bit := range map[string]Roles{
		"everyone": everyone, "signedIn": signedIn, "program": program, "PlatformAdmin": PlatformAdmin,
		"fleet": FleetRoles &^ PlatformAdmin, "TenantWide": TenantWide &^ FleetRoles, "ProjectBound": ProjectBound &^ program,
		"owner": tenantRoles["owner"], "billing": tenantRoles["billing"], "viewer of a project": projectRoles["viewer"],
	} {
		if bit == 0 {
			t.Errorf("%s is no caller", name)
		}
	}
}

// The rule is the narrowest that allows; a role works only where it was given.
func TestDecisionsNameTheirRule(t *testing.T) {
	t.Parallel()
	tenant, project := ids.New[ids.Tenant](), ids.New[ids.Project]()
	person := func(platform, tenantRole, projectRole string) identity.Caller {
		return identity.Caller{User: ids.New[ids.User](), Role: platform, Tenant: tenant, TenantRole: tenantRole, Project: project, ProjectRole: projectRole}
	}
	without := func(c identity.Caller) identity.Caller {
		c.Tenant = ids.Tenant{}
		return c
	}
	limited := func(c identity.Caller, within policies.Scopes) identity.Caller {
		c.Limited, c.Scopes = true, within
		return c
	}
	const scope = 1
	robot := identity.Caller{ServiceAccount: ids.New[ids.ServiceAccount](), Tenant: tenant, Project: project, Limited: true}
	op := func(who ...string) *Operation {
		o := &Operation{ID: "x"}
		for _, name := range who {
			if name == "scope" {
				o.scopes = scope
				continue
			}
			o.allowed |= bitsOf[name]
		}
		return o
	}
	for what, c := range map[string]struct {
		op     *Operation
		caller identity.Caller
		want   Decision
	}{
		"nobody":                             {op("user", "admin"), identity.Caller{}, Decision{Rule: noRole}},
		"no caller, open operation":          {op("anonymous", "user"), identity.Caller{}, Decision{Allowed: true, Rule: "anonymous"}},
		"any user who is signed in":          {op("user", "admin"), person("user", "", ""), Decision{Allowed: true, Rule: "user"}},
		"the project before the tenant":      {op("project.member", "tenant.owner", "admin"), person("admin", "owner", "member"), Decision{Allowed: true, Rule: "project.member"}},
		"the tenant before the platform":     {op("tenant.owner", "admin"), person("admin", "owner", ""), Decision{Allowed: true, Rule: "tenant.owner"}},
		"an admin as such":                   {op("tenant.owner", "admin"), person("admin", "viewer", ""), Decision{Allowed: true, Rule: "admin", Platform: true}},
		"a billing operator":                 {op("billing_operator"), person("billing_operator", "", ""), Decision{Allowed: true, Rule: "billing_operator", Platform: true}},
		"a name that is no role":             {op("anonymous"), person("tenant.owner", "", ""), Decision{Allowed: true, Rule: "anonymous"}},
		"a tenant's role on the platform":    {op("tenant.owner"), person("tenant.owner", "", ""), Decision{Rule: noRole}},
		"a role of no tenant":                {op("tenant.owner", "project.admin"), without(person("user", "owner", "admin")), Decision{Rule: noRole}},
		"a limited key, in its scope":        {op("tenant.owner", "scope"), limited(person("user", "owner", ""), scope), Decision{Allowed: true, Rule: "tenant.owner"}},
		"a limited key, beyond its scope":    {op("tenant.owner"), limited(person("user", "owner", ""), scope), Decision{Rule: noScope}},
		"a limited key, other scope":         {op("tenant.owner", "scope"), limited(person("user", "owner", ""), 2), Decision{Rule: noScope}},
		"a scope is no role":                 {op("tenant.owner", "scope"), limited(person("user", "viewer", ""), scope), Decision{Rule: noRole}},
		"a limited key reads the catalogue":  {op("user", "service_account"), limited(person("user", "", ""), 0), Decision{Allowed: true, Rule: "user"}},
		"a limited key of an admin":          {op("admin"), limited(person("admin", "", ""), scope), Decision{Rule: noScope}},
		"a program by its kind":              {op("service_account"), robot, Decision{Allowed: true, Rule: "service_account"}},
		"a program without the scope":        {op("tenant.owner", "scope"), robot, Decision{Rule: noScope}},
		"a program that never had a project": {op("scope"), limited(identity.Caller{ServiceAccount: robot.ServiceAccount, Tenant: tenant}, scope), Decision{Rule: noScope}},
		"a program is not signed in":         {op("user"), robot, Decision{Rule: noScope}},
	} {
		if got := Decide(c.op, c.caller, policies.RoleTable{}); got != c.want {
			t.Errorf("%s: got %+v, want %+v", what, got, c.want)
		}
	}
	declared := policies.NewRoleTable(7, map[string][]string{"clerk": {"listLedger"}})
	ledger := op("billing_operator")
	ledger.ID = "listLedger"
	for what, c := range map[string]struct {
		op     *Operation
		caller identity.Caller
		want   Decision
	}{
		"a declared role":                  {ledger, person("clerk", "", ""), Decision{Allowed: true, Rule: "clerk@7", Platform: true}},
		"a declared role, and another":     {op("billing_operator"), person("clerk", "", ""), Decision{Rule: noRole}},
		"a role of the tenant before it":   {op("tenant.owner"), person("clerk", "owner", ""), Decision{Allowed: true, Rule: "tenant.owner"}},
		"a limited key of a declared role": {ledger, limited(person("clerk", "", ""), scope), Decision{Rule: noScope}},
		"a role that is declared no more":  {ledger, person("former", "", ""), Decision{Rule: noRole}},
	} {
		if got := Decide(c.op, c.caller, declared); got != c.want {
			t.Errorf("%s: got %+v, want %+v", what, got, c.want)
		}
	}
	if names := policies.ScopeNames(); len(names) > 0 {
		if got := Decide(op("scope"), limited(robot, scope), policies.RoleTable{}); got != (Decision{Allowed: true, Rule: names[0]}) {
			t.Errorf("a program by its scope: %+v", got)
		}
	}
}

// No tenant's role, and no scope of a token, reaches an operation of operators.
func TestAdminPathsAreForOperators(t *testing.T) {
	t.Parallel()
	doc, err := openapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	all, err := OperationsOf(doc)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for at, op := range all {
		if len(at.Path) < len(adminPaths) || at.Path[:len(adminPaths)] != adminPaths {
			continue
		}
		n++
		if op.allowed&^operators != 0 || op.scopes != 0 || op.allowed == 0 {
			t.Errorf("%s is open to %b", op.ID, op.allowed)
		}
	}
	if n == 0 {
		t.Error("there is no such path")
	}
}

// Each operation is listed by name, and each name is an operation: what is "*"
// only was forgotten, and what is nowhere was renamed.
func TestEveryOperationHasRoles(t *testing.T) {
	t.Parallel()

	doc, err := openapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"*": true}
	for _, op := range openapi.Operations(doc) {
		known[op.OperationID] = true
		who := rolesAllowed(op.OperationID)
		if who == 0 {
			t.Errorf("no role may call %s", op.OperationID)
		}
		if public := op.Security != nil; public != (who&everyone != 0) {
			t.Errorf("%s: the contract and the roles disagree about a sign-in", op.OperationID)
		}
	}
	for _, r := range policies.Roles() {
		for _, id := range r.Operations {
			if !known[id] {
				t.Errorf("%s may call %s, which is not in the contract", r.Name, id)
			}
		}
		if bitsOf[r.Name] == 0 && r.Scope != "token" {
			t.Errorf("role %s has no bit, so it allows nothing", r.Name)
		}
	}
}
