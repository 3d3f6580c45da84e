package people

import (
	"context"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
	"github.com/gpuaas/gpuaas/policies"
)

// ListApiKeys handles GET /api/v1/api-keys.
func (s *Handlers) ListApiKeys(ctx context.Context, req oapi.ListApiKeysRequestObject) (oapi.ListApiKeysResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after ids.APIKey, n int) ([]keys.APIKey, error) {
		return s.Keys.APIKeys(ctx, r.Caller, after, n)
	}, func(k keys.APIKey) ids.APIKey { return k.ID }, func(k keys.APIKey) oapi.ApiKey { return s.toAPIKey(r.Caller, k) })
	if err != nil {
		return nil, err
	}
	return oapi.ListApiKeys200JSONResponse{
		Body:    oapi.ApiKeyList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListApiKeys200ResponseHeaders{Link: l.Link},
	}, nil
}

// CreateApiKey handles POST /api/v1/api-keys.
func (s *Handlers) CreateApiKey(ctx context.Context, req oapi.CreateApiKeyRequestObject) (oapi.CreateApiKeyResponseObject, error) {
	ctx, r := request.Of(ctx)
	if !identity.PolicyFrom(s.Policies)(r.Caller).Bool(policies.AuthAPIKeysEnabled) {
		return nil, errs.New(errs.NotFound, "API keys are disabled in this tenant").Try("request the policy auth.api_keys_enabled from an operator, or use a service account")
	}
	k, err := s.Keys.CreateAPIKey(ctx, response.Change(r, func(k keys.APIKey) identity.Reply {
		return secret(response.Reply(http.StatusCreated, s.toAPIKeyMade(r.Caller, k), keyAt(k), ""))
	}), keys.NewAPIKey{Name: req.Body.Name, Scopes: request.ScopeNames(request.Or(req.Body.Scopes, nil)), TTL: time.Duration(request.Or(req.Body.TtlSeconds, 0)) * time.Second})
	if err != nil {
		return nil, err
	}
	return oapi.CreateApiKey201JSONResponse{Body: s.toAPIKeyMade(r.Caller, k), Headers: oapi.CreateApiKey201ResponseHeaders{Location: keyAt(k)}}, nil
}

// DeleteApiKey handles DELETE /api/v1/api-keys/{id}.
func (s *Handlers) DeleteApiKey(ctx context.Context, req oapi.DeleteApiKeyRequestObject) (oapi.DeleteApiKeyResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := s.Keys.RevokeAPIKey(ctx, response.Change(r, nothing), ids.From[ids.APIKey](req.Id)); err != nil {
		return nil, err
	}
	return oapi.DeleteApiKey204Response{}, nil
}

func keyAt(k keys.APIKey) string { return "/api/v1/api-keys/" + k.ID.String() }

func (s *Handlers) toAPIKey(by identity.Caller, k keys.APIKey) oapi.ApiKey {
	return oapi.ApiKey{
		Id: k.ID.UUID, Urn: s.ownURN(by, "api-key", k.ID.String()), Name: k.Name, Scopes: response.Scopes(k.Scopes), CreatedAt: k.CreatedAt.UTC(), UpdatedAt: k.CreatedAt.UTC(), ExpiresAt: response.UTC(k.ExpiresAt), LastUsedAt: response.UTC(k.LastUsedAt),
	}
}

func (s *Handlers) toAPIKeyMade(by identity.Caller, k keys.APIKey) oapi.CreatedApiKey {
	shown := s.toAPIKey(by, k)
	return oapi.CreatedApiKey{
		Id: shown.Id, Urn: shown.Urn, Name: shown.Name, Scopes: shown.Scopes, CreatedAt: shown.CreatedAt, UpdatedAt: shown.UpdatedAt, ExpiresAt: shown.ExpiresAt, Secret: k.Secret,
	}
}
