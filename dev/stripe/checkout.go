package stripe

import (
	"cmp"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	stripego "github.com/stripe/stripe-go/v76"
)

// Cards that tests use. CardLater and CardLaterFails exist in this double only: the page reports the
// payment as in progress, and it settles later.
const (
	CardPaid          = "4242424242424242"
	CardDeclinedLater = "4000000000000341"
	CardAuthenticates = "4000002760003184"
	CardLater         = "4000000000060006"
	CardLaterFails    = "4000000000060014"
)

// card is a test card and its effect. The numbers are those of Stripe's documentation.
type card struct {
	Number, Does string
	decline      stripego.ErrorCode
	message      string // on the page, if the card is declined
	later        stripego.PaymentIntentStatus
	refunds      string             // fault of the refunds
	absent       stripego.ErrorCode // of a charge without the holder of the card
	disputed     bool
}

const declined = "Your card was declined."

var cards = []card{
	{Number: CardPaid, Does: "is paid"},
	{Number: "5555555555554444", Does: "is paid"},
	{Number: "378282246310005", Does: "is paid"},
	{Number: "4000000000000002", Does: "is declined", decline: "generic_decline", message: declined},
	{Number: "4000000000009995", Does: "is declined: insufficient funds", decline: "insufficient_funds", message: "Your card has insufficient funds."},
	{Number: CardDeclinedLater, Does: "is stored; a charge without its holder is declined", absent: stripego.ErrorCodeCardDeclined},
	{Number: CardAuthenticates, Does: "is stored; a charge without its holder needs authentication", absent: stripego.ErrorCodeAuthenticationRequired},
	{Number: "4000000000007726", Does: "is paid; a refund is pending for some time", refunds: faultRefundPending},
	{Number: "4000000000005126", Does: "is paid; a refund fails after some time", refunds: faultRefundFailed},
	{Number: "4000000000000259", Does: "is paid, and disputed by its holder", disputed: true},
	{Number: CardLater, Does: "is paid after some time", later: stripego.PaymentIntentStatusSucceeded},
	{Number: CardLaterFails, Does: "is in progress, and fails after some time", later: stripego.PaymentIntentStatusRequiresPaymentMethod},
}

// cardOf returns a test card. Any other card is declined, as in a test account.
func cardOf(number string) card {
	number = strings.NewReplacer(" ", "", "-", "").Replace(number)
	for _, c := range cards {
		if c.Number == number {
			return c
		}
	}
	return card{decline: "test_mode_live_card", message: "Your card was declined. The payment double accepts test cards only."}
}

// charge charges a card for an open session. A declined card leaves the session open.
func (s *Server) charge(p *payment, with card, now time.Time) (problem string) {
	if p.Session.Mode == stripego.CheckoutSessionModeSetup {
		return s.store(p, with, now)
	}
	if p.Intent == nil {
		p.Intent = &stripego.PaymentIntent{
			ID: newID("pi_3"), Object: "payment_intent", Created: now.Unix(), Amount: p.Session.AmountTotal, Currency: p.Session.Currency,
			Customer: p.Session.Customer, Metadata: p.Metadata,
		}
		p.Session.PaymentIntent = &stripego.PaymentIntent{ID: p.Intent.ID}
	}
	p.Charges++
	p.By = with.refunds
	switch {
	case with.message != "":
		p.Intent.Status = stripego.PaymentIntentStatusRequiresPaymentMethod
		p.Intent.LastPaymentError = &stripego.Error{Type: stripego.ErrorTypeCard, Code: stripego.ErrorCodeCardDeclined, DeclineCode: stripego.DeclineCode(with.decline), Msg: with.message}
		return with.message
	case with.later != "":
		p.Intent.Status, p.Settlement = stripego.PaymentIntentStatusProcessing, settlement{string(with.later), now.Add(s.cfg.CompleteAfter)}
	default:
		p.succeed()
	}
	p.Session.Status, p.Session.URL = stripego.CheckoutSessionStatusComplete, ""
	s.emit("checkout.session.completed", p.Session, nil, now)
	if with.disputed {
		p.Dispute = &stripego.Dispute{
			ID: newID("du_1"), Object: "dispute", Created: now.Unix(), Amount: p.Session.AmountTotal, Currency: p.Session.Currency, PaymentIntent: p.Intent,
			Reason: stripego.DisputeReasonFraudulent, Status: stripego.DisputeStatusNeedsResponse,
		}
		s.emit("charge.dispute.created", p.Dispute, nil, now)
	}
	return ""
}

// store stores a card for charges without its holder.
func (s *Server) store(p *payment, with card, now time.Time) (problem string) {
	if with.message != "" {
		return with.message
	}
	p.Number = with.Number
	p.Setup = &stripego.SetupIntent{
		ID: newID("seti_1"), Object: "setup_intent", Created: now.Unix(), Customer: p.Session.Customer, Status: stripego.SetupIntentStatusSucceeded,
		PaymentMethod: &stripego.PaymentMethod{ID: newID("pm_1")},
	}
	p.Session.SetupIntent = &stripego.SetupIntent{ID: p.Setup.ID}
	p.Session.Status, p.Session.URL = stripego.CheckoutSessionStatusComplete, ""
	s.emit("checkout.session.completed", p.Session, nil, now)
	return ""
}

