package stripe

import (
	"cmp"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

//go:embed pages.html style.css
var files embed.FS

var pages = template.Must(template.ParseFS(files, "pages.html"))

// page is what any of them shows.
type page struct {
	Title, Message, Problem string
	ID, For, Amount, Back   string
	Email, Wrong            string // Wrong is the field that the problem is with
	AskEmail                bool
	Cards                   []hint
	Payments                []payment
}

type hint struct{ Number, Does string }

type payment struct{ At, Shown, Card, Status, Amount, Refunded string }

// At says whether the problem is with a field.
func (p page) At(field string) bool { return p.Wrong == field }

// hints are the cards that a page offers.
var hints = []hint{
	{"4242 4242 4242 4242", "is paid"},
	{"4000 0000 0000 0002", "is declined"},
	{"4000 0000 0000 9995", "is declined: insufficient funds"},
	{"4000 0000 0000 7726", "is paid; a refund is pending for a while"},
	{"4000 0000 0000 5126", "is paid; a refund fails after a while"},
	{"4000 0000 0000 0259", "is paid, and disputed by its holder"},
	{"4000 0000 0006 0006", "is paid after a while"},
	{"4000 0000 0006 0014", "is under way, and fails after a while"},
}

// show writes a page. Browsers hold the redirect that follows a form against
// form-action too, so it names where the payment began.
func (s *Server) show(w http.ResponseWriter, status int, name string, p page, next string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self' "+originOf(next))
	h.Set("Referrer-Policy", "no-referrer") // the address of a page is its key
	w.WriteHeader(status)
	if err := pages.ExecuteTemplate(w, name, p); err != nil {
		s.cfg.Log.Warn("page not written", "component", "checkout", "err", err)
	}
}

func originOf(of string) string {
	at, err := url.Parse(of)
	if err != nil || at.Host == "" {
		return ""
	}
	return at.Scheme + "://" + at.Host
}

func style(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, "style.css") }

// successURL of a session is the only place that a payment leads to.
func (r *session) successURL() string {
	return strings.ReplaceAll(r.SuccessURL, "{CHECKOUT_SESSION_ID}", url.QueryEscape(r.ID))
}

// failedPage answers when the state could not be kept.
func (s *Server) failedPage(w http.ResponseWriter, r *http.Request, err error) {
	s.cfg.Log.ErrorContext(r.Context(), "a payment was not written down", "component", "checkout", "err", err)
	s.show(w, http.StatusInternalServerError, "over", page{Title: "Payment", Message: "Something went wrong here. Nothing more is known; try again."}, "")
}

// askCard shows the form of an open page, and of another what became of it.
func (s *Server) askCard(w http.ResponseWriter, r *http.Request) {
	var found *session
	var p page
	err := s.change(func(time.Time) error {
		if known, ok := s.state.sessions.get(r.PathValue("id")); ok {
			one := *known
			found, p = &one, s.formOf(known)
		}
		return nil
	})
	switch {
	case err != nil:
		s.failedPage(w, r, err)
	case found == nil || found.Status != open:
		s.showOver(w, found)
	default:
		s.show(w, http.StatusOK, "pay", p, found.SuccessURL)
	}
}

func (s *Server) formOf(r *session) page {
	email := s.emailOf(r)
	return page{
		Title: "Payment", ID: r.ID, For: r.Title, Amount: shown(r.Currency, r.Amount), Back: r.CancelURL,
		Email: email, AskEmail: email == "", Cards: hints,
	}
}

// showOver says why nothing can be paid on a page.
func (s *Server) showOver(w http.ResponseWriter, r *session) {
	switch {
	case r == nil:
		s.show(w, http.StatusNotFound, "over", page{Title: "Payment", Message: "There is no such payment here."}, "")
	case r.Status == expired:
		s.show(w, http.StatusGone, "over", page{Title: "Payment", Message: "This page has expired, and nothing was paid. Begin again where you came from.", Back: cmp.Or(r.CancelURL, originOf(r.SuccessURL))}, "")
	case r.PaymentStatus == unpaid:
		s.show(w, http.StatusOK, "over", page{Title: "Payment", Message: "This payment is under way, or has failed since. It cannot be paid again.", Back: r.successURL()}, "")
	default:
		s.show(w, http.StatusOK, "over", page{Title: "Payment", Message: "This is paid: " + shown(r.Currency, r.Amount) + ".", Back: r.successURL()}, "")
	}
}

// fieldOf is the field of the form that a refusal names.
func fieldOf(no *refusal) string {
	switch {
	case no.Code == "incorrect_cvc" || no.Param == "cvc":
		return "cvc"
	case no.Code == "expired_card" || strings.HasPrefix(no.Param, "exp_"):
		return "expiry"
	default:
		return "number"
	}
}

// takeCard pays an open page, once. Who sends the form twice is led on as well:
// a browser shows the second answer.
func (s *Server) takeCard(w http.ResponseWriter, r *http.Request) {
	if err := s.sameOrigin.Check(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	with := card{
		number: r.PostFormValue("number"), expiry: r.PostFormValue("expiry"), cvc: strings.TrimSpace(r.PostFormValue("cvc")),
		email: strings.TrimSpace(r.PostFormValue("email")),
	}
	var found *session
	var no *refusal
	var p page
	err := s.change(func(now time.Time) error {
		known, ok := s.state.sessions.get(r.PathValue("id"))
		if !ok {
			return nil
		}
		if known.Status == open {
			no = s.pay(known, with, now)
		}
		one := *known
		found, p = &one, s.formOf(known)
		return nil
	})
	switch {
	case err != nil:
		s.failedPage(w, r, err)
	case no != nil:
		p.Problem, p.Wrong, p.Email = no.Message, fieldOf(no), cmp.Or(p.Email, with.email)
		s.show(w, http.StatusPaymentRequired, "pay", p, found.SuccessURL)
	case found != nil && found.Status == complete:
		http.Redirect(w, r, found.successURL(), http.StatusSeeOther)
	default:
		s.showOver(w, found)
	}
}

// showPayments lists what one customer has paid.
func (s *Server) showPayments(w http.ResponseWriter, r *http.Request) {
	p, status := page{Title: "Payments", Message: "This page has expired. Begin again where you came from."}, http.StatusNotFound
	err := s.change(func(now time.Time) error {
		known, ok := s.state.portals.get(r.PathValue("secret"))
		if !ok || known.over(now) {
			return nil
		}
		status, p.Back = http.StatusOK, known.ReturnURL
		if who, ok := s.state.customers.get(known.Customer); ok {
			p.For = cmp.Or(who.Name, who.Email, who.ID)
		}
		p.Payments = s.paymentsOf(known.Customer)
		return nil
	})
	switch {
	case err != nil:
		s.failedPage(w, r, err)
	case status != http.StatusOK:
		s.show(w, status, "over", p, "")
	default:
		s.show(w, status, "portal", p, "")
	}
}

func (s *Server) paymentsOf(customer string) (list []payment) {
	for _, c := range slices.Backward(s.state.charges.rows) {
		if c.Customer != customer {
			continue
		}
		at := time.Unix(c.Created, 0).UTC()
		one := payment{
			At: at.Format(time.RFC3339), Shown: at.Format(time.DateTime), Card: c.Brand + " ending in " + c.Last4, Status: c.Status,
			Amount: shown(c.Currency, c.Amount),
		}
		if c.Refunded > 0 {
			one.Refunded = shown(c.Currency, c.Refunded)
		}
		list = append(list, one)
	}
	return list
}
