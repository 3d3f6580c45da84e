package rest

import (
	"context"
	"net/http"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// ListEvents handles GET /api/v1/events. What is wrong with the request is an
// ordinary problem; once the stream is open there are only events.
func (s *Server) ListEvents(ctx context.Context, req oapi.ListEventsRequestObject) (oapi.ListEventsResponseObject, error) {
	ctx, r := of(ctx)
	tenant := r.caller.Tenant
	if or(req.Params.Scope, oapi.Tenant) == oapi.Platform {
		if held(r.caller)&fleet == 0 {
			return nil, errs.New(errs.Forbidden, "only operators may follow everyone's events").At("scope")
		}
		tenant = ids.Tenant{}
	}
	// A browser that reconnects sends the header along with the old URL.
	after := or(req.Params.LastEventID, or(req.Params.Since, ""))
	follow, err := s.Events.Open(ctx, tenant, after)
	if err != nil {
		return nil, err
	}
	return eventStream(follow), nil
}

// eventStream takes the place of the generated response, which would copy a
// reader without flushing.
type eventStream func(http.ResponseWriter) error

// VisitListEventsResponse writes until the client goes.
func (follow eventStream) VisitListEventsResponse(w http.ResponseWriter) error { return follow(w) }
