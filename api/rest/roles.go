package rest

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// role is a set of roles, so that the check of each request is one AND. A role's
// place in ranked is its bit.
type role uint64

// ranked are the roles of the policies from narrow to wide: a decision names the
// narrowest role that allows, so that nobody acts on more than they need. Scopes
// of tokens are no roles: they bound what their holder may do.
var ranked = func() []policies.Role {
	all := slices.DeleteFunc(policies.Roles(), func(r policies.Role) bool { return r.Scope == "token" })
	width := []string{"project", "tenant", "service_account", "platform"}
	slices.SortStableFunc(all, func(a, b policies.Role) int {
		return cmp.Compare(slices.Index(width, a.Scope), slices.Index(width, b.Scope))
	})
	return all
}()

// bitsOf is the bit of each role by its name in the policies.
var bitsOf = func() map[string]role {
	all := map[string]role{}
	for i, r := range ranked {
		all[r.Name] = 1 << i
	}
	return all
}()

// in are the bits of a scope's roles.
func in(scope string) (all role) {
	for i, r := range ranked {
		if r.Scope == scope {
			all |= 1 << i
		}
	}
	return all
}

// memberships are the bits of a scope's roles by the word that a membership has: "owner"
// of a tenant.
func memberships(scope string) map[string]role {
	all := map[string]role{}
	for name, bit := range bitsOf {
		if word, ok := strings.CutPrefix(name, scope+"."); ok {
			all[word] = bit
		}
	}
	return all
}

var (
	everyone      = bitsOf["anonymous"] // also without a sign-in
	signedIn      = bitsOf["user"]
	program       = bitsOf["service_account"]
	platformAdmin = bitsOf["admin"]
	fleetRoles    = platformAdmin | bitsOf["operator"]
	tenantWide    = bitsOf["tenant.owner"] | bitsOf["tenant.viewer"] | fleetRoles // see every project of their tenant
	// What these allow ends at the border of a project.
	projectBound = in("project") | program
	// operators hold their roles everywhere, whatever their tenant.
	operators = in("platform") &^ (everyone | signedIn)

	scopeNames   = policies.ScopeNames()
	tenantRoles  = memberships("tenant")
	projectRoles = memberships("project")
)

// allowed are the roles that may call an operation. What nobody lists by name is
// denied to all, whoever has "*": it was forgotten.
func allowed(operation string) (who role) {
	if !policies.Covered(operation) {
		return 0
	}
	for name, bit := range bitsOf {
		if policies.Allows(name, operation) {
			who |= bit
		}
	}
	return who
}

// scopesFor are the scopes of tokens that an operation is within.
func scopesFor(operation string) policies.Scopes {
	var names []string
	for _, name := range policies.ScopeNames() {
		if policies.Allows(name, operation) {
			names = append(names, name)
		}
	}
	all, _ := policies.ParseScopes(names) // their own names
	return all
}

// held are the roles that the caller has here and now. One without a tenant has
// no role of any: a left-over word of a membership is nothing.
func held(c identity.Caller) role {
	switch {
	case c.ServiceAccount != (ids.ServiceAccount{}):
		return everyone | program
	case c.User == (ids.User{}):
		return everyone
	}
	has := everyone | signedIn
	if c.Role != "" {
		has |= bitsOf[c.Role] & operators
	}
	if c.Tenant != (ids.Tenant{}) {
		has |= tenantRoles[c.TenantRole] | projectRoles[c.ProjectRole]
	}
	return has
}

// everywhere says whether the caller may call the operation for all of the tenant:
// what roles of a project and programs may ends at its border.
func (r *call) everywhere() bool { return held(r.caller)&r.op.allowed&^projectBound != 0 }

// decision is whether a caller may call an operation, and the rule that says so:
// the role or the scope of a token whose line it is.
type decision struct {
	allowed bool
	rule    string
	// platform: allowed for being an operator, so the tenant does not bound it.
	platform bool
}

// The rules that deny.
const (
	noRole  = "no role of the caller lists it"
	noScope = "no scope of the token lists it"
	// A project's border denies before any role is looked at.
	noProjectRole = "the caller is not in this project"
)

// decide says whether the caller may call the operation. A program may what its
// kind may, and what its token's scopes list; a person's limited key needs the
// role and the scope.
func decide(op *operation, c identity.Caller) decision {
	has := held(c) & op.allowed
	within := c.Scopes & op.scopes
	if c.ServiceAccount != (ids.ServiceAccount{}) && has == 0 {
		if within == 0 || c.Project == (ids.Project{}) {
			return decision{rule: noScope}
		}
		return decision{allowed: true, rule: scopeNames[bits.TrailingZeros32(uint32(within))]}
	}
	switch {
	case has == 0:
		return decision{rule: noRole}
	case c.Limited && within == 0 && op.allowed&(everyone|program) == 0:
		return decision{rule: noScope}
	}
	narrowest := bits.TrailingZeros64(uint64(has))
	return decision{allowed: true, rule: ranked[narrowest].Name, platform: operators&(1<<narrowest) != 0}
}

// denied is what a refused caller is told: people of a tenant also whom to ask.
func (op *operation) denied(c identity.Caller, d decision) error {
	if d.rule == noScope {
		return errs.New(errs.Forbidden, "the scopes of this token do not allow this").With("operation", op.id).
			With("scopes", op.scopes.Names()).Try("use a token with one of these scopes")
	}
	e := errs.New(errs.Forbidden, "your role does not allow this").With("operation", op.id)
	if c.Tenant != (ids.Tenant{}) && len(op.mayBe) > 0 {
		return e.With("roles", op.mayBe).Try("request one of these roles from an owner of the tenant")
	}
	return e
}

// rolesOfTenants are those of a set that a tenant can give.
func rolesOfTenants(who role) (names []string) {
	for i, r := range ranked {
		if who&(1<<i) != 0 && (r.Scope == "tenant" || r.Scope == "project") {
			names = append(names, r.Name)
		}
	}
	return names
}
