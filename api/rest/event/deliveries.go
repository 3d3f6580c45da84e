package event

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/notification/webhook"
)

// ListWebhookDeliveries handles GET /api/v1/webhooks/{webhook_id}/deliveries.
func (s *Handlers) ListWebhookDeliveries(ctx context.Context, req oapi.ListWebhookDeliveriesRequestObject) (oapi.ListWebhookDeliveriesResponseObject, error) {
	ctx, r := request.Of(ctx)
	p := req.Params
	l, err := response.List(s.Cursors, r, p.Cursor, p.Limit, func(after uuid.UUID, n int) ([]webhook.Delivery, error) {
		return s.WebhookEndpoints.Deliveries(ctx, scopeOf(r), ids.From[ids.Webhook](req.WebhookId), string(request.Or(p.Status, "")), after, n)
	}, func(d webhook.Delivery) uuid.UUID { return d.ID }, s.toDelivery)
	if err != nil {
		return nil, err
	}
	return oapi.ListWebhookDeliveries200JSONResponse{
		Body:    oapi.WebhookDeliveryList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListWebhookDeliveries200ResponseHeaders{Link: l.Link},
	}, nil
}

// ResendWebhookDelivery handles POST /api/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/resend.
func (s *Handlers) ResendWebhookDelivery(ctx context.Context, req oapi.ResendWebhookDeliveryRequestObject) (oapi.ResendWebhookDeliveryResponseObject, error) {
	ctx, r := request.Of(ctx)
	ch := response.Change(r, func(d webhook.Delivery) identity.Reply {
		return response.Reply(http.StatusAccepted, s.toDelivery(d), "", "")
	})
	d, err := s.WebhookEndpoints.Resend(ctx, ch, scopeOf(r), ids.From[ids.Webhook](req.WebhookId), req.DeliveryId)
	if err != nil {
		return nil, err
	}
	return oapi.ResendWebhookDelivery202JSONResponse{Body: s.toDelivery(d)}, nil
}

// TestWebhook handles POST /api/v1/webhooks/{webhook_id}/test.
func (s *Handlers) TestWebhook(ctx context.Context, req oapi.TestWebhookRequestObject) (oapi.TestWebhookResponseObject, error) {
	ctx, r := request.Of(ctx)
	ch := response.Change(r, func(t webhook.TestResult) identity.Reply {
		return response.Reply(http.StatusOK, toTestResult(t), "", "")
	})
	t, err := s.WebhookEndpoints.Test(ctx, ch, scopeOf(r), ids.From[ids.Webhook](req.WebhookId))
	if err != nil {
		return nil, err
	}
	return oapi.TestWebhook200JSONResponse{Body: toTestResult(t)}, nil
}

// ReplayWebhook handles POST /api/v1/webhooks/{webhook_id}/replay.
func (s *Handlers) ReplayWebhook(ctx context.Context, req oapi.ReplayWebhookRequestObject) (oapi.ReplayWebhookResponseObject, error) {
	ctx, r := request.Of(ctx)
	ch := response.Change(r, func(n int64) identity.Reply {
		return response.Reply(http.StatusAccepted, oapi.WebhookReplayAccepted{Deliveries: int(n)}, "", "")
	})
	n, err := s.WebhookEndpoints.Replay(ctx, ch, scopeOf(r), ids.From[ids.Webhook](req.WebhookId), webhook.Replay{All: req.Body.Mode == oapi.WebhookReplayModeAll, From: req.Body.FromAt})
	if err != nil {
		return nil, err
	}
	return oapi.ReplayWebhook202JSONResponse{Body: oapi.WebhookReplayAccepted{Deliveries: int(n)}}, nil
}

func (s *Handlers) toDelivery(d webhook.Delivery) oapi.WebhookDelivery {
	shown := oapi.WebhookDelivery{
		Id: d.ID, Urn: s.Naming.Name(d.Tenant.String(), projectText(d.Project), "webhook-delivery", d.ID.String()).String(), WebhookId: d.Endpoint.UUID,
		EventId: d.Event.UUID, EventType: d.EventType, Status: oapi.WebhookDeliveryStatus(d.Status), Attempts: make([]oapi.WebhookAttempt, len(d.Attempts)),
		NextAttemptAt: response.UTC(d.NextAt), CreatedAt: d.CreatedAt.UTC(), UpdatedAt: d.UpdatedAt.UTC(),
	}
	for i, a := range d.Attempts {
		shown.Attempts[i] = oapi.WebhookAttempt{
			AttemptedAt: a.At.UTC(), Result: oapi.WebhookAttemptResult(resultOf(a)), StatusCode: response.OrNil(a.Status), LatencyMs: a.LatencyMS, Error: response.OrNil(a.Error),
		}
		if i == len(d.Attempts)-1 {
			shown.Attempts[i].Response = response.OrNil(d.Response)
		}
	}
	return shown
}

func resultOf(a webhook.Attempt) string {
	if a.Delivered {
		return "delivered"
	}
	return "failed"
}

func toTestResult(t webhook.TestResult) oapi.WebhookTestResult {
	return oapi.WebhookTestResult{
		Result: oapi.WebhookTestResultResult(resultOf(t.Attempt)), MessageId: t.MessageID, StatusCode: response.OrNil(t.Status), LatencyMs: t.LatencyMS,
		Error: response.OrNil(t.Error), Response: response.OrNil(t.Response),
	}
}
