package money

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/payment"
)

// refreshSeconds is the reload interval of the payment page in seconds. A provider usually reports
// within one or two seconds.
const refreshSeconds = 2

// ShowPayment serves the page to which the payment provider redirects the browser. The redirect is
// no evidence of a payment, so the page displays the stored state of the checkout.
func (s *Handlers) ShowPayment(c *gin.Context) {
	caller, err := s.Pages.Visitor(c)
	if err != nil {
		s.Pages.AskToSignIn(c, err)
		return
	}
	p, err := s.paymentOf(c, caller)
	if err != nil {
		s.Chain.Fail(c, err)
		return
	}
	s.Pages.Write(c, paymentPage, outcomeOf(p))
}

// paymentOf reads a checkout for a caller who may read it through the API.
func (s *Handlers) paymentOf(c *gin.Context, caller identity.Caller) (payment.Session, error) {
	op := s.Chain.Operation(http.MethodGet, "/api/v1/payments/sessions/:id")
	if d := s.Chain.Decide(op, caller); !d.Allowed {
		return payment.Session{}, op.Denied(caller, d)
	}
	id, err := ids.Parse[ids.PaymentSession](c.Param("id"))
	if err != nil || caller.Tenant == (ids.Tenant{}) {
		return payment.Session{}, errs.New(errs.NotFound, "no such payment session")
	}
	return s.Payments.Session(pg.WithScope(c.Request.Context(), caller.Scope(false)), caller, id)
}

// outcome contains the texts of the page.
type outcome struct {
	ID, Amount, Status, Message, Help string
	URL                               string
	CreatedAt, CreditedAt             string
	Waiting                           bool
	Every                             int
}

func outcomeOf(p payment.Session) outcome {
	o := outcome{
		ID: p.ID.String(), Amount: money.Format(p.Currency, p.Amount), Status: string(p.State), CreatedAt: p.CreatedAt.UTC().Format(time.RFC1123), Every: refreshSeconds,
	}
	switch p.State {
	case payment.Initiated:
		o.Waiting, o.Message, o.URL = true, "Waiting for the payment.", p.URL
	case payment.CheckoutCompleted:
		o.Waiting, o.Message, o.Help = true, "Paid; the payment is in progress.", "Some payment methods need days. The balance increases when the payment is complete."
	case payment.Credited:
		o.Message, o.CreditedAt = "The balance has grown by "+o.Amount+".", p.StatusAt.UTC().Format(time.RFC1123)
	case payment.FailedReconcile:
		o.Message, o.Help = "The payment does not match the session.", "An operator checks it. Do not pay again. Quote the id below in a support request."
	case payment.Expired:
		o.Message, o.Help = "It ended without a payment.", "Nothing was charged. Start another top-up."
	}
	return o
}
