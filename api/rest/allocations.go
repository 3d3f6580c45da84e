package rest

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/allocation"
)

// CreateAllocation handles POST /api/v1/allocations. 201 is the promise; the
// machine follows, and the client watches the Location for it.
func (s *Server) CreateAllocation(ctx context.Context, req oapi.CreateAllocationRequestObject) (oapi.CreateAllocationResponseObject, error) {
	ctx, r := of(ctx)
	a, err := s.Allocations.Request(ctx, allocation.Request{
		Caller:  r.caller,
		Key:     r.key,
		SKU:     req.Body.Sku,
		GPUs:    or(req.Body.Gpus, 1),
		Region:  or(req.Body.Region, ""),
		Name:    or(req.Body.Name, ""),
		SSHKeys: sshKeys(req.Body.SshKeyIds),
		Labels:  or(req.Body.Labels, nil),
		TTL:     time.Duration(or(req.Body.TtlSeconds, 0)) * time.Second,
		Queue:   or(req.Body.Queue, false),
		Answer:  s.answerFor(r, http.StatusCreated),
	})
	if err != nil {
		return nil, err
	}
	shown := s.toAllocation(a)
	return oapi.CreateAllocation201JSONResponse{
		Body:    shown,
		Headers: oapi.CreateAllocation201ResponseHeaders{Location: locationOf(shown), ETag: tagOf(shown.Version)},
	}, nil
}

// ListAllocations handles GET /api/v1/allocations.
func (s *Server) ListAllocations(ctx context.Context, req oapi.ListAllocationsRequestObject) (oapi.ListAllocationsResponseObject, error) {
	ctx, r := of(ctx)
	f := allocation.Filter{Status: string(or(req.Params.Status, "")), SKU: or(req.Params.Sku, ""), Name: or(req.Params.Name, "")}
	if err := s.cursors.open(r, req.Params.Cursor, &f.After); err != nil {
		return nil, err
	}
	limit := limitOf(req.Params.Limit)
	f.Limit = limit + 1
	list, err := s.Allocations.List(ctx, r.caller, f)
	if err != nil {
		return nil, err
	}
	list, next, link, err := page(s, r, limit, list, func(a allocation.Allocation) any {
		return allocation.Cursor{CreatedAt: a.CreatedAt, ID: a.ID}
	})
	if err != nil {
		return nil, err
	}
	items, err := s.withCost(ctx, list)
	if err != nil {
		return nil, err
	}
	return oapi.ListAllocations200JSONResponse{
		Body:    oapi.AllocationList{Items: items, NextCursor: next},
		Headers: oapi.ListAllocations200ResponseHeaders{Link: link},
	}, nil
}

// GetAllocation handles GET /api/v1/allocations/{id}.
func (s *Server) GetAllocation(ctx context.Context, req oapi.GetAllocationRequestObject) (oapi.GetAllocationResponseObject, error) {
	ctx, r := of(ctx)
	a, err := s.within(ctx, r, req.Id)
	if err != nil {
		return nil, err
	}
	shown, err := s.withCost(ctx, []allocation.Allocation{a})
	if err != nil {
		return nil, err
	}
	if a.Queued() {
		// What it waits for changes while its version does not: it is always told.
		p, err := s.Allocations.Pending(ctx, a, r.platform)
		if err != nil {
			return nil, err
		}
		shown[0].Pending = toPending(a, p)
		return oapi.GetAllocation200JSONResponse{Body: shown[0], Headers: oapi.GetAllocation200ResponseHeaders{ETag: tagOf(shown[0].Version)}}, nil
	}
	tag := tagOf(shown[0].Version)
	if notModified(req.Params.IfNoneMatch, tag) {
		return oapi.GetAllocation304Response{Headers: oapi.GetAllocation304ResponseHeaders{ETag: tag}}, nil
	}
	return oapi.GetAllocation200JSONResponse{Body: shown[0], Headers: oapi.GetAllocation200ResponseHeaders{ETag: tag}}, nil
}

// ReleaseAllocation handles POST /api/v1/allocations/{id}/release.
func (s *Server) ReleaseAllocation(ctx context.Context, req oapi.ReleaseAllocationRequestObject) (oapi.ReleaseAllocationResponseObject, error) {
	ctx, r := of(ctx)
	a, err := s.within(ctx, r, req.Id)
	if err != nil {
		return nil, err
	}
	a, err = s.Allocations.Release(ctx, r.caller, r.key, a.ID, s.answerFor(r, http.StatusAccepted))
	if err != nil {
		return nil, err
	}
	shown := s.toAllocation(a)
	return oapi.ReleaseAllocation202JSONResponse{
		Body:    shown,
		Headers: oapi.ReleaseAllocation202ResponseHeaders{Location: locationOf(shown), ETag: tagOf(shown.Version)},
	}, nil
}

// GetAllocationTimeline handles GET /api/v1/allocations/{id}/timeline.
func (s *Server) GetAllocationTimeline(ctx context.Context, req oapi.GetAllocationTimelineRequestObject) (oapi.GetAllocationTimelineResponseObject, error) {
	ctx, r := of(ctx)
	a, err := s.within(ctx, r, req.Id)
	if err != nil {
		return nil, err
	}
	list, err := s.Allocations.Timeline(ctx, r.caller, a.ID)
	if err != nil {
		return nil, err
	}
	items := make([]oapi.Transition, len(list))
	for i, t := range list {
		items[i] = oapi.Transition{
			Version: t.Version, Event: t.Event, From: string(t.From), To: oapi.AllocationStatus(t.To),
			Reason: t.Reason, Message: t.Message, OccurredAt: t.At.UTC(),
		}
	}
	return oapi.GetAllocationTimeline200JSONResponse{Items: items}, nil
}

