package people

import (
	"context"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
)

// ListServiceAccounts handles GET /api/v1/projects/{project_id}/service-accounts.
func (s *Handlers) ListServiceAccounts(ctx context.Context, req oapi.ListServiceAccountsRequestObject) (oapi.ListServiceAccountsResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after string, n int) ([]keys.ServiceAccount, error) {
		return s.Keys.ServiceAccounts(ctx, r.Caller, ids.From[ids.Project](req.ProjectId), after, n)
	}, func(a keys.ServiceAccount) string { return a.Name }, s.toServiceAccount)
	if err != nil {
		return nil, err
	}
	return oapi.ListServiceAccounts200JSONResponse{
		Body:    oapi.ServiceAccountList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListServiceAccounts200ResponseHeaders{Link: l.Link},
	}, nil
}

// CreateServiceAccount handles POST /api/v1/projects/{project_id}/service-accounts.
func (s *Handlers) CreateServiceAccount(ctx context.Context, req oapi.CreateServiceAccountRequestObject) (oapi.CreateServiceAccountResponseObject, error) {
	ctx, r := request.Of(ctx)
	a, err := s.Keys.CreateServiceAccount(ctx, response.Change(r, s.accountReply(http.StatusCreated)), ids.From[ids.Project](req.ProjectId), keys.NewServiceAccount{
		Name: req.Body.Name, Description: request.Or(req.Body.Description, ""), Scopes: request.ScopeNames(req.Body.Scopes),
	})
	if err != nil {
		return nil, err
	}
	return oapi.CreateServiceAccount201JSONResponse{
		Body:    s.toServiceAccount(a),
		Headers: oapi.CreateServiceAccount201ResponseHeaders{Location: accountAt(a.ID), ETag: request.ETag(a.Version)},
	}, nil
}

// GetServiceAccount handles GET /api/v1/service-accounts/{service_account_id}.
func (s *Handlers) GetServiceAccount(ctx context.Context, req oapi.GetServiceAccountRequestObject) (oapi.GetServiceAccountResponseObject, error) {
	ctx, r := request.Of(ctx)
	a, err := s.Keys.ServiceAccountByID(ctx, r.Caller, ids.From[ids.ServiceAccount](req.ServiceAccountId))
	if err != nil {
		return nil, err
	}
	if request.NotModified(req.Params.IfNoneMatch, request.ETag(a.Version)) {
		return oapi.GetServiceAccount304Response{Headers: oapi.GetServiceAccount304ResponseHeaders{ETag: request.ETag(a.Version)}}, nil
	}
	return oapi.GetServiceAccount200JSONResponse{Body: s.toServiceAccount(a), Headers: oapi.GetServiceAccount200ResponseHeaders{ETag: request.ETag(a.Version)}}, nil
}

// UpdateServiceAccount handles PATCH /api/v1/service-accounts/{service_account_id}.
func (s *Handlers) UpdateServiceAccount(ctx context.Context, req oapi.UpdateServiceAccountRequestObject) (oapi.UpdateServiceAccountResponseObject, error) {
	ctx, r := request.Of(ctx)
	version, err := request.IfMatch(req.Params.IfMatch, true)
	if err != nil {
		return nil, err
	}
	patch := keys.ServiceAccountPatch{Name: req.Body.Name, Description: req.Body.Description, Disabled: req.Body.Disabled}
	if req.Body.Scopes != nil {
		scopes := request.ScopeNames(*req.Body.Scopes)
		patch.Scopes = &scopes
	}
	a, err := s.Keys.UpdateServiceAccount(ctx, response.Change(r, s.accountReply(http.StatusOK)), ids.From[ids.ServiceAccount](req.ServiceAccountId), version, patch)
	if err != nil {
		return nil, err
	}
	return oapi.UpdateServiceAccount200JSONResponse{Body: s.toServiceAccount(a), Headers: oapi.UpdateServiceAccount200ResponseHeaders{ETag: request.ETag(a.Version)}}, nil
}

// DeleteServiceAccount handles DELETE /api/v1/service-accounts/{service_account_id}.
func (s *Handlers) DeleteServiceAccount(ctx context.Context, req oapi.DeleteServiceAccountRequestObject) (oapi.DeleteServiceAccountResponseObject, error) {
	ctx, r := request.Of(ctx)
	version, err := request.IfMatch(req.Params.IfMatch, false)
	if err != nil {
		return nil, err
	}
	if err := s.Keys.DeleteServiceAccount(ctx, response.Change(r, nothing), ids.From[ids.ServiceAccount](req.ServiceAccountId), version); err != nil {
		return nil, err
	}
	return oapi.DeleteServiceAccount204Response{}, nil
}

