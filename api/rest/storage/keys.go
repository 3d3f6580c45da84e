package storage

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/storage/accesskey"
)

// ListStorageKeys handles GET /api/v1/storage/keys.
func (s *Handlers) ListStorageKeys(ctx context.Context, req oapi.ListStorageKeysRequestObject) (oapi.ListStorageKeysResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after uuid.UUID, n int) ([]accesskey.Key, error) {
		return s.StorageKeys.Keys(ctx, r.Caller, after, n)
	}, func(k accesskey.Key) uuid.UUID { return k.ID }, s.showKey)
	return oapi.ListStorageKeys200JSONResponse{
		Body: oapi.StorageKeyList{Items: l.Items, NextCursor: l.Next}, Headers: oapi.ListStorageKeys200ResponseHeaders{Link: l.Link},
	}, err
}

// GetStorageKey handles GET /api/v1/storage/keys/{storage_key_id}.
func (s *Handlers) GetStorageKey(ctx context.Context, req oapi.GetStorageKeyRequestObject) (oapi.GetStorageKeyResponseObject, error) {
	ctx, r := request.Of(ctx)
	k, err := s.StorageKeys.Key(ctx, r.Caller, req.StorageKeyId)
	if err != nil {
		return nil, err
	}
	return oapi.GetStorageKey200JSONResponse(s.showKey(k)), nil
}

// CreateStorageKey handles POST /api/v1/storage/keys.
func (s *Handlers) CreateStorageKey(ctx context.Context, req oapi.CreateStorageKeyRequestObject) (oapi.CreateStorageKeyResponseObject, error) {
	ctx, r := request.Of(ctx)
	b := req.Body
	n := accesskey.NewKey{
		Name: b.Name, Prefix: request.Or(b.Prefix, ""), ReadOnly: request.Or(b.ReadOnly, false), TTL: time.Duration(request.Or(b.TtlSeconds, 0)) * time.Second,
	}
	k, err := s.StorageKeys.Create(ctx, response.Change(r, func(k accesskey.Key) identity.Reply {
		reply := response.Reply(http.StatusCreated, s.showCreatedKey(k), keyAt(k), "")
		reply.Secret = true
		return reply
	}), n)
	if err != nil {
		return nil, err
	}
	return oapi.CreateStorageKey201JSONResponse{Body: s.showCreatedKey(k), Headers: oapi.CreateStorageKey201ResponseHeaders{Location: keyAt(k)}}, nil
}

// DeleteStorageKey handles DELETE /api/v1/storage/keys/{storage_key_id}.
func (s *Handlers) DeleteStorageKey(ctx context.Context, req oapi.DeleteStorageKeyRequestObject) (oapi.DeleteStorageKeyResponseObject, error) {
	ctx, r := request.Of(ctx)
	err := s.StorageKeys.Revoke(ctx, response.Change(r, func(struct{}) identity.Reply { return identity.Reply{Status: http.StatusNoContent} }), req.StorageKeyId)
	if err != nil {
		return nil, err
	}
	return oapi.DeleteStorageKey204Response{}, nil
}

func keyAt(k accesskey.Key) string { return "/api/v1/storage/keys/" + k.ID.String() }

func (s *Handlers) showKey(k accesskey.Key) oapi.StorageKey {
	return oapi.StorageKey{
		Id: k.ID, Urn: s.Naming.Name(k.Tenant.String(), k.Project.String(), "storage-key", k.ID.String()).String(), Name: k.Name, AccessKeyId: k.AccessKeyID,
		Prefix: response.OrNil(k.Prefix.String()), ReadOnly: k.ReadOnly, CreatedBy: k.CreatedBy, CreatedAt: k.CreatedAt.UTC(), UpdatedAt: k.CreatedAt.UTC(),
		ExpiresAt: response.UTC(k.ExpiresAt), LastUsedAt: response.UTC(k.LastUsedAt), AllocationId: response.OrNil(k.Allocation.UUID),
	}
}

func (s *Handlers) showCreatedKey(k accesskey.Key) oapi.CreatedStorageKey {
	shown := s.showKey(k)
	return oapi.CreatedStorageKey{
		Id: shown.Id, Urn: shown.Urn, Name: shown.Name, AccessKeyId: shown.AccessKeyId, Prefix: shown.Prefix, ReadOnly: shown.ReadOnly, CreatedBy: shown.CreatedBy,
		CreatedAt: shown.CreatedAt, UpdatedAt: shown.UpdatedAt, ExpiresAt: shown.ExpiresAt, SecretAccessKey: k.Secret, Endpoint: response.OrNil(s.StorageKeys.URL()),
	}
}
