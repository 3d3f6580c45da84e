// Package storage serves the operations of the files of a project.
package storage

import (
	"context"
	"encoding/hex"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/listing"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
	"github.com/gpuaas/gpuaas/services"
)

// Handlers implements the operations.
type Handlers struct {
	*services.Services

	Cursors response.Cursors
	Exports response.Exports
	// Origin is that of signed URLs; empty: that of the portal.
	Origin string
}

// ListStorage handles GET /api/v1/storage/list.
func (s *Handlers) ListStorage(ctx context.Context, req oapi.ListStorageRequestObject) (oapi.ListStorageResponseObject, error) {
	ctx, r := request.Of(ctx)
	p := req.Params
	if request.Or(p.Deleted, false) {
		return s.listDeleted(ctx, r, p)
	}
	folder, err := objectpath.ParseFolder("prefix", request.Or(p.Prefix, ""))
	if err != nil {
		return nil, err
	}
	q := listing.Query{Folder: folder, Recursive: request.Or(p.Recursive, false), Newest: request.Or(p.Sort, oapi.ListStorageParamsSortName) == oapi.ListStorageParamsSortUpdatedAt}
	l, err := response.List(s.Cursors, r, p.Cursor, p.Limit, func(after listing.Position, n int) ([]storage.Object, error) {
		q.After, q.Limit = after, n
		return listing.Service{Service: s.Storage}.List(ctx, storage.ScopeOf(r.Caller), q)
	}, func(o storage.Object) listing.Position { return listing.PositionOf(o, q) }, s.shower(r))
	return page(l), err
}

func (s *Handlers) listDeleted(ctx context.Context, r *request.Call, p oapi.ListStorageParams) (oapi.ListStorageResponseObject, error) {
	// A parameter that is absent has its default.
	if p.Prefix != nil || request.Or(p.Recursive, false) || request.Or(p.Sort, oapi.ListStorageParamsSortName) != oapi.ListStorageParamsSortName {
		return nil, errs.Invalid("deleted", "excludes prefix, recursive and sort")
	}
	l, err := response.List(s.Cursors, r, p.Cursor, p.Limit, func(after uuid.UUID, n int) ([]storage.Object, error) {
		return s.Storage.Deleted(ctx, storage.ScopeOf(r.Caller), after, n)
	}, func(o storage.Object) uuid.UUID { return o.ID }, s.shower(r))
	return page(l), err
}

func page(l response.ListPage[oapi.StorageObject]) oapi.ListStorageResponseObject {
	return oapi.ListStorage200JSONResponse{
		Body: oapi.StorageObjectList{Items: l.Items, NextCursor: l.Next}, Headers: oapi.ListStorage200ResponseHeaders{Link: l.Link},
	}
}

// StatStorage handles GET /api/v1/storage/stat.
func (s *Handlers) StatStorage(ctx context.Context, req oapi.StatStorageRequestObject) (oapi.StatStorageResponseObject, error) {
	ctx, r := request.Of(ctx)
	p, err := objectpath.ParseFolder("path", req.Params.Path)
	if err != nil {
		return nil, err
	}
	o, err := s.Storage.Stat(ctx, storage.ScopeOf(r.Caller), p)
	if err != nil {
		return nil, err
	}
	return oapi.StatStorage200JSONResponse{Body: s.show(r, o), Headers: oapi.StatStorage200ResponseHeaders{ETag: o.ETag()}}, nil
}

// CreateStorageFolder handles POST /api/v1/storage/mkdir.
func (s *Handlers) CreateStorageFolder(ctx context.Context, req oapi.CreateStorageFolderRequestObject) (oapi.CreateStorageFolderResponseObject, error) {
	ctx, r := request.Of(ctx)
	p, err := objectpath.Parse("path", req.Body.Path)
	if err != nil {
		return nil, err
	}
	o, err := s.Storage.CreateFolder(ctx, s.change(r, http.StatusCreated), p)
	if err != nil {
		return nil, err
	}
	return oapi.CreateStorageFolder201JSONResponse{Body: s.show(r, o), Headers: oapi.CreateStorageFolder201ResponseHeaders{Location: locationOf(o), ETag: o.ETag()}}, nil
}

// RenameStorage handles POST /api/v1/storage/rename.
func (s *Handlers) RenameStorage(ctx context.Context, req oapi.RenameStorageRequestObject) (oapi.RenameStorageResponseObject, error) {
	ctx, r := request.Of(ctx)
	from, to, err := both(req.Body)
	if err != nil {
		return nil, err
	}
	o, err := s.Storage.Rename(ctx, s.change(r, http.StatusOK), from, to, storage.Condition{ETag: request.Or(req.Params.IfMatch, "")})
	if err != nil {
		return nil, err
	}
	return oapi.RenameStorage200JSONResponse{Body: s.show(r, o), Headers: oapi.RenameStorage200ResponseHeaders{ETag: o.ETag()}}, nil
}

// CopyStorage handles POST /api/v1/storage/copy.
func (s *Handlers) CopyStorage(ctx context.Context, req oapi.CopyStorageRequestObject) (oapi.CopyStorageResponseObject, error) {
	ctx, r := request.Of(ctx)
	from, to, err := both(req.Body)
	if err != nil {
		return nil, err
	}
	c := storage.Condition{ETag: request.Or(req.Params.IfMatch, ""), Absent: req.Params.IfNoneMatch != nil}
	o, err := s.Storage.Copy(ctx, s.change(r, http.StatusCreated), storage.NewCopy{From: from, To: to, If: c})
	if err != nil {
		return nil, err
	}
	return oapi.CopyStorage201JSONResponse{Body: s.show(r, o), Headers: oapi.CopyStorage201ResponseHeaders{Location: locationOf(o), ETag: o.ETag()}}, nil
}