// within reads an allocation that the caller's roles reach: those of a project
// end at its border, and what lies beyond looks like what does not exist.
func (s *Server) within(ctx context.Context, r *call, id uuid.UUID) (allocation.Allocation, error) {
	a, err := s.Allocations.Get(ctx, r.caller, ids.From[ids.Allocation](id))
	if err != nil {
		return allocation.Allocation{}, err
	}
	if a.Project != r.caller.Project && !r.everywhere() {
		return allocation.Allocation{}, errs.New(errs.NotFound, "no such allocation")
	}
	return a, nil
}

// withCost shows allocations with what they have cost and what was seen of them,
// in one question each for all.
func (s *Server) withCost(ctx context.Context, list []allocation.Allocation) ([]oapi.Allocation, error) {
	which := make([]ids.Allocation, len(list))
	for i, a := range list {
		which[i] = a.ID
	}
	var cost map[ids.Allocation]money.Minor
	var seen map[ids.Allocation]allocation.Seen
	var err error
	if len(list) > 0 {
		if cost, err = s.Metering.CostOf(ctx, which); err != nil {
			return nil, err
		}
		if s.Seen != nil {
			if seen, err = s.Seen(ctx, which); err != nil {
				return nil, err
			}
		}
	}
	items := make([]oapi.Allocation, len(list))
	for i, a := range list {
		items[i] = s.show(a, seen[a.ID], cost[a.ID])
	}
	return items, nil
}

// toAllocation shows an allocation that has just been decided about: nothing of
// it was seen yet, and its cost is for those who ask.
func (s *Server) toAllocation(a allocation.Allocation) oapi.Allocation {
	return s.show(a, allocation.Seen{}, 0)
}

// answerFor makes what is kept with an idempotency key; nothing without one.
func (s *Server) answerFor(r *call, status int) func(allocation.Allocation) identity.Reply {
	if r.key.Key == "" {
		return nil
	}
	return func(a allocation.Allocation) identity.Reply {
		shown := s.toAllocation(a)
		return reply(status, shown, locationOf(shown), tagOf(shown.Version))
	}
}

func (s *Server) show(a allocation.Allocation, seen allocation.Seen, cost money.Minor) oapi.Allocation {
	return oapi.Allocation{
		Id: a.ID.UUID, Urn: a.URN(s.Naming), ProjectId: a.Project.UUID, UserId: a.User.UUID, NodeId: a.Node.UUID,
		Name: a.Name, Status: oapi.AllocationStatus(a.State), Reason: filled(a.Reason), Message: filled(a.Message),
		Sku: a.SKU, Gpus: a.GPUs, Region: a.Region, Login: a.Login,
		Price: amount(a.PriceMinor, a.Currency), Cost: amount(cost, a.Currency), Labels: words(a.Labels), Version: a.Version,
		CreatedAt: a.CreatedAt.UTC(), StatusAt: a.StatusAt.UTC(), ActiveAt: utc(a.ActiveAt), EndedAt: utc(a.EndedAt), ExpiresAt: utc(a.ExpiresAt),
		Conditions: toConditions(allocation.Conditions(a, seen)),
	}
}

func counted(gpus int) string {
	if gpus == 1 {
		return "a GPU"
	}
	return fmt.Sprintf("%d GPUs", gpus)
}

// toPending says why a request waits, and first what would let it through.
func toPending(a allocation.Allocation, p allocation.Pending) *oapi.Pending {
	shown := &oapi.Pending{
		Reason: "NoCapacity", Message: fmt.Sprintf("no node has %s of %s free", counted(a.GPUs), a.SKU), StartedAt: p.Since.UTC(),
		Position: filled(p.Position), DeadlineAt: utc(p.DeadlineAt), Filters: make([]oapi.FilterCount, len(p.Left)), Suggestions: make([]oapi.Fit, len(p.Fits)),
	}
	for i, l := range p.Left {
		shown.Filters[i] = oapi.FilterCount{Filter: l.Filter, Nodes: l.Nodes}
	}
	for i, f := range p.Fits {
		if shown.Suggestions[i].Text = f.Text; !f.At.IsZero() {
			shown.Suggestions[i].FitsAt = utc(&f.At)
		}
	}
	if len(p.Fits) > 0 {
		shown.Message += "; " + p.Fits[0].Text
	}
	return shown
}

func toConditions(list []allocation.Condition) []oapi.Condition {
	shown := make([]oapi.Condition, len(list))
	for i, c := range list {
		shown[i] = oapi.Condition{
			Type: oapi.ConditionType(c.Type), Status: oapi.ConditionStatus(c.Status), Reason: oapi.ConditionReason(c.Reason), Message: c.Message,
			ObservedGeneration: c.ObservedGeneration, LastTransitionTime: c.LastTransitionTime.UTC(),
		}
	}
	return shown
}

func sshKeys(asked *[]uuid.UUID) []ids.SSHKey {
	var list []ids.SSHKey
	for _, id := range or(asked, nil) {
		list = append(list, ids.From[ids.SSHKey](id))
	}
	return list
}

func locationOf(a oapi.Allocation) string { return "/api/v1/allocations/" + a.Id.String() }
