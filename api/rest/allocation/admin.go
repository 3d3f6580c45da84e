package allocation

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/manage"
)

// ListAdminAllocations handles GET /api/v1/admin/allocations.
func (s *Handlers) ListAdminAllocations(ctx context.Context, req oapi.ListAdminAllocationsRequestObject) (oapi.ListAdminAllocationsResponseObject, error) {
	ctx, r := request.Of(ctx)
	f, err := s.filter(ctx, oapi.ExportAdminAllocationsParams{
		Status: req.Params.Status, Sku: req.Params.Sku, Tenant: req.Params.Tenant, Node: req.Params.Node,
		CreatedBefore: req.Params.CreatedBefore, CreatedSince: req.Params.CreatedSince,
	})
	if err != nil {
		return nil, err
	}
	body, link, err := s.page(r, req.Params.Cursor, req.Params.Limit, "", func(after pg.Place, n int) ([]allocation.Allocation, error) {
		f.After, f.Limit = after, n
		return s.Managed.All(ctx, f)
	}, func(list []allocation.Allocation) ([]oapi.Allocation, error) { return s.forOperators(ctx, list) })
	if err != nil {
		return nil, err
	}
	return oapi.ListAdminAllocations200JSONResponse{
		Body:    body,
		Headers: oapi.ListAdminAllocations200ResponseHeaders{Link: link},
	}, nil
}

// filter reads the parameters that the list and its export share.
func (s *Handlers) filter(ctx context.Context, p oapi.ExportAdminAllocationsParams) (manage.Filter, error) {
	f := manage.Filter{
		Status: string(request.Or(p.Status, "")), SKU: request.Or(p.Sku, ""), Tenant: ids.From[ids.Tenant](request.Or(p.Tenant, uuid.Nil)),
		Before: request.Or(p.CreatedBefore, time.Time{}), Since: request.Or(p.CreatedSince, time.Time{}),
	}
	if p.Node != nil {
		n, _, err := s.Fleet.Node(ctx, *p.Node)
		if err != nil {
			return manage.Filter{}, err
		}
		f.Node = n.ID
	}
	return f, nil
}

// forOperators shows allocations with their cost and with the names of their tenants and nodes.
func (s *Handlers) forOperators(ctx context.Context, list []allocation.Allocation) ([]oapi.Allocation, error) {
	items, err := s.withCost(ctx, list)
	if err != nil || len(list) == 0 {
		return items, err
	}
	of, on := make([]uuid.UUID, len(list)), make([]uuid.UUID, len(list))
	for i, a := range list {
		of[i], on[i] = a.Tenant.UUID, a.Node.UUID
	}
	tenants, err := s.Identity.NamesOf(ctx, s.DB, of)
	if err != nil {
		return nil, err
	}
	nodes, err := s.Fleet.NodesOf(ctx, on)
	if err != nil {
		return nil, err
	}
	for i, a := range list {
		items[i].TenantId, items[i].TenantName = &a.Tenant.UUID, response.OrNil(tenants[a.Tenant.UUID])
		items[i].NodeName = response.OrNil(nodes[a.Node.UUID].Name)
	}
	return items, nil
}

// GetAdminAllocation handles GET /api/v1/admin/allocations/{id}.
func (s *Handlers) GetAdminAllocation(ctx context.Context, req oapi.GetAdminAllocationRequestObject) (oapi.GetAdminAllocationResponseObject, error) {
	ctx, _ = request.Of(ctx)
	found, err := s.Allocations.Some(ctx, []uuid.UUID{req.Id})
	if err != nil {
		return nil, err
	}
	a, exists := found[req.Id]
	if !exists {
		return nil, errs.New(errs.NotFound, "no such allocation")
	}
	shown, err := s.forOperators(ctx, []allocation.Allocation{a})
	if err != nil {
		return nil, err
	}
	if a.Queued() {
		p, err := s.Managed.Pending(ctx, a, true)
		if err != nil {
			return nil, err
		}
		shown[0].Pending = toPending(a, p)
	}
	return oapi.GetAdminAllocation200JSONResponse(shown[0]), nil
}

// ForceReleaseAllocation handles POST /api/v1/admin/allocations/{id}/force-release.
func (s *Handlers) ForceReleaseAllocation(ctx context.Context, req oapi.ForceReleaseAllocationRequestObject) (oapi.ForceReleaseAllocationResponseObject, error) {
	ctx, r := request.Of(ctx)
	a, err := s.Managed.ForceRelease(ctx, response.Change(r, func(a allocation.Allocation) identity.Reply {
		return response.Reply(http.StatusAccepted, s.toAllocation(a), "", "")
	}), ids.From[ids.Allocation](req.Id), req.Body.Reason)
	if err != nil {
		return nil, err
	}
	return oapi.ForceReleaseAllocation202JSONResponse{Body: s.toAllocation(a)}, nil
}

// allocationHeader names the columns of an export.
var allocationHeader = []string{
	"allocation_id", "tenant_id", "tenant", "project_id", "user_id", "name", "status", "reason", "sku", "gpus", "region", "node_id", "node",
	"price_minor", "cost_minor", "currency", "created_at", "active_at", "ended_at", "expires_at",
}

// exportPage is the number of allocations that an export reads at once.
const exportPage = 500

// ExportAdminAllocations handles GET /api/v1/admin/allocations/csv.
func (s *Handlers) ExportAdminAllocations(ctx context.Context, req oapi.ExportAdminAllocationsRequestObject) (oapi.ExportAdminAllocationsResponseObject, error) {
	ctx, _ = request.Of(ctx)
	f, err := s.filter(ctx, req.Params)
	if err != nil {
		return nil, err
	}
	f.Limit = exportPage
	next := func() ([]oapi.Allocation, error) {
		list, err := s.Managed.All(ctx, f)
		if err == nil && len(list) > 0 {
			f.After = allocation.Sorts.PlaceOf("", list[len(list)-1])
		}
		if err != nil {
			return nil, err
		}
		return s.forOperators(ctx, list)
	}
	items, err := next()
	if err != nil {
		return nil, err
	}
	return s.Exports.CSV(ctx, "allocations.csv", allocationHeader, func(out func(...string) error) error {
		for len(items) > 0 {
			for _, a := range items {
				if err := out(allocationLine(a)...); err != nil {
					return err
				}
			}
			if items, err = next(); err != nil {
				return err
			}
		}
		return nil
	}), nil
}

func allocationLine(a oapi.Allocation) []string {
	node := ""
	if a.NodeId != nil {
		node = a.NodeId.String()
	}
	at := func(t *time.Time) string {
		if t == nil {
			return ""
		}
		return response.Timestamp(*t)
	}
	return []string{
		a.Id.String(), a.TenantId.String(), response.SafeCell(request.Or(a.TenantName, "")), a.ProjectId.String(), a.UserId.String(), response.SafeCell(a.Name),
		string(a.Status), request.Or(a.Reason, ""), response.SafeCell(a.Sku), strconv.Itoa(a.Gpus), response.SafeCell(a.Region), node,
		response.SafeCell(request.Or(a.NodeName, "")), strconv.FormatInt(a.Price.AmountMinor, 10), strconv.FormatInt(a.Cost.AmountMinor, 10), a.Cost.Currency,
		response.Timestamp(a.CreatedAt), at(a.ActiveAt), at(a.EndedAt), at(a.ExpiresAt),
	}
}
