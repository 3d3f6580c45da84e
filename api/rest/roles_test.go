package rest

import (
	"testing"

	"github.com/gpuaas/gpuaas/api/openapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// Each word that a membership or a token can hold has its bit, and no two share one.
func TestEveryRoleHasABitOfItsOwn(t *testing.T) {
	t.Parallel()
	var all role
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
	for name, bit := range map[string]role{
		"everyone": everyone, "signedIn": signedIn, "program": program, "platformAdmin": platformAdmin,
		"fleet": fleetRoles &^ platformAdmin, "tenantWide": tenantWide &^ fleetRoles, "projectBound": projectBound &^ program,
		"owner": tenantRoles["owner"], "billing": tenantRoles["billing"], "viewer of a project": projectRoles["viewer"],
	} {
		if bit == 0 {
			t.Errorf("%s is nobody", name)
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
	op := func(who ...string) *operation {
		o := &operation{id: "x"}
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
		op     *operation
		caller identity.Caller
		want   decision
	}{
		"nobody":                             {op("user", "admin"), identity.Caller{}, decision{rule: noRole}},
		"nobody, at an open door":            {op("anonymous", "user"), identity.Caller{}, decision{allowed: true, rule: "anonymous"}},
		"whoever is signed in":               {op("user", "admin"), person("user", "", ""), decision{allowed: true, rule: "user"}},
		"the project before the tenant":      {op("project.member", "tenant.owner", "admin"), person("admin", "owner", "member"), decision{allowed: true, rule: "project.member"}},
		"the tenant before the platform":     {op("tenant.owner", "admin"), person("admin", "owner", ""), decision{allowed: true, rule: "tenant.owner"}},
		"an admin as such":                   {op("tenant.owner", "admin"), person("admin", "viewer", ""), decision{allowed: true, rule: "admin", platform: true}},
		"a billing operator":                 {op("billing_operator"), person("billing_operator", "", ""), decision{allowed: true, rule: "billing_operator", platform: true}},
		"a word that is no role":             {op("anonymous"), person("tenant.owner", "", ""), decision{allowed: true, rule: "anonymous"}},
		"a tenant's word on the platform":    {op("tenant.owner"), person("tenant.owner", "", ""), decision{rule: noRole}},
		"a role of no tenant":                {op("tenant.owner", "project.admin"), without(person("user", "owner", "admin")), decision{rule: noRole}},
		"a limited key, in its scope":        {op("tenant.owner", "scope"), limited(person("user", "owner", ""), scope), decision{allowed: true, rule: "tenant.owner"}},
		"a limited key, beyond its scope":    {op("tenant.owner"), limited(person("user", "owner", ""), scope), decision{rule: noScope}},
		"a limited key, other scope":         {op("tenant.owner", "scope"), limited(person("user", "owner", ""), 2), decision{rule: noScope}},
		"a scope is no role":                 {op("tenant.owner", "scope"), limited(person("user", "viewer", ""), scope), decision{rule: noRole}},
		"a limited key reads the catalogue":  {op("user", "service_account"), limited(person("user", "", ""), 0), decision{allowed: true, rule: "user"}},
		"a limited key of an admin":          {op("admin"), limited(person("admin", "", ""), scope), decision{rule: noScope}},
		"a program by its kind":              {op("service_account"), robot, decision{allowed: true, rule: "service_account"}},
		"a program without the scope":        {op("tenant.owner", "scope"), robot, decision{rule: noScope}},
		"a program that never had a project": {op("scope"), limited(identity.Caller{ServiceAccount: robot.ServiceAccount, Tenant: tenant}, scope), decision{rule: noScope}},
		"a program is not signed in":         {op("user"), robot, decision{rule: noScope}},
	} {
		if got := decide(c.op, c.caller); got != c.want {
			t.Errorf("%s: got %+v, want %+v", what, got, c.want)
		}
	}
	if names := policies.ScopeNames(); len(names) > 0 {
		if got := decide(op("scope"), limited(robot, scope)); got != (decision{allowed: true, rule: names[0]}) {
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
	all, err := operationsOf(doc)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for at, op := range all {
		if len(at.path) < len(adminPaths) || at.path[:len(adminPaths)] != adminPaths {
			continue
		}
		n++
		if op.allowed&^operators != 0 || op.scopes != 0 || op.allowed == 0 {
			t.Errorf("%s is open to %b", op.id, op.allowed)
		}
	}
	if n == 0 {
		t.Error("there is no such path")
	}
}

func TestPreconditions(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]struct {
		version int64
		code    string
	}{
		`"7"`:      {version: 7},
		` "7" `:    {version: 7},
		`*`:        {},
		`W/"7"`:    {code: "version_mismatch"},
		`"0"`:      {code: "version_mismatch"},
		`"-1"`:     {code: "version_mismatch"},
		`"07"`:     {code: "version_mismatch"},
		`"+7"`:     {code: "version_mismatch"},
		`"other"`:  {code: "version_mismatch"},
		`7`:        {code: "validation_error"},
		`"7", "8"`: {code: "validation_error"},
		`"`:        {code: "validation_error"},
	} {
		version, err := ifMatch(&header, true)
		if version != want.version || string(errs.CodeOf(err)) != want.code {
			t.Errorf("%s: %d, %v", header, version, err)
		}
	}
	if _, err := ifMatch(nil, true); errs.CodeOf(err) != errs.VersionRequired {
		t.Errorf("required: %v", err)
	}
	if version, err := ifMatch(nil, false); version != 0 || err != nil {
		t.Errorf("optional: %d, %v", version, err)
	}
	for header, want := range map[string]bool{`"7"`: true, `W/"7"`: true, `"6", "7"`: true, `*`: true, `"6"`: false, `7`: false, ``: false} {
		if got := notModified(&header, `"7"`); got != want {
			t.Errorf("If-None-Match %s: %t", header, got)
		}
	}
}

func TestTraces(t *testing.T) {
	t.Parallel()
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for sent, want := range map[string]bool{
		good:                       true,
		"01" + good[2:] + "-later": true,
		good + "-later":            false, // version 00 ends with the flags
		"ff" + good[2:]:            false,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01": false,
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01": false,
		"": false, "00-": false, good[:54]: false, "00_" + good[3:]: false,
	} {
		if isTrace(sent) != want {
			t.Errorf("%q: %t", sent, !want)
		}
	}
}
