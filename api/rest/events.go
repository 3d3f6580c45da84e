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
	tenant, project, err := audience(r, req.Params)
	if err != nil {
		return nil, err
	}
	// A browser that reconnects sends the header along with the old URL.
	after := or(req.Params.LastEventID, or(req.Params.Since, ""))
	follow, err := s.Events.Open(ctx, tenant, project, after)
	if err != nil {
		return nil, err
	}
	return eventStream(follow), nil
}

// audience is whose events the caller gets: the project's for those who are of
// the tenant only through it; the tenant's; everyone's for operators who ask.
func audience(r *call, p oapi.ListEventsParams) (tenant ids.Tenant, project ids.Project, err error) {
	has := held(r.caller)
	switch {
	case or(p.Scope, oapi.ListEventsParamsScopeTenant) == oapi.ListEventsParamsScopePlatform && has&fleet == 0:
		return tenant, project, errs.New(errs.Forbidden, "only operators may follow everyone's events").At("scope")
	case or(p.Scope, oapi.ListEventsParamsScopeTenant) == oapi.ListEventsParamsScopePlatform:
		return ids.Tenant{}, ids.Project{}, nil
	case has&tenantWide != 0 && p.XProjectID == nil:
		return r.caller.Tenant, ids.Project{}, nil
	case r.caller.Project == ids.Project{}:
		return tenant, project, errs.New(errs.Forbidden, "you are in no project of this tenant")
	}
	return r.caller.Tenant, r.caller.Project, nil
}

// eventStream takes the place of the generated response, which would copy a
// reader without flushing.
type eventStream func(http.ResponseWriter) error

// VisitListEventsResponse writes until the client goes.
func (follow eventStream) VisitListEventsResponse(w http.ResponseWriter) error { return follow(w) }
