package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// ListApiKeys handles GET /api/v1/api-keys.
func (s *Server) ListApiKeys(ctx context.Context, req oapi.ListApiKeysRequestObject) (oapi.ListApiKeysResponseObject, error) {
	ctx, r := of(ctx)
	l, err := pageOf(s, r, req.Params.Cursor, req.Params.Limit, func(after ids.APIKey, n int) ([]identity.APIKey, error) {
		return s.Identity.APIKeys(ctx, r.caller, after, n)
	}, func(k identity.APIKey) ids.APIKey { return k.ID }, toAPIKey)
	if err != nil {
		return nil, err
	}
	return oapi.ListApiKeys200JSONResponse{
		Body:    oapi.ApiKeyList{Items: l.items, NextCursor: l.next},
		Headers: oapi.ListApiKeys200ResponseHeaders{Link: l.link},
	}, nil
}

// CreateApiKey handles POST /api/v1/api-keys.
func (s *Server) CreateApiKey(ctx context.Context, req oapi.CreateApiKeyRequestObject) (oapi.CreateApiKeyResponseObject, error) {
	ctx, r := of(ctx)
	if s.APIKeysEnabled != nil && !s.APIKeysEnabled(r.caller) {
		return nil, errs.New(errs.NotFound, "API keys are disabled in this tenant").Try("request the policy auth.api_keys_enabled from an operator, or use a service account")
	}
	k, err := s.Identity.CreateAPIKey(ctx, keep(r, func(k identity.APIKey) identity.Reply {
		return secret(reply(http.StatusCreated, toAPIKeyMade(k), keyAt(k), ""))
	}), identity.NewAPIKey{Name: req.Body.Name, Scopes: namesOf(or(req.Body.Scopes, nil)), TTL: time.Duration(or(req.Body.TtlSeconds, 0)) * time.Second})
	if err != nil {
		return nil, err
	}
	return oapi.CreateApiKey201JSONResponse{Body: toAPIKeyMade(k), Headers: oapi.CreateApiKey201ResponseHeaders{Location: keyAt(k)}}, nil
}

// DeleteApiKey handles DELETE /api/v1/api-keys/{id}.
func (s *Server) DeleteApiKey(ctx context.Context, req oapi.DeleteApiKeyRequestObject) (oapi.DeleteApiKeyResponseObject, error) {
	ctx, r := of(ctx)
	if err := s.Identity.RevokeAPIKey(ctx, keep(r, nothing), ids.From[ids.APIKey](req.Id)); err != nil {
		return nil, err
	}
	return oapi.DeleteApiKey204Response{}, nil
}

func keyAt(k identity.APIKey) string { return "/api/v1/api-keys/" + k.ID.String() }

func toAPIKey(k identity.APIKey) oapi.ApiKey {
	return oapi.ApiKey{Id: k.ID.UUID, Name: k.Name, Scopes: scopesOf(k.Scopes), CreatedAt: k.CreatedAt.UTC(), ExpiresAt: utc(k.ExpiresAt), LastUsedAt: utc(k.LastUsedAt)}
}

func toAPIKeyMade(k identity.APIKey) oapi.CreatedApiKey {
	return oapi.CreatedApiKey{Id: k.ID.UUID, Name: k.Name, Scopes: scopesOf(k.Scopes), CreatedAt: k.CreatedAt.UTC(), ExpiresAt: utc(k.ExpiresAt), Secret: k.Secret}
}
