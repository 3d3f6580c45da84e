package allocation

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/condition"
	"github.com/gpuaas/gpuaas/product/allocation/manage"
	"github.com/gpuaas/gpuaas/services"
)

// CreateAllocation handles POST /api/v1/allocations. 201 assigns the slots; the node becomes ready later, and the client
// watches the Location for it.
func (s *Handlers) CreateAllocation(ctx context.Context, req oapi.CreateAllocationRequestObject) (oapi.CreateAllocationResponseObject, error) {
	ctx, r := request.Of(ctx)
	a, err := s.Allocations.Request(ctx, allocation.Request{
		Caller:  r.Caller,
		Key:     r.Key,
		SKU:     req.Body.Sku,
		GPUs:    request.Or(req.Body.Gpus, 1),
		Region:  request.Or(req.Body.Region, ""),
		Name:    request.Or(req.Body.Name, ""),
		SSHKeys: sshKeys(req.Body.SshKeyIds),
		Labels:  request.Or(req.Body.Labels, nil),
		TTL:     time.Duration(request.Or(req.Body.TtlSeconds, 0)) * time.Second,
		Queue:   request.Or(req.Body.Queue, false),
		Mounts:  mountsOf(req.Body.Mounts),
		Answer:  s.answerFor(r, http.StatusCreated),
	})
	if err != nil {
		return nil, err
	}
	shown := s.toAllocation(a)
	return oapi.CreateAllocation201JSONResponse{
		Body:    shown,
		Headers: oapi.CreateAllocation201ResponseHeaders{Location: locationOf(shown), ETag: request.ETag(shown.Version)},
	}, nil
}

// ListAllocations handles GET /api/v1/allocations.
func (s *Handlers) ListAllocations(ctx context.Context, req oapi.ListAllocationsRequestObject) (oapi.ListAllocationsResponseObject, error) {
	ctx, r := request.Of(ctx)
	f := allocation.Filter{Status: string(request.Or(req.Params.Status, "")), SKU: request.Or(req.Params.Sku, ""), Name: request.Or(req.Params.Name, ""), Part: request.Or(req.Params.Q, ""), Sort: string(request.Or(req.Params.Sort, ""))}
	body, link, err := s.page(r, req.Params.Cursor, req.Params.Limit, f.Sort, func(after pg.Place, n int) ([]allocation.Allocation, error) {
		f.After, f.Limit = after, n
		return s.Allocations.List(ctx, r.Caller, f)
	}, func(list []allocation.Allocation) ([]oapi.Allocation, error) { return s.withCost(ctx, list) })
	if err != nil {
		return nil, err
	}
	return oapi.ListAllocations200JSONResponse{
		Body:    body,
		Headers: oapi.ListAllocations200ResponseHeaders{Link: link},
	}, nil
}

// page reads a page of allocations after a cursor, with one more than the limit, and encodes it with show. The list
// sorts by sort.
func (s *Handlers) page(r *request.Call, cursor *string, size *int, sort string, read func(after pg.Place, n int) ([]allocation.Allocation, error),
	show func([]allocation.Allocation) ([]oapi.Allocation, error),
) (body oapi.AllocationList, link *string, err error) {
	var after pg.Place
	if err := s.Cursors.Open(r, cursor, &after); err != nil {
		return body, nil, err
	}
	limit := response.PageSize(size)
	list, err := read(after, limit+1)
	if err != nil {
		return body, nil, err
	}
	list, body.NextCursor, link, err = response.CutPage(s.Cursors, r, limit, list, func(a allocation.Allocation) any { return allocation.Sorts.PlaceOf(sort, a) })
	if err != nil {
		return body, nil, err
	}
	body.Items, err = show(list)
	return body, link, err
}

// GetAllocation handles GET /api/v1/allocations/{id}.
func (s *Handlers) GetAllocation(ctx context.Context, req oapi.GetAllocationRequestObject) (oapi.GetAllocationResponseObject, error) {
	ctx, r := request.Of(ctx)
	a, d, err := s.detailed(ctx, r, req.Id)
	if err != nil {
		return nil, err
	}
	shown := s.show(a, d.Observed[a.ID], d.Cost[a.ID])
	if a.Queued() {
		// The reason of the wait changes without a new version, so the response always has it.
		p, err := s.Managed.Pending(ctx, a, r.Platform)
		if err != nil {
			return nil, err
		}
		shown.Pending = toPending(a, p)
		return oapi.GetAllocation200JSONResponse{Body: shown, Headers: oapi.GetAllocation200ResponseHeaders{ETag: request.ETag(shown.Version)}}, nil
	}
	tag := request.ETag(shown.Version)
	if request.NotModified(req.Params.IfNoneMatch, tag) {
		return oapi.GetAllocation304Response{Headers: oapi.GetAllocation304ResponseHeaders{ETag: tag}}, nil
	}
	return oapi.GetAllocation200JSONResponse{Body: shown, Headers: oapi.GetAllocation200ResponseHeaders{ETag: tag}}, nil
}