// ListCredentials handles GET /api/v1/service-accounts/{service_account_id}/credentials.
func (s *Handlers) ListCredentials(ctx context.Context, req oapi.ListCredentialsRequestObject) (oapi.ListCredentialsResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after ids.Credential, n int) ([]keys.Credential, error) {
		return s.Keys.Credentials(ctx, r.Caller, ids.From[ids.ServiceAccount](req.ServiceAccountId), after, n)
	}, func(c keys.Credential) ids.Credential { return c.ID }, s.credentialOf(r.Caller))
	if err != nil {
		return nil, err
	}
	return oapi.ListCredentials200JSONResponse{
		Body:    oapi.CredentialList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListCredentials200ResponseHeaders{Link: l.Link},
	}, nil
}

// CreateCredential handles POST /api/v1/service-accounts/{service_account_id}/credentials.
func (s *Handlers) CreateCredential(ctx context.Context, req oapi.CreateCredentialRequestObject) (oapi.CreateCredentialResponseObject, error) {
	ctx, r := request.Of(ctx)
	account := ids.From[ids.ServiceAccount](req.ServiceAccountId)
	var n keys.NewCredential
	if req.Body != nil {
		n.TTL = time.Duration(request.Or(req.Body.TtlSeconds, 0)) * time.Second
		if f := req.Body.Federation; f != nil {
			n.Federation = &keys.Federation{Issuer: f.Issuer, Subject: f.Subject}
		}
	}
	at := func(c keys.Credential) string { return accountAt(account) + "/credentials/" + c.ID.String() }
	c, err := s.Keys.CreateCredential(ctx, response.Change(r, func(c keys.Credential) identity.Reply {
		return secret(response.Reply(http.StatusCreated, s.toCredentialMade(r.Caller, c), at(c), ""))
	}), account, n)
	if err != nil {
		return nil, err
	}
	return oapi.CreateCredential201JSONResponse{Body: s.toCredentialMade(r.Caller, c), Headers: oapi.CreateCredential201ResponseHeaders{Location: at(c)}}, nil
}

// DeleteCredential handles DELETE /api/v1/service-accounts/{service_account_id}/credentials/{credential_id}.
func (s *Handlers) DeleteCredential(ctx context.Context, req oapi.DeleteCredentialRequestObject) (oapi.DeleteCredentialResponseObject, error) {
	ctx, r := request.Of(ctx)
	err := s.Keys.RevokeCredential(ctx, response.Change(r, nothing), ids.From[ids.ServiceAccount](req.ServiceAccountId), ids.From[ids.Credential](req.CredentialId))
	if err != nil {
		return nil, err
	}
	return oapi.DeleteCredential204Response{}, nil
}

func (s *Handlers) accountReply(status int) func(keys.ServiceAccount) identity.Reply {
	return func(a keys.ServiceAccount) identity.Reply {
		location := ""
		if status == http.StatusCreated {
			location = accountAt(a.ID)
		}
		return response.Reply(status, s.toServiceAccount(a), location, request.ETag(a.Version))
	}
}

// secret marks an answer that must not lie anywhere in clear.
func secret(r identity.Reply) identity.Reply {
	r.Secret = true
	return r
}

func accountAt(id ids.ServiceAccount) string { return "/api/v1/service-accounts/" + id.String() }

func (s *Handlers) toServiceAccount(a keys.ServiceAccount) oapi.ServiceAccount {
	return oapi.ServiceAccount{
		Id: a.ID.UUID, Urn: s.Naming.Name(a.Tenant.String(), a.Project.String(), "service-account", a.ID.String()).String(),
		ProjectId: a.Project.UUID, Name: a.Name, Description: a.Description, Scopes: response.Scopes(a.Scopes), Disabled: a.DisabledAt != nil,
		Version: a.Version, CreatedAt: a.CreatedAt.UTC(), UpdatedAt: a.UpdatedAt.UTC(), LastUsedAt: response.UTC(a.LastUsedAt),
	}
}

// credentialOf returns the function that encodes credentials of service accounts in the project of the caller.
func (s *Handlers) credentialOf(by identity.Caller) func(keys.Credential) oapi.Credential {
	return func(c keys.Credential) oapi.Credential {
		return oapi.Credential{
			Id: c.ID.UUID, Urn: s.Naming.Name(by.Tenant.String(), by.Project.String(), "credential", c.ID.String()).String(), Federation: toFederation(c.Federation),
			CreatedAt: c.CreatedAt.UTC(), UpdatedAt: response.Later(c.CreatedAt, c.RevokedAt), ExpiresAt: response.UTC(c.ExpiresAt),
			RevokedAt: response.UTC(c.RevokedAt), LastUsedAt: response.UTC(c.LastUsedAt),
		}
	}
}

func toFederation(f *keys.Federation) *oapi.Federation {
	if f == nil {
		return nil
	}
	return &oapi.Federation{Issuer: f.Issuer, Subject: f.Subject}
}

func (s *Handlers) toCredentialMade(by identity.Caller, c keys.Credential) oapi.CreatedCredential {
	shown := s.credentialOf(by)(c)
	return oapi.CreatedCredential{
		Id: shown.Id, Urn: shown.Urn, Federation: shown.Federation, CreatedAt: shown.CreatedAt, UpdatedAt: shown.UpdatedAt, ExpiresAt: shown.ExpiresAt,
		Secret: response.OrNil(c.Secret),
	}
}
