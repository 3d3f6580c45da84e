package allocation

import (
	"context"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/manage"
	"github.com/gpuaas/gpuaas/product/slots/place"
)

// UpdateAllocation handles PATCH /api/v1/allocations/{id}.
func (s *Handlers) UpdateAllocation(ctx context.Context, req oapi.UpdateAllocationRequestObject) (oapi.UpdateAllocationResponseObject, error) {
	ctx, r := request.Of(ctx)
	version, err := request.IfMatch(req.Params.IfMatch, true)
	if err != nil {
		return nil, err
	}
	a, err := s.within(ctx, r, req.Id)
	if err != nil {
		return nil, err
	}
	for field, set := range map[string]bool{"sku": req.Body.Sku != nil, "gpus": req.Body.Gpus != nil, "region": req.Body.Region != nil} {
		if set {
			return nil, errs.New(errs.ChangeNeedsReplacement, "the field %s of an existing allocation cannot be changed", field).At(field).
				Try("create another allocation and release this one")
		}
	}
	show, err := s.observedNow(ctx, a.ID)
	if err != nil {
		return nil, err
	}
	a, err = s.Managed.Update(ctx, response.Change(r, func(a allocation.Allocation) identity.Reply {
		return response.Reply(http.StatusOK, show(a), "", request.ETag(a.Version))
	}), a.ID, version, manage.Patch{Name: req.Body.Name, Labels: request.Or(req.Body.Labels, nil), TTL: time.Duration(request.Or(req.Body.TtlSeconds, 0)) * time.Second})
	if err != nil {
		return nil, err
	}
	return oapi.UpdateAllocation200JSONResponse{Body: show(a), Headers: oapi.UpdateAllocation200ResponseHeaders{ETag: request.ETag(a.Version)}}, nil
}

// PreviewAllocation handles POST /api/v1/allocations/preview.
func (s *Handlers) PreviewAllocation(ctx context.Context, req oapi.PreviewAllocationRequestObject) (oapi.PreviewAllocationResponseObject, error) {
	ctx, r := request.Of(ctx)
	ttl := time.Duration(request.Or(req.Body.TtlSeconds, 0)) * time.Second
	p, err := s.Managed.Preview(ctx, allocation.Request{
		Caller: r.Caller, SKU: req.Body.Sku, GPUs: request.Or(req.Body.Gpus, 1), Region: request.Or(req.Body.Region, ""), Name: request.Or(req.Body.Name, ""),
		SSHKeys: sshKeys(req.Body.SshKeyIds), TTL: ttl, Mounts: mountsOf(req.Body.Mounts),
	}, r.Platform)
	if err != nil {
		return nil, err
	}
	shown := oapi.AllocationPreview{
		Fits: p.Fits, PricePerHour: response.Money(p.PerHour, p.Allocation.Currency), Free: p.Free,
		Remaining:  oapi.RemainingAllocations{User: p.Remaining[0], Project: p.Remaining[1], Tenant: p.Remaining[2]},
		Rejections: toRejections(p.Rejections), Filters: toFilters(p.Left), Suggestions: toFits(p.Pending.Fits),
	}
	if end := p.Allocation.ExpiresAt; end != nil {
		most, err := money.Due(p.Allocation.PriceMinor, int64(p.Allocation.GPUs), int64(end.Sub(p.Allocation.CreatedAt)/time.Second))
		if err != nil {
			return nil, errs.Invalid("ttl_seconds", "this would cost more than can be counted").Because(err)
		}
		cost := response.Money(most, p.Allocation.Currency)
		shown.CostAtMost = &cost
	}
	if p.Balance.Currency == p.Allocation.Currency {
		minutes := int64(p.Runway() / time.Minute)
		shown.RunwayMinutes = &minutes
	}
	if !p.Fits {
		shown.QueuePosition = &p.Position
	}
	return oapi.PreviewAllocation200JSONResponse(shown), nil
}

