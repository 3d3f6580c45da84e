package identity

import (
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity/revocation"
)

// Resource identifies the resource of an audit row.
type Resource struct {
	Tenant   ids.Tenant
	Project  ids.Project
	Kind, ID string
}

func (of Resource) urn(n ids.Naming) string {
	return n.Name(idOrEmpty(of.Tenant), idOrEmpty(of.Project), of.Kind, of.ID).String()
}

// Note queues the one audit row of a change.
func (s *Service) Note(b *pgx.Batch, by Caller, action string, of Resource, before, after audit.Fields) {
	e := audit.Entry{
		Tenant: of.Tenant, By: by.Cause(), Action: action,
		Target: of.urn(s.Naming),
	}
	if before != nil {
		e.Before = before
	}
	if after != nil {
		e.After = after
	}
	audit.Queue(b, e)
}

// NoteLost queues the event that a user has lost the access to a resource.
func (s *Service) NoteLost(b *pgx.Batch, by Caller, user ids.User, of Resource, lost revocation.AccessLost) {
	revocation.QueueAccessLost(b, event.Draft{Tenant: of.Tenant, Project: of.Project, User: user, URN: of.urn(s.Naming), CorrelationID: by.CorrelationID}, lost)
}

func idOrEmpty[T interface {
	comparable
	String() string
}](id T) string {
	var none T
	if id == none {
		return ""
	}
	return id.String()
}
