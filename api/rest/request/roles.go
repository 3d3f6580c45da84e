package request

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// Roles is a set of roles as bits, so that the check of each request is one AND. The bit of a role
// is its index in ranked.
type Roles uint64

// ranked contains the roles of the policies from narrow to wide. A decision names the narrowest
// role that allows it, so that a caller acts with no more rights than needed. Scopes of tokens are
// not roles: they limit the rights of the token's owner.
var ranked = func() []policies.Role {
	all := slices.DeleteFunc(policies.Roles(), func(r policies.Role) bool { return r.Scope == "token" })
	width := []string{"project", "tenant", "service_account", "platform"}
	slices.SortStableFunc(all, func(a, b policies.Role) int {
		return cmp.Compare(slices.Index(width, a.Scope), slices.Index(width, b.Scope))
	})
	return all
}()

// bitsOf maps the name of each role in the policies to its bit.
var bitsOf = func() map[string]Roles {
	all := map[string]Roles{}
	for i, r := range ranked {
		all[r.Name] = 1 << i
	}
	return all
}()

// in returns the roles of a scope.
func in(scope string) (all Roles) {
	for i, r := range ranked {
		if r.Scope == scope {
			all |= 1 << i
		}
	}
	return all
}

// memberships returns the bits of the roles of a scope by the role of a membership, such as "owner" of
// a tenant.
func memberships(scope string) map[string]Roles {
	all := map[string]Roles{}
	for name, bit := range bitsOf {
		if word, ok := strings.CutPrefix(name, scope+"."); ok {
			all[word] = bit
		}
	}
	return all
}

var (
	everyone      = bitsOf["anonymous"] // includes callers that are not signed in
	signedIn      = bitsOf["user"]
	program       = bitsOf["service_account"]
	PlatformAdmin = bitsOf["admin"]
	FleetRoles    = PlatformAdmin | bitsOf["operator"]
	TenantWide    = bitsOf["tenant.owner"] | bitsOf["tenant.viewer"] | FleetRoles // these roles can read every project of their tenant
	TenantBilling = bitsOf["tenant.billing"]
	// ProjectBound contains the roles whose rights end at the border of a project.
	ProjectBound = in("project") | program
	// operators contains the platform roles, which apply in every tenant.
	operators = in("platform") &^ (everyone | signedIn)

	scopeNames   = policies.ScopeNames()
	tenantRoles  = memberships("tenant")
	projectRoles = memberships("project")
)

// rolesAllowed returns the roles that may call an operation. An operation that no role lists by name
// is denied to all, also to roles with "*", because the policies do not cover it yet.
func rolesAllowed(operation string) (who Roles) {
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

// scopesFor returns the scopes of tokens that include an operation.
func scopesFor(operation string) policies.Scopes {
	var names []string
	for _, name := range policies.ScopeNames() {
		if policies.Allows(name, operation) {
			names = append(names, name)
		}
	}
	all, _ := policies.ParseScopes(names) // the names are those of the policies, so they always parse
	return all
}

// RolesOf returns the roles of the caller in the present project. A caller without a tenant has no
// role of a tenant.
func RolesOf(c identity.Caller) Roles {
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

// OutsideProjects returns whether the caller may call the operation for the whole tenant. Roles of a
// project and service accounts end at the border of their project.
func (r *Call) OutsideProjects() bool {
	return r.Platform || RolesOf(r.Caller)&r.Op.allowed&^ProjectBound != 0
}

// Decision contains whether a caller may call an operation, and the role or scope that decides it.
type Decision struct {
	Allowed bool
	Rule    string
	// Platform reports that a platform role allows the operation, so that no tenant limits it.
	Platform bool
}

// The rules that deny.
const (
	noRole  = "no role of the caller lists it"
	noScope = "no scope of the token lists it"
	// The border of a project denies before any role is checked.
	NoProjectRole = "the caller is not in this project"
)

// Decide returns whether the caller may call the operation. A service account may call the operations
// of its role and those of the scopes of its token. A limited key of a user needs the role and the
// scope. A role that a Role object declares counts as a role of the platform, and the rule names the revision of the table.
func Decide(op *Operation, c identity.Caller, declared policies.RoleTable) Decision {
	has := RolesOf(c) & op.allowed
	within := c.Scopes & op.scopes
	if c.ServiceAccount != (ids.ServiceAccount{}) && has == 0 {
		if within == 0 || c.Project == (ids.Project{}) {
			return Decision{Rule: noScope}
		}
		rule := scopeNames[bits.TrailingZeros32(uint32(within))]
		return Decision{Allowed: true, Rule: rule, Platform: rule == policies.PlansPropose}
	}
	custom := has == 0 && op.allowed != 0 && declared.Declares(c.Role) && declared.Grants(c.Role, op.ID)
	switch {
	case has == 0 && !custom:
		return Decision{Rule: noRole}
	case c.Limited && within == 0 && op.allowed&(everyone|program) == 0:
		return Decision{Rule: noScope}
	}
	if custom {
		return Decision{Allowed: true, Rule: fmt.Sprintf("%s@%d", c.Role, declared.Revision), Platform: true}
	}
	narrowest := bits.TrailingZeros64(uint64(has))
	return Decision{Allowed: true, Rule: ranked[narrowest].Name, Platform: operators&(1<<narrowest) != 0}
}

// RightTo returns a function that decides as requests are decided whether a caller may call an operation. roles returns the
// declared roles.
func RightTo(operation string, roles func() policies.RoleTable) func(identity.Caller) bool {
	op := &Operation{ID: operation}
	op.setRoles("")
	return func(c identity.Caller) bool { return Decide(op, c, roles()).Allowed }
}

// Denied returns the error of a rejected caller. For users of a tenant it lists the roles that suffice.
func (op *Operation) Denied(c identity.Caller, d Decision) error {
	if d.Rule == noScope {
		return errs.New(errs.Forbidden, "the scopes of this token do not allow this").With("operation", op.ID).
			With("scopes", op.scopes.Names()).Try("use a token with one of these scopes")
	}
	e := errs.New(errs.Forbidden, "your role does not allow this").With("operation", op.ID)
	if c.Tenant != (ids.Tenant{}) && len(op.AllowedRoles) > 0 {
		return e.With("roles", op.AllowedRoles).Try("request one of these roles from an owner of the tenant")
	}
	return e
}

// rolesOfTenants returns the roles of a set that a tenant can give.
func rolesOfTenants(who Roles) (names []string) {
	for i, r := range ranked {
		if who&(1<<i) != 0 && (r.Scope == "tenant" || r.Scope == "project") {
			names = append(names, r.Name)
		}
	}
	return names
}
