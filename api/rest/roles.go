package rest

import "github.com/gpuaas/gpuaas/platform/identity"

// role is a set of roles, so that the check is one AND.
type role uint16

const (
	everyone role = 1 << iota // also without a sign-in
	signedIn
	tenantOwner
	tenantBilling
	tenantViewer
	projectAdmin
	projectMember
	projectViewer
	platformAdmin
	platformOperator
	billingOperator

	fleet   = platformAdmin | platformOperator
	readers = tenantOwner | tenantViewer | projectAdmin | projectMember | projectViewer | fleet
	holders = tenantOwner | projectAdmin | projectMember
	payers  = tenantOwner | tenantBilling | projectAdmin | platformAdmin | billingOperator
)

// roles says who may call each operation. What is not listed is denied, and the
// server does not start without an entry for each.
var roles = map[string]role{
	"getLivez":   everyone,
	"getReadyz":  everyone,
	"getHealthz": everyone,

	"listSkus":        signedIn,
	"getSku":          signedIn,
	"getNodeCapacity": signedIn,
	"getMe":           signedIn,
	"listProjects":    signedIn,
	"listSshKeys":     signedIn,
	"createSshKey":    signedIn,
	"deleteSshKey":    signedIn,
	"listEvents":      signedIn,

	"createAllocation":      holders,
	"releaseAllocation":     holders,
	"listAllocations":       readers,
	"getAllocation":         readers,
	"getAllocationTimeline": readers,

	"getBalance": payers,
	"getUsage":   payers,

	"listAdminNodes":       fleet,
	"getAdminNode":         fleet,
	"createEnrolmentToken": platformAdmin,
	"listDesired":          fleet,
	"getDesired":           fleet,
	"listPlans":            fleet,
	"getPlan":              fleet,
	"listRevisions":        fleet,
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
