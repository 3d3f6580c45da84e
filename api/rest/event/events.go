package event

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/stream"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/handshake"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/notification"
)

// ListEvents handles GET /api/v1/events. What is wrong with the request is an
// ordinary problem; once the stream is open there are only events, for as long as
// the caller may have them.
func (s *Handlers) ListEvents(ctx context.Context, req oapi.ListEventsRequestObject) (oapi.ListEventsResponseObject, error) {
	// A browser that reconnects sends the header along with the old URL.
	after := request.Or(req.Params.LastEventID, request.Or(req.Params.Since, ""))
	f, err := s.open(ctx, req.Params, after)
	if err != nil {
		return nil, err
	}
	return eventStream(func(w http.ResponseWriter) error { return f.run(func() error { return f.SendSSE(w) }) }), nil
}

// FollowEvents handles GET /ws/events, which is ListEvents over a websocket.
func (s *Handlers) FollowEvents(ctx context.Context, req oapi.FollowEventsRequestObject) (oapi.FollowEventsResponseObject, error) {
	c, err := request.GinContext(ctx)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(request.SameOrigin(c.Request), handshake.Check(c.Request, stream.Subprotocol, ", or GET /api/v1/events")); err != nil {
		return nil, err
	}
	f, err := s.open(ctx, oapi.ListEventsParams{
		XProjectID: req.Params.XProjectID, Types: req.Params.Types, Scope: (*oapi.ListEventsParamsScope)(req.Params.Scope),
	}, request.Or(req.Params.Since, ""))
	if err != nil {
		return nil, err
	}
	return eventStream(func(w http.ResponseWriter) error { //nolint:contextcheck // the stream has the context
		return f.run(func() error { return f.SendWebSocket(w, c.Request) })
	}), nil
}

// following is an open stream with the check of the caller's rights.
type following struct {
	*stream.Stream

	ctx   context.Context //nolint:containedctx // of the request
	end   context.CancelCauseFunc
	watch func(context.Context) error
}

// open finds out what the caller may follow, and from where.
func (s *Handlers) open(ctx context.Context, p oapi.ListEventsParams, after string) (*following, error) {
	c, err := request.GinContext(ctx)
	if err != nil {
		return nil, err
	}
	ctx, r := request.Of(ctx)
	to, err := s.audience(ctx, r, p)
	if err != nil {
		return nil, err
	}
	token, err := s.Chain.Token(c, r)
	if err != nil {
		return nil, err
	}
	notifications := s.notificationsOf(ctx, r.Caller)
	if ofEveryone(p) { // the rule that let them in is that of anybody's own events
		ctx = pg.WithScope(ctx, pg.Platform)
	}
	ctx, end := context.WithCancelCause(ctx)
	opened, err := s.Stream.Open(ctx, stream.Request{Audience: to, Caller: r.Caller.Principal(), After: after, Notifications: notifications})
	if err != nil {
		end(nil)
		return nil, err
	}
	watch := func(ctx context.Context) error { return s.stillFollows(ctx, c, r, p, token, to) }
	return &following{opened, ctx, end, watch}, nil
}

// run sends until the caller has lost the right to it.
func (f *following) run(send func() error) error {
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		f.end(middleware.WhileAllowed(f.ctx, f.watch))
	}()
	// The watcher reads gin's context, which belongs to the next request soon.
	defer func() { f.end(nil); <-watched }()
	return send()
}

// stillFollows authenticates the caller of a stream again, and returns an error if the caller may no longer
// read the same events. A stream with other projects is a new one, which the client opens.
func (s *Handlers) stillFollows(ctx context.Context, c *gin.Context, opened *request.Call, p oapi.ListEventsParams, token string, to stream.Audience) error {
	r, err := s.Chain.Again(ctx, c, opened, token)
	if err != nil {
		return err
	}
	now, err := s.audience(ctx, r, p)
	if err == nil && !now.Equal(to) {
		err = errs.New(errs.Forbidden, "the caller has other rights than when the stream was opened")
	}
	return err
}

// notificationsOf returns how to read the notifications of a caller. A service account has none, and no scope of a token permits
// them.
func (s *Handlers) notificationsOf(ctx context.Context, caller identity.Caller) *stream.Notifications {
	if caller.ServiceAccount != (ids.ServiceAccount{}) || caller.Limited {
		return nil
	}
	scope := pg.ScopeFrom(ctx)
	return &stream.Notifications{Topic: notification.Topic(caller.User), Unread: func(ctx context.Context) ([]stream.Notification, error) {
		unread, err := s.Notifications.List(pg.WithScope(ctx, scope), caller, true, uuid.Nil, stream.MostUnread)
		if err != nil {
			return nil, err
		}
		all := make([]stream.Notification, len(unread))
		for n, one := range unread {
			data, err := json.Marshal(s.toNotification(one))
			if err != nil {
				return nil, fmt.Errorf("encoding notification %s: %w", one.ID, err)
			}
			all[n] = stream.Notification{ID: one.ID, UpdatedAt: one.UpdatedAt, Data: data}
		}
		return all, nil
	}}
}

// audience returns the events that the caller reads: those of all tenants for operators who request them, of the tenant,
// of the named project, or of all projects in which the caller has a role. A user of the billing also reads the events of
// the tenant's money. A token with scopes reads the events of allocations only.
func (s *Handlers) audience(ctx context.Context, r *request.Call, p oapi.ListEventsParams) (stream.Audience, error) {
	has := request.RolesOf(r.Caller)
	own := stream.Audience{Tenant: r.Caller.Tenant, Types: typesOf(p)}
	switch {
	// A scope of a token applies in one tenant only, also if an operator owns the token.
	case ofEveryone(p) && (has&request.FleetRoles == 0 || r.Caller.Limited):
		return own, errs.New(errs.Forbidden, "only operators can read the events of all tenants").At("scope")
	case ofEveryone(p):
		return stream.Audience{Whole: true, Types: own.Types}, nil
	case has&request.TenantWide != 0 && p.XProjectID == nil:
		own.Whole, own.AllProjects = !r.Caller.Limited, r.Caller.Limited
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

func typesOf(p oapi.ListEventsParams) map[string]bool {
	if p.Types == nil {
		return nil
	}
	selected := map[string]bool{}
	for _, t := range *p.Types {
		selected[string(t)] = true
	}
	return selected
}

func ofEveryone(p oapi.ListEventsParams) bool {
	return request.Or(p.Scope, oapi.ListEventsParamsScopeTenant) == oapi.ListEventsParamsScopePlatform
}

// eventStream replaces the generated response, which would copy a reader without flushing.
type eventStream func(http.ResponseWriter) error

// VisitListEventsResponse writes until the client goes.
func (follow eventStream) VisitListEventsResponse(w http.ResponseWriter) error { return follow(w) }

// VisitFollowEventsResponse writes until the client goes.
func (follow eventStream) VisitFollowEventsResponse(w http.ResponseWriter) error { return follow(w) }
