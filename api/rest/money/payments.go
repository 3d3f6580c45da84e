package money

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/payment"
)

const adminSessions = "/api/v1/admin/payments/sessions"

// CreateCheckoutSession handles POST /api/v1/payments/checkout-session.
func (s *Handlers) CreateCheckoutSession(ctx context.Context, req oapi.CreateCheckoutSessionRequestObject) (oapi.CreateCheckoutSessionResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := ofTenant(r, adminSessions); err != nil {
		return nil, err
	}
	if err := s.Identity.CheckCurrency(ctx, r.Caller.Tenant, req.Body.Currency); err != nil {
		return nil, err
	}
	p, err := s.Payments.Begin(ctx, response.Change(r, func(p payment.Session) identity.Reply {
		return response.Reply(http.StatusCreated, s.toCheckout(shownCheckout{Session: p}), checkoutAt(p), "")
	}), money.Minor(req.Body.AmountMinor))
	if err != nil {
		return nil, err
	}
	return oapi.CreateCheckoutSession201JSONResponse{
		Body: s.toCheckout(shownCheckout{Session: p}), Headers: oapi.CreateCheckoutSession201ResponseHeaders{Location: checkoutAt(p)},
	}, nil
}

// CreatePortalSession handles POST /api/v1/payments/customer-portal-session.
func (s *Handlers) CreatePortalSession(ctx context.Context, req oapi.CreatePortalSessionRequestObject) (oapi.CreatePortalSessionResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := ofTenant(r, adminSessions); err != nil {
		return nil, err
	}
	url, err := s.Payments.Portal(ctx, response.Change(r, func(url string) identity.Reply {
		reply := response.Reply(http.StatusCreated, oapi.PortalSession{Url: url}, "", "")
		reply.Secret = true
		return reply
	}), request.Or(req.Body.ReturnUrl, ""))
	if err != nil {
		return nil, err
	}
	return oapi.CreatePortalSession201JSONResponse{Body: oapi.PortalSession{Url: url}}, nil
}

// ListPaymentSessions handles GET /api/v1/payments/sessions.
func (s *Handlers) ListPaymentSessions(ctx context.Context, req oapi.ListPaymentSessionsRequestObject) (oapi.ListPaymentSessionsResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := ofTenant(r, adminSessions); err != nil {
		return nil, err
	}
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after ids.PaymentSession, n int) ([]shownCheckout, error) {
		return s.withCredits(ctx)(s.Payments.Sessions(ctx, r.Caller.Tenant, after, n))
	}, checkoutID, s.toCheckout)
	if err != nil {
		return nil, err
	}
	return oapi.ListPaymentSessions200JSONResponse{
		Body:    oapi.PaymentSessionList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListPaymentSessions200ResponseHeaders{Link: l.Link},
	}, nil
}

// GetPaymentSession handles GET /api/v1/payments/sessions/{id}.
func (s *Handlers) GetPaymentSession(ctx context.Context, req oapi.GetPaymentSessionRequestObject) (oapi.GetPaymentSessionResponseObject, error) {
	ctx, r := request.Of(ctx)
	p, err := s.withCredit(ctx)(s.Payments.Session(ctx, r.Caller, ids.From[ids.PaymentSession](req.Id)))
	if err != nil {
		return nil, err
	}
	return oapi.GetPaymentSession200JSONResponse(s.toCheckout(p)), nil
}

// ReceivePaymentEvent handles POST /api/v1/payments/webhook. A failed signature is charged to the
// address of the sender, like a failed token.
func (s *Handlers) ReceivePaymentEvent(ctx context.Context, req oapi.ReceivePaymentEventRequestObject) (oapi.ReceivePaymentEventResponseObject, error) {
	c, err := request.GinContext(ctx)
	if err != nil {
		return nil, err
	}
	ctx, r := request.Of(ctx)
	err = s.Payments.Receive(ctx, r.Body, request.Or(req.Params.StripeSignature, ""))
	if errs.CodeOf(err) == errs.SignatureInvalid {
		if e := s.Chain.Charge(c, request.ClassAnonymous, identity.Caller{}); e != nil { //nolint:contextcheck // it takes that of the request
			return nil, e
		}
	}
	if err != nil {
		return nil, err
	}
	return oapi.ReceivePaymentEvent200JSONResponse{Received: true}, nil
}