// ReleaseAllocation handles POST /api/v1/allocations/{id}/release.
func (s *Handlers) ReleaseAllocation(ctx context.Context, req oapi.ReleaseAllocationRequestObject) (oapi.ReleaseAllocationResponseObject, error) {
	ctx, r := request.Of(ctx)
	a, err := s.within(ctx, r, req.Id)
	if err != nil {
		return nil, err
	}
	a, err = s.Allocations.Release(ctx, r.Caller, r.Key, a.ID, s.answerFor(r, http.StatusAccepted))
	if err != nil {
		return nil, err
	}
	shown := s.toAllocation(a)
	return oapi.ReleaseAllocation202JSONResponse{
		Body:    shown,
		Headers: oapi.ReleaseAllocation202ResponseHeaders{Location: locationOf(shown), ETag: request.ETag(shown.Version)},
	}, nil
}

// GetAllocationTimeline handles GET /api/v1/allocations/{id}/timeline.
func (s *Handlers) GetAllocationTimeline(ctx context.Context, req oapi.GetAllocationTimelineRequestObject) (oapi.GetAllocationTimelineResponseObject, error) {
	ctx, r := request.Of(ctx)
	a, err := s.within(ctx, r, req.Id)
	if err != nil {
		return nil, err
	}
	list, err := s.Allocations.Timeline(ctx, r.Caller, a.ID)
	if err != nil {
		return nil, err
	}
	items := make([]oapi.Transition, len(list))
	for i, t := range list {
		items[i] = oapi.Transition{
			Version: t.Version, Event: t.Event, From: string(t.From), To: oapi.AllocationStatus(t.To),
			Reason: t.Reason, Message: t.Message, Actor: response.OrNil(t.Actor), OccurredAt: t.At.UTC(),
		}
	}
	return oapi.GetAllocationTimeline200JSONResponse{Items: items}, nil
}

// within reads an allocation that the roles of the caller include.
func (s *Handlers) within(ctx context.Context, r *request.Call, id uuid.UUID) (allocation.Allocation, error) {
	a, err := s.Allocations.Get(ctx, r.Caller, ids.From[ids.Allocation](id))
	if err != nil {
		return allocation.Allocation{}, err
	}
	return a, included(r, a)
}

// detailed is within, with the details of the allocation.
func (s *Handlers) detailed(ctx context.Context, r *request.Call, id uuid.UUID) (allocation.Allocation, services.AllocationDetails, error) {
	a, d, err := s.AllocationWithDetails(ctx, r.Caller, ids.From[ids.Allocation](id))
	if err != nil {
		return allocation.Allocation{}, services.AllocationDetails{}, err
	}
	return a, d, included(r, a)
}

// included rejects an allocation outside the project of a role that ends at the border of its project. The
// allocation is reported as not found.
func included(r *request.Call, a allocation.Allocation) error {
	if a.Project != r.Caller.Project && !r.OutsideProjects() {
		return errs.New(errs.NotFound, "no such allocation")
	}
	return nil
}

// withCost encodes allocations with their cost and their observed state.
func (s *Handlers) withCost(ctx context.Context, list []allocation.Allocation) ([]oapi.Allocation, error) {
	which := make([]ids.Allocation, len(list))
	for i, a := range list {
		which[i] = a.ID
	}
	d, err := s.AllocationDetails(ctx, which)
	if err != nil {
		return nil, err
	}
	items := make([]oapi.Allocation, len(list))
	for i, a := range list {
		items[i] = s.show(a, d.Observed[a.ID], d.Cost[a.ID])
	}
	return items, nil
}

// observedNow returns the function that encodes a changed allocation with its present observed state and cost.
func (s *Handlers) observedNow(ctx context.Context, id ids.Allocation) (func(allocation.Allocation) oapi.Allocation, error) {
	d, err := s.AllocationDetails(ctx, []ids.Allocation{id})
	return func(a allocation.Allocation) oapi.Allocation { return s.show(a, d.Observed[id], d.Cost[id]) }, err
}

