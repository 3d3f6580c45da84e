package event

import (
	"context"
	"net/http"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/notification"
)

// GetNotificationPreferences handles GET /api/v1/notifications/preferences.
func (s *Handlers) GetNotificationPreferences(ctx context.Context, _ oapi.GetNotificationPreferencesRequestObject) (oapi.GetNotificationPreferencesResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := ofUser(r); err != nil {
		return nil, err
	}
	v, err := s.Notifications.Preferences(ctx, r.Caller)
	if err != nil {
		return nil, err
	}
	return oapi.GetNotificationPreferences200JSONResponse{
		Body: toPreferences(v), Headers: oapi.GetNotificationPreferences200ResponseHeaders{ETag: request.ETag(v.Version)},
	}, nil
}

// PutNotificationPreferences handles PUT /api/v1/notifications/preferences.
func (s *Handlers) PutNotificationPreferences(ctx context.Context, req oapi.PutNotificationPreferencesRequestObject) (oapi.PutNotificationPreferencesResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := ofUser(r); err != nil {
		return nil, err
	}
	v, err := s.putPreferences(ctx, r, false, req.Params.IfMatch, *req.Body)
	if err != nil {
		return nil, err
	}
	return oapi.PutNotificationPreferences200JSONResponse{
		Body: toPreferences(v), Headers: oapi.PutNotificationPreferences200ResponseHeaders{ETag: request.ETag(v.Version)},
	}, nil
}

// GetTenantNotificationPreferences handles GET /api/v1/tenant/notifications/preferences.
func (s *Handlers) GetTenantNotificationPreferences(ctx context.Context, _ oapi.GetTenantNotificationPreferencesRequestObject) (oapi.GetTenantNotificationPreferencesResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := inTenant(r); err != nil {
		return nil, err
	}
	v, err := s.Notifications.TenantPreferences(ctx, r.Caller)
	if err != nil {
		return nil, err
	}
	return oapi.GetTenantNotificationPreferences200JSONResponse{
		Body: toPreferences(v), Headers: oapi.GetTenantNotificationPreferences200ResponseHeaders{ETag: request.ETag(v.Version)},
	}, nil
}

// PutTenantNotificationPreferences handles PUT /api/v1/tenant/notifications/preferences.
func (s *Handlers) PutTenantNotificationPreferences(ctx context.Context, req oapi.PutTenantNotificationPreferencesRequestObject) (oapi.PutTenantNotificationPreferencesResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := inTenant(r); err != nil {
		return nil, err
	}
	v, err := s.putPreferences(ctx, r, true, req.Params.IfMatch, *req.Body)
	if err != nil {
		return nil, err
	}
	return oapi.PutTenantNotificationPreferences200JSONResponse{
		Body: toPreferences(v), Headers: oapi.PutTenantNotificationPreferences200ResponseHeaders{ETag: request.ETag(v.Version)},
	}, nil
}

func ofUser(r *request.Call) error {
	if r.Caller.User == (ids.User{}) || r.Caller.ServiceAccount != (ids.ServiceAccount{}) {
		return errs.New(errs.NotFound, "a service account is not notified").Try("sign in as a user")
	}
	return nil
}

func inTenant(r *request.Call) error {
	if r.Caller.Tenant == (ids.Tenant{}) {
		return errs.New(errs.NotFound, "you are in no tenant")
	}
	return nil
}

func (s *Handlers) putPreferences(ctx context.Context, r *request.Call, tenant bool, ifMatch *string, body oapi.NotificationPreferencesWrite) (notification.View, error) {
	version, err := request.IfMatch(ifMatch, false)
	if err != nil {
		return notification.View{}, err
	}
	w, err := fromPreferences(body)
	if err != nil {
		return notification.View{}, err
	}
	ch := response.Change(r, func(v notification.View) identity.Reply {
		return response.Reply(http.StatusOK, toPreferences(v), "", request.ETag(v.Version))
	})
	return ch.Apply(ctx, s.Identity, func() (notification.View, func(*pgx.Batch), error) {
		return s.Notifications.Put(ctx, r.Caller, tenant, version, w)
	})
}

func fromPreferences(body oapi.NotificationPreferencesWrite) (w notification.Write, err error) {
	w = notification.Write{RevokeLinks: request.Or(body.RevokeLinks, false)}
	w.Zone, w.Choices = request.Or(body.TimeZone, ""), notification.Choices{}
	for _, c := range body.Choices {
		channel := notification.Channel(c.Channel)
		if w.Choices[c.Kind] == nil {
			w.Choices[c.Kind] = map[notification.Channel]notification.Value{}
		}
		if w.Choices[c.Kind][channel] != "" {
			return w, errs.Invalid("choices", "names %s and %s twice", c.Kind, c.Channel)
		}
		w.Choices[c.Kind][channel] = notification.Value(c.Value)
	}
	if q := body.QuietHours; q != nil {
		w.Quiet = &notification.Quiet{}
		if w.Quiet.Start, err = notification.ParseMinute("quiet_hours.start", q.Start); err == nil {
			w.Quiet.End, err = notification.ParseMinute("quiet_hours.end", q.End)
		}
	}
	return w, err
}

