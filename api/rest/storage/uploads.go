package storage

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

// ListStorageUploads handles GET /api/v1/storage/uploads.
func (s *Handlers) ListStorageUploads(ctx context.Context, req oapi.ListStorageUploadsRequestObject) (oapi.ListStorageUploadsResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after uuid.UUID, n int) ([]storage.Upload, error) {
		return s.Storage.Uploads(ctx, storage.ScopeOf(r.Caller), after, n)
	}, func(u storage.Upload) uuid.UUID { return u.ID }, func(u storage.Upload) oapi.StorageUpload { return s.showUpload(r, u) })
	return oapi.ListStorageUploads200JSONResponse{
		Body: oapi.StorageUploadList{Items: l.Items, NextCursor: l.Next}, Headers: oapi.ListStorageUploads200ResponseHeaders{Link: l.Link},
	}, err
}

// CreateStorageUpload handles POST /api/v1/storage/uploads.
func (s *Handlers) CreateStorageUpload(ctx context.Context, req oapi.CreateStorageUploadRequestObject) (oapi.CreateStorageUploadResponseObject, error) {
	ctx, r := request.Of(ctx)
	n, err := newUpload(req)
	if err != nil {
		return nil, err
	}
	u, err := s.Storage.CreateUpload(ctx, response.Change(r, func(u storage.Upload) identity.Reply {
		return response.Reply(http.StatusCreated, s.showUpload(r, u), uploadURL(u.ID), "")
	}), n)
	if err != nil {
		return nil, err
	}
	return oapi.CreateStorageUpload201JSONResponse{Body: s.showUpload(r, u), Headers: oapi.CreateStorageUpload201ResponseHeaders{Location: uploadURL(u.ID)}}, nil
}

func newUpload(req oapi.CreateStorageUploadRequestObject) (n storage.NewUpload, err error) {
	n.Size, n.PartSize = req.Body.SizeBytes, request.Or(req.Body.PartSizeBytes, 0)
	n.If = storage.Condition{ETag: request.Or(req.Params.IfMatch, ""), Absent: req.Params.IfNoneMatch != nil}
	if n.Path, err = objectpath.Parse("path", req.Body.Path); err != nil {
		return n, err
	}
	if n.MediaType, err = mediaTypeOf(request.Or(req.Body.MediaType, "")); err != nil {
		return n, errs.Invalid("media_type", "is not a media type")
	}
	n.SHA256, err = hex.DecodeString(request.Or(req.Body.Sha256, ""))
	if len(n.SHA256) == 0 {
		n.SHA256 = nil
	}
	return n, err
}

// GetStorageUpload handles GET /api/v1/storage/uploads/{id}.
func (s *Handlers) GetStorageUpload(ctx context.Context, req oapi.GetStorageUploadRequestObject) (oapi.GetStorageUploadResponseObject, error) {
	ctx, r := request.Of(ctx)
	u, err := s.Storage.UploadOf(ctx, storage.ScopeOf(r.Caller), req.Id)
	if err != nil {
		return nil, err
	}
	return oapi.GetStorageUpload200JSONResponse(s.showUpload(r, u)), nil
}

// AbortStorageUpload handles DELETE /api/v1/storage/uploads/{id}.
func (s *Handlers) AbortStorageUpload(ctx context.Context, req oapi.AbortStorageUploadRequestObject) (oapi.AbortStorageUploadResponseObject, error) {
	ctx, r := request.Of(ctx)
	err := s.Storage.Abort(ctx, response.Change(r, func(storage.Upload) identity.Reply { return response.Reply(http.StatusNoContent, nil, "", "") }), req.Id)
	if err != nil {
		return nil, err
	}
	return oapi.AbortStorageUpload204Response{}, nil
}

// ListStorageUploadParts handles GET /api/v1/storage/uploads/{id}/parts.
func (s *Handlers) ListStorageUploadParts(ctx context.Context, req oapi.ListStorageUploadPartsRequestObject) (oapi.ListStorageUploadPartsResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after, n int) ([]storage.Part, error) {
		return s.Storage.PartsOf(ctx, storage.ScopeOf(r.Caller), req.Id, after, n)
	}, func(p storage.Part) int { return p.Number }, showPart)
	return oapi.ListStorageUploadParts200JSONResponse{
		Body: oapi.StoragePartList{Items: l.Items, NextCursor: l.Next}, Headers: oapi.ListStorageUploadParts200ResponseHeaders{Link: l.Link},
	}, err
}