// ListAdminPaymentSessions handles GET /api/v1/admin/payments/sessions.
func (s *Handlers) ListAdminPaymentSessions(ctx context.Context, req oapi.ListAdminPaymentSessionsRequestObject) (oapi.ListAdminPaymentSessionsResponseObject, error) {
	ctx, r := request.Of(ctx)
	f := payment.Filter{Tenant: tenantParam(req.Params.TenantId), Status: string(request.Or(req.Params.Status, ""))}
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after ids.PaymentSession, n int) ([]shownCheckout, error) {
		return s.withCredits(ctx)(s.Payments.AllSessions(ctx, f, after, n))
	}, checkoutID, s.toAdminCheckout)
	if err != nil {
		return nil, err
	}
	return oapi.ListAdminPaymentSessions200JSONResponse{
		Body:    oapi.AdminPaymentSessionList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListAdminPaymentSessions200ResponseHeaders{Link: l.Link},
	}, nil
}

// ReconcilePaymentSession handles POST /api/v1/admin/payments/sessions/{id}/reconcile.
func (s *Handlers) ReconcilePaymentSession(ctx context.Context, req oapi.ReconcilePaymentSessionRequestObject) (oapi.ReconcilePaymentSessionResponseObject, error) {
	ctx, r := request.Of(ctx)
	p, err := s.Payments.Reconcile(ctx, response.Change(r, func(p payment.Session) identity.Reply {
		return response.Reply(http.StatusOK, s.toAdminCheckout(shownCheckout{Session: p}), "", "")
	}), ids.From[ids.PaymentSession](req.Id))
	if err != nil {
		return nil, err
	}
	return oapi.ReconcilePaymentSession200JSONResponse{Body: s.toAdminCheckout(shownCheckout{Session: p})}, nil
}

// tenantParam returns the requested tenant. Without one it returns the zero tenant, which means all
// tenants.
func tenantParam(id *uuid.UUID) ids.Tenant { return ids.From[ids.Tenant](request.Or(id, uuid.Nil)) }

// shownCheckout is a checkout with what it has brought.
type shownCheckout struct {
	payment.Session

	credit payment.Credit
}

func (s *Handlers) withCredits(ctx context.Context) func([]payment.Session, error) ([]shownCheckout, error) {
	return func(all []payment.Session, err error) ([]shownCheckout, error) {
		if err != nil {
			return nil, err
		}
		credits, err := s.Payments.Credits(ctx, all)
		shown := make([]shownCheckout, len(all))
		for i, p := range all {
			shown[i] = shownCheckout{p, credits[p.ID]}
		}
		return shown, err
	}
}

func (s *Handlers) withCredit(ctx context.Context) func(payment.Session, error) (shownCheckout, error) {
	return func(p payment.Session, err error) (shownCheckout, error) {
		if err != nil {
			return shownCheckout{}, err
		}
		credits, err := s.Payments.Credits(ctx, []payment.Session{p})
		return shownCheckout{p, credits[p.ID]}, err
	}
}

func checkoutID(p shownCheckout) ids.PaymentSession { return p.ID }

func checkoutAt(p payment.Session) string { return "/api/v1/payments/sessions/" + p.ID.String() }

func (s *Handlers) toCheckout(p shownCheckout) oapi.PaymentSession {
	shown := oapi.PaymentSession{
		Id: p.ID.UUID, Urn: p.URN(s.Naming), Amount: response.Money(p.Amount, p.Currency), Status: oapi.PaymentStatus(p.State), Reason: response.OrNil(p.Reason),
		CreatedAt: p.CreatedAt.UTC(), UpdatedAt: p.StatusAt.UTC(), ExpiresAt: p.ExpiresAt.UTC(),
	}
	if p.Mandate != (ids.Mandate{}) {
		shown.AutoTopupId = &p.Mandate.UUID
	}
	if p.State == payment.Initiated {
		shown.Url = response.OrNil(p.URL)
	}
	if p.credit != (payment.Credit{}) {
		shown.CreditedAt, shown.TransferId = response.UTC(&p.credit.At), &p.credit.Transfer
	}
	return shown
}

func (s *Handlers) toAdminCheckout(p shownCheckout) oapi.AdminPaymentSession {
	shown := oapi.AdminPaymentSession{
		Id: p.ID.UUID, Urn: p.URN(s.Naming), TenantId: p.Tenant.UUID, PrincipalId: p.Principal, Amount: response.Money(p.Amount, p.Currency), Status: oapi.PaymentStatus(p.State),
		Reason: response.OrNil(p.Reason), Customer: response.OrNil(p.Customer), ProviderSession: response.OrNil(p.ProviderID), Payment: response.OrNil(p.Payment), Livemode: p.Livemode,
		CreatedAt: p.CreatedAt.UTC(), UpdatedAt: p.StatusAt.UTC(), ExpiresAt: p.ExpiresAt.UTC(), StatusAt: p.StatusAt.UTC(), CheckedAt: response.UTC(p.CheckedAt),
	}
	if p.credit != (payment.Credit{}) {
		shown.RefundedMinor = new(int64(p.credit.Refunded))
	}
	return shown
}