func toPreferences(v notification.View) oapi.NotificationPreferences {
	p := oapi.NotificationPreferences{Version: strconv.FormatInt(v.Version, 10), TimeZone: response.OrNil(v.Zone), Kinds: []oapi.NotificationKind{}}
	if q := v.Quiet; q != nil {
		p.QuietHours = &oapi.QuietHours{Start: q.Start.String(), End: q.End.String()}
	}
	if m := v.Mail; m != nil {
		p.Email = &oapi.NotificationEmail{
			Address: m.Address, Verified: m.Verified, Enabled: m.Enabled, SuppressedAt: response.UTC(m.SuppressedAt), SuppressedReason: m.SuppressedReason,
		}
	}
	for _, k := range v.Kinds {
		shown := oapi.NotificationKind{
			Kind: k.Kind, Title: k.Title, Severity: oapi.NotificationKindSeverity(k.Severity), Audience: k.Audience, Enabled: k.Enabled, Mutable: k.Mutable,
		}
		for _, c := range k.Channels {
			shown.Channels = append(shown.Channels, oapi.NotificationChoiceInEffect{
				Channel: oapi.NotificationChannel(c.Channel), Value: oapi.NotificationValue(c.Value), Source: oapi.NotificationChoiceInEffectSource(c.Source),
			})
		}
		p.Kinds = append(p.Kinds, shown)
	}
	return p
}

// TestNotification handles POST /api/v1/notifications/test.
func (s *Handlers) TestNotification(ctx context.Context, _ oapi.TestNotificationRequestObject) (oapi.TestNotificationResponseObject, error) {
	ctx, r := request.Of(ctx)
	ch := response.Change(r, func(t notification.Tested) identity.Reply {
		return response.Reply(http.StatusOK, toTested(t), "", "")
	})
	made, write, queue, err := s.Notifications.Test(ctx, r.Caller)
	if err != nil {
		return nil, err
	}
	made, err = ch.ApplyWith(ctx, s.Identity, func() (notification.Tested, func(*pgx.Batch), error) { return made, write, nil }, queue)
	if err != nil {
		return nil, err
	}
	s.Hints.Send(notification.Topic(r.Caller.User))
	return oapi.TestNotification200JSONResponse{Body: toTested(made)}, nil
}

func toTested(t notification.Tested) oapi.NotificationTest {
	shown := oapi.NotificationTest{NotificationId: t.ID}
	for _, c := range t.Channels {
		shown.Channels = append(shown.Channels, oapi.NotificationTestResult{
			Channel: oapi.NotificationChannel(c.Channel), Sent: c.Reason == "", Reason: response.OrNil(c.Reason),
		})
	}
	return shown
}

// ListSuppressedAddresses handles GET /api/v1/admin/notifications/suppressed-addresses.
func (s *Handlers) ListSuppressedAddresses(ctx context.Context, req oapi.ListSuppressedAddressesRequestObject) (oapi.ListSuppressedAddressesResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after uuid.UUID, n int) ([]notification.Suppressed, error) {
		return s.Notifications.Suppressions(ctx, after, n)
	}, func(a notification.Suppressed) uuid.UUID { return a.ID }, s.toSuppressed)
	if err != nil {
		return nil, err
	}
	return oapi.ListSuppressedAddresses200JSONResponse{
		Body:    oapi.SuppressedAddressList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListSuppressedAddresses200ResponseHeaders{Link: l.Link},
	}, nil
}

func (s *Handlers) toSuppressed(a notification.Suppressed) oapi.SuppressedAddress {
	return oapi.SuppressedAddress{
		Id: a.ID, Urn: s.Naming.Name("", "", "suppressed-address", a.ID.String()).String(), Address: a.Address, Reason: a.Reason,
		CreatedAt: a.CreatedAt.UTC(), UpdatedAt: a.CreatedAt.UTC(),
	}
}

// LiftSuppression handles POST /api/v1/admin/notifications/suppressed-addresses/{id}/lift.
func (s *Handlers) LiftSuppression(ctx context.Context, req oapi.LiftSuppressionRequestObject) (oapi.LiftSuppressionResponseObject, error) {
	ctx, r := request.Of(ctx)
	ch := response.Change(r, func(struct{}) identity.Reply { return response.Reply(http.StatusNoContent, nil, "", "") })
	_, err := ch.Apply(ctx, s.Identity, func() (struct{}, func(*pgx.Batch), error) {
		return struct{}{}, s.Notifications.Lift(r.Caller, req.Id, req.Body.Reason), nil
	})
	if err != nil {
		return nil, err
	}
	return oapi.LiftSuppression204Response{}, nil
}
