package rest

import (
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// role is a set of roles, so that the check of each request is one AND.
type role uint16

const (
	everyone role = 1 << iota // also without a sign-in
	signedIn
	tenantOwner
	tenantBilling
	tenantMember
	tenantViewer
	projectAdmin
	projectMember
	projectViewer
	platformAdmin
	platformOperator
	billingOperator

	fleet      = platformAdmin | platformOperator
	tenantWide = tenantOwner | tenantViewer | fleet // see every project of their tenant
)

// bits are the roles by their names in the policies. Service accounts cannot
// sign in yet, so their role has none.
var bits = map[string]role{
	"anonymous":        everyone,
	"user":             signedIn,
	"admin":            platformAdmin,
	"operator":         platformOperator,
	"billing_operator": billingOperator,
	"tenant.owner":     tenantOwner,
	"tenant.billing":   tenantBilling,
	"tenant.member":    tenantMember,
	"tenant.viewer":    tenantViewer,
	"project.admin":    projectAdmin,
	"project.member":   projectMember,
	"project.viewer":   projectViewer,
}

// allowed are the roles that may call an operation. What nobody lists by name is
// denied to all, whoever has "*": it was forgotten.
func allowed(operation string) (who role) {
	if !policies.Covered(operation) {
		return 0
	}
	for name, bit := range bits {
		if policies.Allows(name, operation) {
			who |= bit
		}
	}
	return who
}

// held are the roles that the caller has here and now.
func held(c identity.Caller) role {
	has := everyone
	if c.User == (identity.Caller{}).User {
		return has
	}
	has |= signedIn
	switch c.Role {
	case "admin":
		has |= platformAdmin
	case "operator":
		has |= platformOperator
	case "billing_operator":
		has |= billingOperator
	}
	switch c.TenantRole {
	case "owner":
		has |= tenantOwner
	case "billing":
		has |= tenantBilling
	case "member":
		has |= tenantMember
	case "viewer":
		has |= tenantViewer
	}
	switch c.ProjectRole {
	case "admin":
		has |= projectAdmin
	case "member":
		has |= projectMember
	case "viewer":
		has |= projectViewer
	}
	return has
}