// toAllocation encodes a new or changed allocation without its observed state and cost, which only
// read operations return.
func (s *Handlers) toAllocation(a allocation.Allocation) oapi.Allocation {
	return s.show(a, condition.Observed{}, 0)
}

// answerFor returns the function that encodes the response stored with an idempotency key, or nil
// without a key.
func (s *Handlers) answerFor(r *request.Call, status int) func(allocation.Allocation) identity.Reply {
	if r.Key.Key == "" {
		return nil
	}
	return func(a allocation.Allocation) identity.Reply {
		shown := s.toAllocation(a)
		return response.Reply(status, shown, locationOf(shown), request.ETag(shown.Version))
	}
}

func (s *Handlers) show(a allocation.Allocation, seen condition.Observed, cost money.Minor) oapi.Allocation {
	return oapi.Allocation{
		Id: a.ID.UUID, Urn: a.URN(s.Naming), ProjectId: a.Project.UUID, UserId: a.User.UUID, NodeId: response.OrNil(a.Node.UUID),
		Name: a.Name, Status: oapi.AllocationStatus(a.State), Reason: response.OrNil(a.Reason), Message: response.OrNil(a.Message),
		Sku: a.SKU, Gpus: a.GPUs, Region: a.Region, Login: a.Login,
		Price: response.Money(a.PriceMinor, a.Currency), Cost: response.Money(cost, a.Currency), Labels: response.Labels(a.Labels), Version: a.Version,
		CreatedAt: a.CreatedAt.UTC(), StatusAt: a.StatusAt.UTC(), UpdatedAt: a.UpdatedAt.UTC(), ActiveAt: response.UTC(a.ActiveAt), EndedAt: response.UTC(a.EndedAt), ExpiresAt: response.UTC(a.ExpiresAt),
		Conditions: toConditions(condition.Of(a, seen)), Mounts: toMounts(a.Mounts),
	}
}

func counted(gpus int) string {
	if gpus == 1 {
		return "a GPU"
	}
	return fmt.Sprintf("%d GPUs", gpus)
}

// toPending returns why a request waits, and first what would allow it.
func toPending(a allocation.Allocation, p manage.Pending) *oapi.Pending {
	shown := &oapi.Pending{
		Reason: "NoCapacity", Message: fmt.Sprintf("no node has %s of %s free", counted(a.GPUs), a.SKU), StartedAt: p.Since.UTC(),
		Position: response.OrNil(p.Position), DeadlineAt: response.UTC(p.DeadlineAt), Filters: make([]oapi.FilterCount, len(p.Left)), Suggestions: make([]oapi.Fit, len(p.Fits)),
	}
	for i, l := range p.Left {
		shown.Filters[i] = oapi.FilterCount{Filter: l.Filter, Nodes: l.Nodes}
	}
	for i, f := range p.Fits {
		if shown.Suggestions[i].Text = f.Text; !f.At.IsZero() {
			shown.Suggestions[i].FitsAt = response.UTC(&f.At)
		}
	}
	if len(p.Fits) > 0 {
		shown.Message += "; " + p.Fits[0].Text
	}
	return shown
}

func toConditions(list []condition.Condition) []oapi.Condition {
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
	for _, id := range request.Or(asked, nil) {
		list = append(list, ids.From[ids.SSHKey](id))
	}
	return list
}

func mountsOf(asked *[]oapi.AllocationMount) []desired.Mount {
	var list []desired.Mount
	for _, m := range request.Or(asked, nil) {
		list = append(list, desired.Mount{Path: request.Or(m.Path, ""), At: m.At, ReadOnly: request.Or(m.Mode, oapi.Rw) == oapi.Ro})
	}
	return list
}

func toMounts(list []desired.Mount) *[]oapi.AllocationMount {
	shown := make([]oapi.AllocationMount, len(list))
	for i, m := range list {
		mode := oapi.Rw
		if m.ReadOnly {
			mode = oapi.Ro
		}
		shown[i] = oapi.AllocationMount{Path: &m.Path, At: m.At, Mode: &mode}
	}
	if len(shown) == 0 {
		return nil
	}
	return &shown
}

func locationOf(a oapi.Allocation) string { return "/api/v1/allocations/" + a.Id.String() }