// toRejections lists every rule that rejects a request.
func toRejections(all []*errs.Error) []oapi.Rejection {
	shown := make([]oapi.Rejection, len(all))
	for i, e := range all {
		shown[i] = oapi.Rejection{Code: string(e.Code), Message: e.Message, Suggestion: response.OrNil(e.Suggestion)}
	}
	return shown
}

func toFilters(list []place.Left) []oapi.FilterCount {
	shown := make([]oapi.FilterCount, len(list))
	for i, l := range list {
		shown[i] = oapi.FilterCount{Filter: l.Filter, Nodes: l.Nodes}
	}
	return shown
}

func toFits(list []place.Fit) []oapi.Fit {
	shown := make([]oapi.Fit, len(list))
	for i, f := range list {
		if shown[i].Text = f.Text; !f.At.IsZero() {
			shown[i].FitsAt = response.UTC(&f.At)
		}
	}
	return shown
}

// GetAllocationWhy handles GET /api/v1/allocations/{id}/why.
func (s *Handlers) GetAllocationWhy(ctx context.Context, req oapi.GetAllocationWhyRequestObject) (oapi.GetAllocationWhyResponseObject, error) {
	ctx, r := request.Of(ctx)
	a, d, err := s.detailed(ctx, r, req.Id)
	if err != nil {
		return nil, err
	}
	w := s.Managed.Explain(a, d.Observed[a.ID])
	if a.Queued() {
		if w.Pending, err = s.Managed.Pending(ctx, a, r.Platform); err != nil {
			return nil, err
		}
		w.Message = toPending(a, w.Pending).Message
	}
	return oapi.GetAllocationWhy200JSONResponse{
		Waits: w.Waits, Owner: oapi.AllocationWhyOwner(w.Owner), Reason: oapi.ConditionReason(w.Reason), Message: w.Message, StartedAt: w.Since.UTC(),
		DeadlineAt: response.UTC(w.DeadlineAt), Position: response.OrNil(w.Position), Filters: toFilters(w.Left), Suggestions: toFits(w.Fits),
	}, nil
}

// GetAllocationTelemetry handles GET /api/v1/allocations/{id}/telemetry. It returns only readings of the time in
// which the allocation used the GPUs: earlier and later ones are another tenant's.
func (s *Handlers) GetAllocationTelemetry(ctx context.Context, req oapi.GetAllocationTelemetryRequestObject) (oapi.GetAllocationTelemetryResponseObject, error) {
	ctx, r := request.Of(ctx)
	a, err := s.within(ctx, r, req.Id)
	if err != nil {
		return nil, err
	}
	to := request.Or(req.Params.To, s.Clock.Now()).UTC()
	from := request.Or(req.Params.From, to.Add(-time.Hour)).UTC()
	if !from.Before(to) {
		return nil, errs.Invalid("to", "must be after from")
	}
	shown := oapi.GetAllocationTelemetry200JSONResponse{Gpus: []oapi.GpuTelemetry{}}
	if a.ActiveAt == nil {
		return shown, nil
	}
	from = later(from, *a.ActiveAt)
	// From the end of its use on, its GPUs may be sold to another tenant.
	if a.State != allocation.Active && a.StatusAt.Before(to) {
		to = a.StatusAt
	}
	gpus, err := s.Slots.GPUsOf(ctx, s.DB, a.ID)
	if err != nil {
		return nil, err
	}
	readings, err := s.Observed.Readings(ctx, a.Node, gpus, from, to)
	if err != nil {
		return nil, err
	}
	for _, uuid := range gpus {
		shown.Gpus = append(shown.Gpus, oapi.GpuTelemetry{Uuid: uuid, Readings: toReadings(readings[uuid])})
	}
	return shown, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func toReadings(list []observed.Reading) []oapi.GpuReading {
	shown := make([]oapi.GpuReading, len(list))
	for i, one := range list {
		shown[i] = oapi.GpuReading{At: one.At, UtilisationPercent: one.Utilisation, UsedMib: one.UsedMiB, PowerMw: one.PowerMW, Celsius: one.Celsius}
	}
	return shown
}
