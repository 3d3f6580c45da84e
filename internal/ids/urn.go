package ids

import (
	"strings"
)

// URN is a resource name: vendor:service:region:tenant:project:type:id. A part
// that does not apply is "-". It names a thing on every API, event and audit
// boundary; this file alone formats and parses it.
type URN struct {
	Vendor, Service, Region, Tenant, Project, Type, ID string
}

// Naming is what an environment profile fixes of every resource name.
type Naming struct{ Vendor, Service, Region string }

// DefaultNaming is used where a profile names none.
var DefaultNaming = Naming{Vendor: "core42", Service: "aicloud", Region: "-"}

// Name makes the resource name of a thing; tenant and project may be empty.
func (n Naming) Name(tenant, project, kind, id string) URN {
	return URN{n.Vendor, n.Service, n.Region, tenant, project, kind, id}
}

func (u URN) String() string {
	parts := [...]string{u.Vendor, u.Service, u.Region, u.Tenant, u.Project, u.Type, u.ID}
	for i, p := range parts {
		if p == "" {
			parts[i] = "-"
		}
	}
	return strings.Join(parts[:], ":")
}