// SignStorageParts handles POST /api/v1/storage/uploads/{id}/sign.
func (s *Handlers) SignStorageParts(ctx context.Context, req oapi.SignStoragePartsRequestObject) (oapi.SignStoragePartsResponseObject, error) {
	ctx, r := request.Of(ctx)
	parts := make([]storage.PartRequest, 0, len(req.Body.Parts))
	for _, p := range req.Body.Parts {
		sum, err := hex.DecodeString(p.Sha256)
		if err != nil {
			return nil, errs.Invalid("parts", "has a SHA-256 that is not hexadecimal")
		}
		parts = append(parts, storage.PartRequest{Number: p.Number, Size: p.SizeBytes, SHA256: sum})
	}
	targets, err := s.Storage.PartTargets(ctx, storage.ScopeOf(r.Caller), req.Id, parts)
	if err != nil {
		return nil, err
	}
	shown := oapi.SignStorageParts200JSONResponse{Targets: make([]oapi.StoragePartTarget, 0, len(targets))}
	for i, t := range targets {
		shown.Targets = append(shown.Targets, showTarget(req.Id, t, parts[i]))
	}
	return shown, nil
}

// UploadStoragePart handles PUT /api/v1/storage/uploads/{id}/parts/{number}.
func (s *Handlers) UploadStoragePart(ctx context.Context, req oapi.UploadStoragePartRequestObject) (oapi.UploadStoragePartResponseObject, error) {
	c, err := request.GinContext(ctx)
	if err != nil {
		return nil, err
	}
	ctx, r := request.Of(ctx)
	sum, err := digestOf(request.Or(req.Params.ContentDigest, ""))
	if err != nil {
		return nil, err
	}
	p, err := s.Storage.PutPart(ctx, storage.ScopeOf(r.Caller), req.Id, req.Number, req.Body, c.Request.ContentLength, sum)
	if err != nil {
		return nil, err
	}
	return oapi.UploadStoragePart200JSONResponse(showPart(p)), nil
}

// CompleteStorageUpload handles POST /api/v1/storage/uploads/{id}/complete.
func (s *Handlers) CompleteStorageUpload(ctx context.Context, req oapi.CompleteStorageUploadRequestObject) (oapi.CompleteStorageUploadResponseObject, error) {
	c, err := request.GinContext(ctx)
	if err != nil {
		return nil, err
	}
	ctx, r := request.Of(ctx)
	defer s.extend(c.Writer)()
	made, err := s.Storage.Complete(ctx, response.Change(r, func(u storage.Uploaded) identity.Reply {
		return response.Reply(http.StatusOK, s.show(r, u.Object), "", u.Object.ETag())
	}), req.Id, storage.Completion{})
	if err != nil {
		return nil, err
	}
	return oapi.CompleteStorageUpload200JSONResponse{
		Body: s.show(r, made.Object), Headers: oapi.CompleteStorageUpload200ResponseHeaders{ETag: made.Object.ETag()},
	}, nil
}

// extend extends the deadline of a response until the returned function is called. A connection that has ended ends the
// context of the request.
func (s *Handlers) extend(w http.ResponseWriter) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		every := time.NewTicker(extendEvery)
		defer every.Stop()
		for {
			select {
			case <-done:
				return
			case <-every.C:
				if s.Exports.Extend(w) != nil {
					return
				}
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

func uploadURL(id uuid.UUID) string { return "/api/v1/storage/uploads/" + id.String() }

func (s *Handlers) showUpload(r *request.Call, u storage.Upload) oapi.StorageUpload {
	shown := oapi.StorageUpload{
		Id: u.ID, Urn: s.Naming.Name(r.Caller.Tenant.String(), r.Caller.Project.String(), "storage-upload", u.ID.String()).String(), Path: u.Path.String(), MediaType: response.OrNil(u.MediaType), Sha256: response.OrNil(hex.EncodeToString(u.SHA256)), State: oapi.StorageUploadState(u.State),
		PartSizeBytes: response.OrNil(u.PartSize), Parts: response.OrNil(u.Parts()), CreatedBy: u.CreatedBy, CreatedAt: u.CreatedAt.UTC(), UpdatedAt: u.UpdatedAt().UTC(), ExpiresAt: u.ExpiresAt.UTC(),
	}
	if u.Size >= 0 {
		shown.SizeBytes = &u.Size
	}
	return shown
}

func showPart(p storage.Part) oapi.StoragePart {
	return oapi.StoragePart{Number: p.Number, SizeBytes: p.Size, Sha256: hex.EncodeToString(p.SHA256), Etag: p.ETag, StoredAt: p.StoredAt.UTC()}
}

func showTarget(id uuid.UUID, t storage.PartTarget, p storage.PartRequest) oapi.StoragePartTarget {
	shown := oapi.StoragePartTarget{Number: t.Number, Method: http.MethodPut, Direct: t.Direct, Headers: map[string]string{}}
	if !t.Direct {
		shown.Url = uploadURL(id) + "/parts/" + strconv.Itoa(t.Number)
		shown.Headers["Content-Digest"] = "sha-256=:" + base64.StdEncoding.EncodeToString(p.SHA256) + ":"
		return shown
	}
	shown.Url, shown.ExpiresAt = t.Signed.URL, response.UTC(&t.Signed.Expires)
	for name := range t.Signed.Headers {
		shown.Headers[name] = t.Signed.Headers.Get(name)
	}
	return shown
}
