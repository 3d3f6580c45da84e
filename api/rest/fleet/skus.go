package fleet

import (
	"context"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/catalog"
	"github.com/gpuaas/gpuaas/product/slots"
)

// ListSkus handles GET /api/v1/skus.
func (s *Handlers) ListSkus(ctx context.Context, req oapi.ListSkusRequestObject) (oapi.ListSkusResponseObject, error) {
	ctx, r := request.Of(ctx)
	var after string
	if err := s.Cursors.Open(r, req.Params.Cursor, &after); err != nil {
		return nil, err
	}
	limit := response.PageSize(req.Params.Limit)
	skus, err := s.Catalog.List(ctx, after, limit+1)
	if err != nil {
		return nil, err
	}
	skus, next, link, err := response.CutPage(s.Cursors, r, limit, skus, func(sku catalog.SKU) any { return sku.Name })
	if err != nil {
		return nil, err
	}
	capacity, err := s.capacity(ctx, r)
	if err != nil {
		return nil, err
	}
	items := make([]oapi.Sku, len(skus))
	for i, sku := range skus {
		items[i] = s.toSku(sku, capacity)
	}
	return oapi.ListSkus200JSONResponse{
		Body:    oapi.SkuList{Items: items, NextCursor: next},
		Headers: oapi.ListSkus200ResponseHeaders{Link: link},
	}, nil
}

// GetSku handles GET /api/v1/skus/{sku}. One that is no longer sold is not there.
func (s *Handlers) GetSku(ctx context.Context, req oapi.GetSkuRequestObject) (oapi.GetSkuResponseObject, error) {
	ctx, _ = request.Of(ctx)
	sku, err := s.Catalog.Get(ctx, req.Sku)
	if err != nil {
		return nil, err
	}
	if !sku.Active {
		return nil, errs.New(errs.NotFound, "no such SKU")
	}
	capacity, err := s.Slots.Capacity(ctx)
	if err != nil {
		return nil, err
	}
	return oapi.GetSku200JSONResponse(s.toSku(sku, capacity)), nil
}

// GetNodeCapacity handles GET /api/v1/nodes. It returns sums: only operators may read single nodes and their
// allocations.
func (s *Handlers) GetNodeCapacity(ctx context.Context, _ oapi.GetNodeCapacityRequestObject) (oapi.GetNodeCapacityResponseObject, error) {
	ctx, r := request.Of(ctx)
	capacity, err := s.capacity(ctx, r)
	if err != nil {
		return nil, err
	}
	items := make([]oapi.Capacity, len(capacity))
	for i, c := range capacity {
		items[i] = oapi.Capacity{Sku: c.SKU, Region: c.Region, Nodes: c.Nodes, Total: c.Total, Free: c.Free}
	}
	return oapi.GetNodeCapacity200JSONResponse{Items: items}, nil
}

// capacity counts the slots of the fleet, once for all sections of a read model.
func (s *Handlers) capacity(ctx context.Context, r *request.Call) ([]slots.Capacity, error) {
	return request.Shared(r, "capacity", func() ([]slots.Capacity, error) { return s.Slots.Capacity(ctx) })
}

func (s *Handlers) toSku(sku catalog.SKU, capacity []slots.Capacity) oapi.Sku {
	shown := oapi.Sku{
		Id: sku.ID.UUID, Urn: s.Naming.Name("", "", "sku", sku.ID.String()).String(), CreatedAt: sku.CreatedAt.UTC(), UpdatedAt: sku.UpdatedAt.UTC(),
		Name: sku.Name, DisplayName: sku.DisplayName, GpuModel: sku.GPUModel, MemoryGib: sku.MemoryGiB,
		Isolation: oapi.SkuIsolation(sku.Isolation), MaxGpus: sku.MaxGPUs, Price: response.Money(sku.PriceMinor, sku.Currency),
		Regions: []oapi.SkuRegion{},
	}
	for _, c := range capacity {
		if c.SKU == sku.Name {
			shown.Free += c.Free
			shown.Regions = append(shown.Regions, oapi.SkuRegion{Region: c.Region, Total: c.Total, Free: c.Free})
		}
	}
	return shown
}
