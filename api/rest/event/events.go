package event

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/stream"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// ListEvents handles GET /api/v1/events. What is wrong with the request is an
// ordinary problem; once the stream is open there are only events, for as long as
// the caller may have them.
func (s *Handlers) ListEvents(ctx context.Context, req oapi.ListEventsRequestObject) (oapi.ListEventsResponseObject, error) {
	c, err := request.GinContext(ctx)
	if err != nil {
		return nil, err
	}
	ctx, r := request.Of(ctx)
	to, err := s.audience(ctx, r, req.Params)
	if err != nil {
		return nil, err
	}
	token, err := s.Chain.Token(c, r)
	if err != nil {
		return nil, err
	}
	// A browser that reconnects sends the header along with the old URL.
	after := request.Or(req.Params.LastEventID, request.Or(req.Params.Since, ""))
	if ofEveryone(req.Params) { // the rule that let them in is that of anybody's own events
		ctx = pg.WithScope(ctx, pg.Platform)
	}
	ctx, end := context.WithCancel(ctx)
	follow, err := s.Stream.Open(ctx, to, after)
	if err != nil {
		end()
		return nil, err
	}
	return eventStream(func(w http.ResponseWriter) error {
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			defer end()
			s.whileAllowed(ctx, func(ctx context.Context) bool { return s.stillFollows(ctx, c, r, req.Params, token, to) })
		}()
		// The watcher reads gin's context, which belongs to the next request soon.
		defer func() { end(); <-watched }()
		return follow(w)
	}), nil
}

const (
	// A stream ends within two seconds after its caller has lost the right to it (AUTH-12). The
	// cached token may be one second old. The next check follows after lookEvery, and fails after
	// readWithin at the latest.
	readEvery, readWithin = 500 * time.Millisecond, 500 * time.Millisecond
)

// whileAllowed returns when ctx ends, or when allowed returns false. A database that is away ends
// streams, too.
func (s *Handlers) whileAllowed(ctx context.Context, allowed func(context.Context) bool) {
	every := time.NewTicker(readEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		if !func() bool {
			ctx, cancel := context.WithTimeout(ctx, readWithin)
			defer cancel()
			return allowed(ctx)
		}() {
			return
		}
	}
}

// stillFollows authenticates the caller of a stream again, and returns whether the caller may still
// read the same events. A stream with other projects is a new one, which the client opens.
func (s *Handlers) stillFollows(ctx context.Context, c *gin.Context, opened *request.Call, p oapi.ListEventsParams, token string, to stream.Audience) bool {
	caller, err := s.SignIn.Authenticate(ctx, token)
	if err != nil {
		return false
	}
	r := &request.Call{Context: ctx, Op: opened.Op, Caller: caller}
	again := c.Copy()                                                                                 // with the deadline of this poll
	again.Request = c.Request.WithContext(r)                                                          //nolint:contextcheck // r carries ctx
	if err := s.Chain.EnterProject(again, r); err != nil || !s.Chain.Decide(r.Op, r.Caller).Allowed { //nolint:contextcheck // again carries it
		return false
	}
	now, err := s.audience(ctx, r, p)
	return err == nil && now.Equal(to)
}

// audience returns the events that the caller reads: those of all tenants for operators who request them, of the tenant,
// of the named project, or of all projects in which the caller has a role. A user of the billing also reads the events of
// the tenant's money.
func (s *Handlers) audience(ctx context.Context, r *request.Call, p oapi.ListEventsParams) (stream.Audience, error) {
	has := request.RolesOf(r.Caller)
	own := stream.Audience{Tenant: r.Caller.Tenant}
	switch {
	// A scope of a token applies in one tenant only, also if an operator owns the token.
	case ofEveryone(p) && (has&request.FleetRoles == 0 || r.Caller.Limited):
		return own, errs.New(errs.Forbidden, "only operators can read the events of all tenants").At("scope")
	case ofEveryone(p):
		return stream.Audience{Whole: true}, nil
	case has&request.TenantWide != 0 && p.XProjectID == nil:
		own.Whole = true
		return own, nil
	// The project of a request without a header can be one in which the caller has no role.
	case p.XProjectID != nil && has&(request.TenantWide|request.ProjectBound) != 0, r.Caller.ServiceAccount != (ids.ServiceAccount{}):
		own.Projects = map[ids.Project]bool{r.Caller.Project: true}
	case p.XProjectID == nil:
		projects, err := s.Identity.ProjectsWithRole(ctx, r.Caller)
		if err != nil {
			return own, err
		}
		own.Projects = projects
		own.Money = has&request.TenantBilling != 0 && !r.Caller.Limited
	}
	if len(own.Projects) == 0 && !own.Money || own.Projects[ids.Project{}] {
		return own, errs.New(errs.Forbidden, "you are in no project of this tenant")
	}
	return own, nil
}

func ofEveryone(p oapi.ListEventsParams) bool {
	return request.Or(p.Scope, oapi.ListEventsParamsScopeTenant) == oapi.ListEventsParamsScopePlatform
}

// eventStream replaces the generated response, which would copy a reader without flushing.
type eventStream func(http.ResponseWriter) error

// VisitListEventsResponse writes until the client goes.
func (follow eventStream) VisitListEventsResponse(w http.ResponseWriter) error { return follow(w) }
