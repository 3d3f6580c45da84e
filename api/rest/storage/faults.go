package storage

import (
	"context"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/product/storage/check"
)

// ListStorageFaults handles GET /api/v1/admin/storage/faults.
func (s *Handlers) ListStorageFaults(ctx context.Context, req oapi.ListStorageFaultsRequestObject) (oapi.ListStorageFaultsResponseObject, error) {
	ctx, r := request.Of(ctx)
	var after uuid.UUID
	if err := s.Cursors.Open(r, req.Params.Cursor, &after); err != nil {
		return nil, err
	}
	found, err := s.StorageCheck.Compare(ctx, after, check.Question{
		Project: request.Or(req.Params.Project, uuid.Nil), Checksums: request.Or(req.Params.Checksums, false), Limit: response.PageSize(req.Params.Limit),
	})
	if err != nil {
		return nil, err
	}
	shown := oapi.ListStorageFaults200JSONResponse{Body: oapi.StorageFaultList{Items: make([]oapi.StorageFault, len(found.Differences))}}
	for i, d := range found.Differences {
		shown.Body.Items[i] = oapi.StorageFault{
			Fault: oapi.StorageFaultFault(d.Fault), ObjectKey: d.Key, SizeBytes: d.Size, Files: d.Files,
			ObjectId: response.OrNil(d.Object), TenantId: response.OrNil(d.Tenant), ProjectId: response.OrNil(d.Project),
		}
	}
	if found.Next != uuid.Nil {
		shown.Body.NextCursor, shown.Headers.Link, err = response.NextPage(s.Cursors, r, found.Next)
	}
	return shown, err
}
