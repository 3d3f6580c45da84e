package ids

import (
	"strings"
)

// URN is a resource name: vendor:service:region:tenant:project:type:id. A part that does not apply
// is "-". It identifies a resource at every API, event and audit boundary. Only this file formats
// and parses it.
type URN struct {
	Vendor, Service, Region, Tenant, Project, Type, ID string
}

// Naming contains the parts of every URN that an environment profile defines.
type Naming struct{ Vendor, Service, Region string }

// DefaultNaming applies if a profile defines none.
var DefaultNaming = Naming{Vendor: "core42", Service: "aicloud", Region: "-"}

// Name returns the URN of a resource. Tenant and project may be empty.
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
