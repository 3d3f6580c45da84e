package fleet

import (
	"context"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/platform/catalog"
)

// ListStorageClasses handles GET /api/v1/storage-classes.
func (s *Handlers) ListStorageClasses(ctx context.Context, req oapi.ListStorageClassesRequestObject) (oapi.ListStorageClassesResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after string, n int) ([]catalog.StorageClass, error) {
		return s.Catalog.StorageClasses(ctx, after, n)
	}, func(c catalog.StorageClass) string { return c.Name }, s.toStorageClass)
	if err != nil {
		return nil, err
	}
	return oapi.ListStorageClasses200JSONResponse{
		Body:    oapi.StorageClassList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListStorageClasses200ResponseHeaders{Link: l.Link},
	}, nil
}

func (s *Handlers) toStorageClass(c catalog.StorageClass) oapi.StorageClass {
	return oapi.StorageClass{
		Id: c.ID.UUID, Urn: s.Naming.Name("", "", "storage-class", c.ID.String()).String(), CreatedAt: c.CreatedAt.UTC(), UpdatedAt: c.UpdatedAt.UTC(),
		Name: c.Name, DisplayName: c.DisplayName, Price: response.Money(c.PriceMinor, c.Currency), FreeGib: c.FreeGiB, RetentionDays: c.RetentionDays, Default: c.Default,
	}
}
