package event

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/notification/webhook"
)

// scopeOf returns what the caller administers: the webhooks of the tenant, or those of the project of the request.
func scopeOf(r *request.Call) webhook.Scope {
	in := webhook.Scope{Tenant: r.Caller.Tenant}
	if !r.OutsideProjects() {
		in.Project = r.Caller.Project
	}
	return in
}

// ListWebhooks handles GET /api/v1/webhooks.
func (s *Handlers) ListWebhooks(ctx context.Context, req oapi.ListWebhooksRequestObject) (oapi.ListWebhooksResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after string, n int) ([]webhook.Endpoint, error) {
		return s.WebhookEndpoints.List(ctx, scopeOf(r), after, n)
	}, func(e webhook.Endpoint) string { return e.Name }, s.toWebhook)
	if err != nil {
		return nil, err
	}
	return oapi.ListWebhooks200JSONResponse{Body: oapi.WebhookList{Items: l.Items, NextCursor: l.Next}, Headers: oapi.ListWebhooks200ResponseHeaders{Link: l.Link}}, nil
}

// CreateWebhook handles POST /api/v1/webhooks.
func (s *Handlers) CreateWebhook(ctx context.Context, req oapi.CreateWebhookRequestObject) (oapi.CreateWebhookResponseObject, error) {
	ctx, r := request.Of(ctx)
	b := req.Body
	e, err := s.WebhookEndpoints.Create(ctx, response.Change(r, s.createdReply(http.StatusCreated)), scopeOf(r), webhook.NewEndpoint{
		Name: b.Name, URL: b.Url, Patterns: b.Events, Project: ids.From[ids.Project](request.Or(b.ProjectId, uuid.Nil)),
		Format: webhook.Format(request.Or(b.Format, oapi.Standard)), Signature: webhook.Signature(request.Or(b.Signature, oapi.V1)), Secret: request.Or(b.Secret, ""),
	})
	if err != nil {
		return nil, err
	}
	return oapi.CreateWebhook201JSONResponse{
		Body: s.toCreatedWebhook(e), Headers: oapi.CreateWebhook201ResponseHeaders{Location: webhookAt(e.ID), ETag: request.ETag(e.Version)},
	}, nil
}

// GetWebhook handles GET /api/v1/webhooks/{webhook_id}.
func (s *Handlers) GetWebhook(ctx context.Context, req oapi.GetWebhookRequestObject) (oapi.GetWebhookResponseObject, error) {
	ctx, r := request.Of(ctx)
	e, err := s.WebhookEndpoints.Get(ctx, scopeOf(r), ids.From[ids.Webhook](req.WebhookId))
	if err != nil {
		return nil, err
	}
	if request.NotModified(req.Params.IfNoneMatch, request.ETag(e.Version)) {
		return oapi.GetWebhook304Response{Headers: oapi.GetWebhook304ResponseHeaders{ETag: request.ETag(e.Version)}}, nil
	}
	return oapi.GetWebhook200JSONResponse{Body: s.toWebhook(e), Headers: oapi.GetWebhook200ResponseHeaders{ETag: request.ETag(e.Version)}}, nil
}

// UpdateWebhook handles PATCH /api/v1/webhooks/{webhook_id}.
func (s *Handlers) UpdateWebhook(ctx context.Context, req oapi.UpdateWebhookRequestObject) (oapi.UpdateWebhookResponseObject, error) {
	ctx, r := request.Of(ctx)
	version, err := request.IfMatch(req.Params.IfMatch, true)
	if err != nil {
		return nil, err
	}
	patch := webhook.Patch{Name: req.Body.Name, URL: req.Body.Url, Patterns: request.Or(req.Body.Events, nil), Disabled: req.Body.Disabled}
	if req.Body.Format != nil {
		format := webhook.Format(*req.Body.Format)
		patch.Format = &format
	}
	ch := response.Change(r, func(e webhook.Endpoint) identity.Reply {
		return response.Reply(http.StatusOK, s.toWebhook(e), "", request.ETag(e.Version))
	})
	e, err := s.WebhookEndpoints.Update(ctx, ch, scopeOf(r), ids.From[ids.Webhook](req.WebhookId), version, patch)
	if err != nil {
		return nil, err
	}
	return oapi.UpdateWebhook200JSONResponse{Body: s.toWebhook(e), Headers: oapi.UpdateWebhook200ResponseHeaders{ETag: request.ETag(e.Version)}}, nil
}

