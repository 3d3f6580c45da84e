package stream

import (
	"maps"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
)

// Audience selects the events that a client receives.
type Audience struct {
	// Tenant owns the events. The zero tenant means all tenants.
	Tenant ids.Tenant
	// Whole selects all events of the tenant. Without it, an event belongs to a project, with AllProjects, to one of
	// Projects or, with Money, to the billing of the tenant.
	Whole       bool
	AllProjects bool
	Projects    map[ids.Project]bool
	Money       bool
	// Types are the selected subjects; nil selects all.
	Types map[string]bool
}

// Equal returns whether both select the same events.
func (a Audience) Equal(b Audience) bool {
	return a.Tenant == b.Tenant && a.Whole == b.Whole && a.AllProjects == b.AllProjects && a.Money == b.Money && maps.Equal(a.Projects, b.Projects) && maps.Equal(a.Types, b.Types)
}

func (a Audience) receives(i *item) bool {
	if a.Tenant != (ids.Tenant{}) && a.Tenant != i.tenant || a.Types != nil && !a.Types[i.subject] {
		return false
	}
	if i.project == (ids.Project{}) {
		return a.Whole || a.Money && (i.stream == event.StreamBilling || i.stream == event.StreamPayments)
	}
	return a.Whole || a.AllProjects || a.Projects[i.project]
}