func both(body *oapi.StorageRenameRequest) (from, to objectpath.Path, err error) {
	if from, err = objectpath.Parse("from", body.From); err == nil {
		to, err = objectpath.Parse("to", body.To)
	}
	return from, to, err
}

// DeleteStorage handles DELETE /api/v1/storage/delete.
func (s *Handlers) DeleteStorage(ctx context.Context, req oapi.DeleteStorageRequestObject) (oapi.DeleteStorageResponseObject, error) {
	ctx, r := request.Of(ctx)
	o, err := s.remove(ctx, r, req.Params)
	if err != nil {
		return nil, err
	}
	return oapi.DeleteStorage200JSONResponse{Body: s.show(r, o)}, nil
}

func (s *Handlers) remove(ctx context.Context, r *request.Call, p oapi.DeleteStorageParams) (storage.Object, error) {
	change := s.change(r, http.StatusOK)
	switch {
	case (p.Id == nil) == (p.Path == nil):
		return storage.Object{}, errs.Invalid("path", "is missing, or there is an id as well").Try("give a path, or the id of a deleted object")
	// A parameter that is absent has its default, so that permanent=false cannot be rejected.
	case p.Id != nil && (request.Or(p.Recursive, false) || p.IfMatch != nil):
		return storage.Object{}, errs.Invalid("id", "excludes recursive and If-Match: a deleted object is purged")
	case p.Id != nil:
		return s.Storage.Purge(ctx, change, *p.Id)
	}
	path, err := objectpath.Parse("path", *p.Path)
	if err != nil {
		return storage.Object{}, err
	}
	return s.Storage.Delete(ctx, change, storage.Removal{
		Path: path, Recursive: request.Or(p.Recursive, false), Permanent: request.Or(p.Permanent, false), If: storage.Condition{ETag: request.Or(p.IfMatch, "")},
	})
}

// RestoreStorage handles POST /api/v1/storage/restore.
func (s *Handlers) RestoreStorage(ctx context.Context, req oapi.RestoreStorageRequestObject) (oapi.RestoreStorageResponseObject, error) {
	ctx, r := request.Of(ctx)
	var to objectpath.Path
	if req.Body.Path != nil {
		var err error
		if to, err = objectpath.Parse("path", *req.Body.Path); err != nil {
			return nil, err
		}
	}
	o, err := s.Storage.Restore(ctx, s.change(r, http.StatusOK), req.Body.ObjectId, to)
	if err != nil {
		return nil, err
	}
	return oapi.RestoreStorage200JSONResponse{Body: s.show(r, o), Headers: oapi.RestoreStorage200ResponseHeaders{ETag: o.ETag()}}, nil
}

// GetStorageUsage handles GET /api/v1/storage/usage.
func (s *Handlers) GetStorageUsage(ctx context.Context, _ oapi.GetStorageUsageRequestObject) (oapi.GetStorageUsageResponseObject, error) {
	ctx, r := request.Of(ctx)
	u, err := s.Storage.Usage(ctx, storage.ScopeOf(r.Caller))
	if err != nil {
		return nil, err
	}
	shown := oapi.StorageUsage{Bytes: u.Bytes, ReservedBytes: u.Reserved, Objects: u.Objects, QuotaBytes: u.QuotaBytes, QuotaObjects: u.QuotaObjects}
	shown.Tenant.Bytes, shown.Tenant.Objects, shown.Tenant.QuotaBytes, shown.Tenant.QuotaObjects = u.TenantBytes, u.TenantObjects, u.TenantQuotaBytes, u.TenantQuotaObjects
	return oapi.GetStorageUsage200JSONResponse(shown), nil
}

func (s *Handlers) change(r *request.Call, status int) identity.Change[storage.Object] {
	return response.Change(r, func(o storage.Object) identity.Reply {
		at, etag := "", o.ETag()
		if status == http.StatusCreated {
			at = locationOf(o)
		}
		if o.DeletedAt != nil {
			etag = ""
		}
		return response.Reply(status, s.show(r, o), at, etag)
	})
}

func locationOf(o storage.Object) string {
	return "/api/v1/storage/stat?" + url.Values{"path": {o.Path.String()}}.Encode()
}

func (s *Handlers) shower(r *request.Call) func(storage.Object) oapi.StorageObject {
	return func(o storage.Object) oapi.StorageObject { return s.show(r, o) }
}

func (s *Handlers) show(r *request.Call, o storage.Object) oapi.StorageObject {
	shown := oapi.StorageObject{
		Id: o.ID, Urn: s.Naming.Name(r.Caller.Tenant.String(), r.Caller.Project.String(), "storage-object", o.ID.String()).String(),
		Path: o.Path.String(), Name: o.Name, Type: oapi.StorageObjectType(o.Type), SizeBytes: o.Size, Etag: o.ETag(), CreatedBy: o.CreatedBy,
		CreatedAt: o.CreatedAt.UTC(), UpdatedAt: o.UpdatedAt.UTC(), DeletedAt: response.UTC(o.DeletedAt), PurgeAt: response.UTC(o.PurgeAt),
		Sha256: response.OrNil(hex.EncodeToString(o.SHA256)), MediaType: response.OrNil(o.MediaType),
	}
	if o.DeletedPath != "" {
		shown.Path = o.DeletedPath
	}
	return shown
}
