package rest

import (
	"context"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/allocation"
	"github.com/gpuaas/gpuaas/api/rest/audit"
	"github.com/gpuaas/gpuaas/api/rest/change"
	"github.com/gpuaas/gpuaas/api/rest/event"
	"github.com/gpuaas/gpuaas/api/rest/evidence"
	"github.com/gpuaas/gpuaas/api/rest/fleet"
	"github.com/gpuaas/gpuaas/api/rest/logs"
	"github.com/gpuaas/gpuaas/api/rest/money"
	"github.com/gpuaas/gpuaas/api/rest/people"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/api/rest/signin"
	"github.com/gpuaas/gpuaas/api/rest/storage"
	"github.com/gpuaas/gpuaas/api/rest/support"
	"github.com/gpuaas/gpuaas/api/rest/terminal"
	"github.com/gpuaas/gpuaas/api/rest/view"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// The aliases give each embedded field of handlers a name of its own.
type (
	allocationHandlers = allocation.Handlers
	auditHandlers      = audit.Handlers
	changeHandlers     = change.Handlers
	eventHandlers      = event.Handlers
	evidenceHandlers   = evidence.Handlers
	fleetHandlers      = fleet.Handlers
	logHandlers        = logs.Handlers
	moneyHandlers      = money.Handlers
	peopleHandlers     = people.Handlers
	signinHandlers     = signin.Handlers
	storageHandlers    = storage.Handlers
	supportHandlers    = support.Handlers
	terminalHandlers   = terminal.Handlers
	viewHandlers       = view.Handlers
)

// handlers implements every operation of the contract: each is a method of exactly one field.
type handlers struct {
	*allocationHandlers
	*auditHandlers
	*changeHandlers
	*eventHandlers
	*evidenceHandlers
	*fleetHandlers
	*logHandlers
	*moneyHandlers
	*peopleHandlers
	*signinHandlers
	*storageHandlers
	*supportHandlers
	*terminalHandlers
	*viewHandlers
	*health
}

var _ oapi.StrictServerInterface = handlers{}

// newHandlers builds the handlers of all resources.
func (s *Server) newHandlers() handlers {
	v := s.Services
	cursors := response.Cursors{Keys: s.CursorKeys, Clock: s.Clock}
	exports := response.Exports{Log: s.Log, Clock: s.Clock}
	objects := &changeHandlers{
		Services: v, Cursors: cursors, Chain: s.chain,
		Objects:  change.ObjectReader{Services: v, Environment: s.Environment, Profile: s.Profile},
		Timeline: change.Timeline{Services: v, Tasks: s.Tasks},
	}
	views := &viewHandlers{Enter: s.chain.Enter, Log: s.Log}
	bundles := &supportHandlers{Services: v, Environment: s.Environment, Keys: s.CursorKeys, Enter: s.chain.Enter, Process: s.Support, Record: func(ctx context.Context, c identity.Caller) error {
		return recordPlatformAction(ctx, v.DB, c, "support_bundle.create", "support-bundle")
	}}
	all := handlers{
		allocationHandlers: &allocationHandlers{Services: v, Cursors: cursors, Exports: exports},
		auditHandlers:      &auditHandlers{Services: v, Cursors: cursors, Exports: exports},
		changeHandlers:     objects,
		eventHandlers:      &eventHandlers{Services: v, Cursors: cursors, Stream: s.Stream, Chain: s.chain},
		evidenceHandlers:   &evidenceHandlers{Services: v, Cursors: cursors},
		fleetHandlers: &fleetHandlers{
			Services: v, Cursors: cursors, Change: objects, Parts: fleet.NodeParts{Services: v, Tasks: s.Tasks, Installer: s.Installer},
		},
		logHandlers:      &logHandlers{Services: v, Chain: s.chain, Reader: s.Logs, Clock: s.Clock},
		moneyHandlers:    &moneyHandlers{Services: v, Cursors: cursors, Exports: exports, Chain: s.chain, Pages: s.pages},
		peopleHandlers:   &peopleHandlers{Services: v, Cursors: cursors},
		signinHandlers:   s.signin,
		storageHandlers:  &storageHandlers{Services: v, Cursors: cursors, Exports: exports, Origin: s.Profile.Storage.PublicURL},
		supportHandlers:  bundles,
		terminalHandlers: &terminalHandlers{Services: v, Cursors: cursors, Exports: exports},
		viewHandlers:     views,
		health:           &health{checks: s.Checks, clock: s.Clock, ready: s.Ready},
	}
	views.Operations, bundles.Operations = all, all
	return all
}
