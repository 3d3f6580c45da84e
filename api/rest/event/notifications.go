package event

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/notification"
)

// ListNotifications handles GET /api/v1/notifications.
func (s *Handlers) ListNotifications(ctx context.Context, req oapi.ListNotificationsRequestObject) (oapi.ListNotificationsResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after uuid.UUID, n int) ([]notification.Notification, error) {
		return s.Notifications.List(ctx, r.Caller, request.Or(req.Params.Unread, false), after, n)
	}, func(n notification.Notification) uuid.UUID { return n.ID }, s.toNotification)
	if err != nil {
		return nil, err
	}
	return oapi.ListNotifications200JSONResponse{
		Body:    oapi.NotificationList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListNotifications200ResponseHeaders{Link: l.Link},
	}, nil
}

// MarkNotificationsRead handles POST /api/v1/notifications/read.
func (s *Handlers) MarkNotificationsRead(ctx context.Context, req oapi.MarkNotificationsReadRequestObject) (oapi.MarkNotificationsReadResponseObject, error) {
	ctx, r := request.Of(ctx)
	ch := response.Change(r, func(struct{}) identity.Reply { return response.Reply(http.StatusNoContent, nil, "", "") })
	_, err := ch.Apply(ctx, s.Identity, func() (struct{}, func(*pgx.Batch), error) {
		queue, err := s.Notifications.MarkRead(ctx, r.Caller, request.Or(req.Body.NotificationIds, nil))
		return struct{}{}, queue, err
	})
	if err != nil {
		return nil, err
	}
	s.Hints.Send(notification.Topic(r.Caller.User))
	return oapi.MarkNotificationsRead204Response{}, nil
}

func (s *Handlers) toNotification(n notification.Notification) oapi.Notification {
	tenant := ""
	if n.Tenant != nil {
		tenant = n.Tenant.String()
	}
	return oapi.Notification{
		Id: n.ID, Urn: s.Naming.Name(tenant, "", "notification", n.ID.String()).String(), Kind: n.Kind, Severity: oapi.NotificationSeverity(n.Severity), ResourceUrn: n.URN,
		Title: n.Title, Message: n.Message, Count: n.Count, CorrelationId: n.CorrelationID, CreatedAt: n.CreatedAt.UTC(), UpdatedAt: response.Later(n.UpdatedAt, n.ReadAt), ReadAt: response.UTC(n.ReadAt),
	}
}