// DeleteWebhook handles DELETE /api/v1/webhooks/{webhook_id}.
func (s *Handlers) DeleteWebhook(ctx context.Context, req oapi.DeleteWebhookRequestObject) (oapi.DeleteWebhookResponseObject, error) {
	ctx, r := request.Of(ctx)
	version, err := request.IfMatch(req.Params.IfMatch, false)
	if err != nil {
		return nil, err
	}
	ch := response.Change(r, func(struct{}) identity.Reply { return response.Reply(http.StatusNoContent, nil, "", "") })
	if err := s.WebhookEndpoints.Delete(ctx, ch, scopeOf(r), ids.From[ids.Webhook](req.WebhookId), version); err != nil {
		return nil, err
	}
	return oapi.DeleteWebhook204Response{}, nil
}

// RotateWebhookSecret handles POST /api/v1/webhooks/{webhook_id}/rotate-secret.
func (s *Handlers) RotateWebhookSecret(ctx context.Context, req oapi.RotateWebhookSecretRequestObject) (oapi.RotateWebhookSecretResponseObject, error) {
	ctx, r := request.Of(ctx)
	wanted := ""
	if req.Body != nil {
		wanted = request.Or(req.Body.Secret, "")
	}
	e, err := s.WebhookEndpoints.Rotate(ctx, response.Change(r, s.createdReply(http.StatusOK)), scopeOf(r), ids.From[ids.Webhook](req.WebhookId), wanted)
	if err != nil {
		return nil, err
	}
	return oapi.RotateWebhookSecret200JSONResponse{Body: s.toCreatedWebhook(e), Headers: oapi.RotateWebhookSecret200ResponseHeaders{ETag: request.ETag(e.Version)}}, nil
}

// createdReply is a reply with a secret, which is stored sealed.
func (s *Handlers) createdReply(status int) func(webhook.Endpoint) identity.Reply {
	return func(e webhook.Endpoint) identity.Reply {
		location := ""
		if status == http.StatusCreated {
			location = webhookAt(e.ID)
		}
		reply := response.Reply(status, s.toCreatedWebhook(e), location, request.ETag(e.Version))
		reply.Secret = true
		return reply
	}
}

func webhookAt(id ids.Webhook) string { return "/api/v1/webhooks/" + id.String() }

func projectText(p ids.Project) string {
	if p == (ids.Project{}) {
		return ""
	}
	return p.String()
}

func (s *Handlers) toWebhook(e webhook.Endpoint) oapi.Webhook {
	shown := oapi.Webhook{
		Id: e.ID.UUID, Urn: s.Naming.Name(e.Tenant.String(), projectText(e.Project), "webhook", e.ID.String()).String(), Name: e.Name, Url: e.URL, Events: e.Patterns,
		Format: oapi.WebhookFormat(e.Format), Signature: oapi.WebhookSignature(e.Signature), PublicKey: response.OrNil(e.PublicKey),
		PreviousSecretExpiresAt: s.ahead(e.PreviousUntil), Status: oapi.WebhookStatusActive, FailingSince: response.UTC(e.FailingSince),
		DisabledAt: response.UTC(e.DisabledAt), NextAttemptAt: s.ahead(e.BlockedUntil), Version: e.Version, CreatedAt: e.CreatedAt.UTC(), UpdatedAt: e.UpdatedAt.UTC(),
	}
	if e.Project != (ids.Project{}) {
		shown.ProjectId = &e.Project.UUID
	}
	switch {
	case e.DisabledAt != nil:
		reason := oapi.WebhookDisabledReason(e.DisabledReason)
		shown.Status, shown.DisabledReason = oapi.WebhookStatusDisabled, &reason
	case e.FailingSince != nil:
		shown.Status = oapi.WebhookStatusFailing
	}
	return shown
}

// ahead returns a time of the future.
func (s *Handlers) ahead(at *time.Time) *time.Time {
	if at == nil || !at.After(s.Clock.Now()) {
		return nil
	}
	return response.UTC(at)
}

func (s *Handlers) toCreatedWebhook(e webhook.Endpoint) oapi.CreatedWebhook {
	w := s.toWebhook(e)
	return oapi.CreatedWebhook{
		Id: w.Id, Urn: w.Urn, Name: w.Name, Url: w.Url, Events: w.Events, ProjectId: w.ProjectId, Format: w.Format, Signature: w.Signature, PublicKey: w.PublicKey,
		PreviousSecretExpiresAt: w.PreviousSecretExpiresAt, Status: oapi.CreatedWebhookStatus(w.Status), FailingSince: w.FailingSince, DisabledAt: w.DisabledAt,
		DisabledReason: (*oapi.CreatedWebhookDisabledReason)(w.DisabledReason), NextAttemptAt: w.NextAttemptAt, Secret: response.OrNil(e.Secret),
		Version: w.Version, CreatedAt: w.CreatedAt, UpdatedAt: w.UpdatedAt,
	}
}