func (p *payment) succeed() {
	p.Intent.Status, p.Intent.AmountReceived, p.Intent.LastPaymentError = stripego.PaymentIntentStatusSucceeded, p.Intent.Amount, nil
	p.Session.PaymentStatus = stripego.CheckoutSessionPaymentStatusPaid
}

func (s *Server) completePayment(p *payment, now time.Time) {
	status := stripego.PaymentIntentStatus(p.Settlement.Status)
	p.Settlement = settlement{}
	if p.Session.ID == "" {
		s.completeCharge(p, status, now)
		return
	}
	if status != stripego.PaymentIntentStatusSucceeded {
		p.Intent.Status = status
		s.emit("checkout.session.async_payment_failed", p.Session, nil, now)
		return
	}
	p.succeed()
	s.emit("checkout.session.async_payment_succeeded", p.Session, nil, now)
}

// completeCharge ends the charge of a stored card.
func (s *Server) completeCharge(p *payment, status stripego.PaymentIntentStatus, now time.Time) {
	kind := stripego.EventType("payment_intent.payment_failed")
	if p.Intent.Status = status; status == stripego.PaymentIntentStatusSucceeded {
		p.succeed()
		kind = "payment_intent.succeeded"
	}
	s.emit(kind, p.Intent, nil, now)
}

//go:embed pages.html style.css
var files embed.FS

var pages = template.Must(template.ParseFS(files, "pages.html"))

// page contains the values of a template.
type page struct {
	Title, Message, Problem string
	ID, For, Amount, Back   string
	Cards                   []card
}

// write writes a page. Browsers apply form-action to the redirect after a form, too, so the policy
// names the origin of next.
func (s *Server) write(w http.ResponseWriter, status int, name string, p page, next string) {
	origin := ""
	if at, err := url.Parse(next); err == nil && at.Host != "" {
		origin = at.Scheme + "://" + at.Host
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self' "+origin)
	h.Set("Referrer-Policy", "no-referrer") // the address of a page authorizes its payment
	w.WriteHeader(status)
	if err := pages.ExecuteTemplate(w, name, p); err != nil {
		s.cfg.Log.Warn("page not written", "component", "checkout", "err", err)
	}
}

func serveStyle(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, "style.css") }

func (s *Server) servePortal(w http.ResponseWriter, _ *http.Request) {
	s.write(w, http.StatusOK, "over", page{Title: "Customer portal", Message: "The payment double has no customer portal."}, "")
}

func (s *Server) servePage(w http.ResponseWriter, r *http.Request) { s.checkout(w, r, nil) }

// servePayment receives the form of a page. Another origin must not pay in the name of its visitor.
func (s *Server) servePayment(w http.ResponseWriter, r *http.Request) {
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	with := cardOf(r.PostFormValue("number"))
	s.checkout(w, r, &with)
}

// checkout charges a card, if there is one, and writes the page of the session. Only a form is
// redirected after a payment.
func (s *Server) checkout(w http.ResponseWriter, r *http.Request, with *card) {
	var session stripego.CheckoutSession
	var p page
	err := s.update(func(now time.Time) error {
		found := s.payment(r.PathValue("id"))
		if found == nil {
			return nil
		}
		if with != nil && found.Session.Status == stripego.CheckoutSessionStatusOpen {
			p.Problem = s.charge(found, *with, now)
		}
		session = found.Session
		p.Title, p.ID, p.For, p.Amount, p.Back, p.Cards = "Payment", session.ID, found.Title, format(session), session.CancelURL, cards
		return nil
	})
	success := strings.ReplaceAll(session.SuccessURL, "{CHECKOUT_SESSION_ID}", url.QueryEscape(session.ID))
	switch {
	case err != nil:
		s.write(w, http.StatusInternalServerError, "over", page{Title: "Payment", Message: "The payment was not stored. Try again."}, "")
	case session.Status == stripego.CheckoutSessionStatusOpen:
		status := map[bool]int{true: http.StatusOK, false: http.StatusPaymentRequired}[p.Problem == ""]
		s.write(w, status, "pay", p, session.SuccessURL)
	case session.Status == stripego.CheckoutSessionStatusComplete && with != nil:
		http.Redirect(w, r, success, http.StatusSeeOther)
	default:
		s.writeClosed(w, session, success)
	}
}

// writeClosed writes the page of a session that accepts no card.
func (s *Server) writeClosed(w http.ResponseWriter, session stripego.CheckoutSession, success string) {
	p, status := page{Title: "Payment", Back: success}, http.StatusOK
	switch {
	case session.ID == "":
		p.Message, status = "There is no such payment.", http.StatusNotFound
	case session.Status == stripego.CheckoutSessionStatusComplete && session.Mode == stripego.CheckoutSessionModeSetup:
		p.Message = "The card is stored."
	case session.PaymentStatus == stripego.CheckoutSessionPaymentStatusPaid:
		p.Message = "This is paid: " + format(session) + "."
	case session.Status == stripego.CheckoutSessionStatusComplete:
		p.Message = "This payment of " + format(session) + " is in progress."
	default:
		p.Message, p.Back, status = "This page has expired.", cmp.Or(session.CancelURL, success), http.StatusGone
	}
	s.write(w, status, "over", p, "")
}
