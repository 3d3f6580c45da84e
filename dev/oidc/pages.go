package oidc

import (
	"embed"
	"html/template"
	"net/http"
	"net/url"
)

//go:embed pages.html style.css
var files embed.FS

var pages = template.Must(template.ParseFS(files, "pages.html"))

type page struct {
	Base, Title      string
	Request, Client  string
	UserCode         string
	Message, Problem string
	People           []Person
}

// show writes a page. Browsers check the redirect after a form against form-action too, so the
// header contains the client's origin.
func (s *Server) show(w http.ResponseWriter, status int, p page, next string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self' "+next)
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(status)
	p.Base = s.base
	if err := pages.ExecuteTemplate(w, "page", p); err != nil {
		s.cfg.Log.Warn("page not written", "component", "issuer", "err", err)
	}
}

func style(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, "style.css") }

func origin(of string) string {
	u, err := url.Parse(of)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

const overdue = "This sign-in is over. Start it again in the program that sent you here."

func (s *Server) askLogin(w http.ResponseWriter, r *http.Request) {
	id := r.FormValue("request")
	a, ok := s.store.waiting(s.cfg.Clock.Now(), id)
	if !ok {
		s.show(w, http.StatusNotFound, page{Title: "Sign in", Problem: overdue}, "")
		return
	}
	s.show(w, http.StatusOK, page{Title: "Sign in", Request: id, Client: a.client, People: *s.people.Load()}, origin(a.redirect))
}

// login lets in whom the form names, and sends the code to the client.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	if err := s.sameOrigin.Check(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	subject := r.PostFormValue("person")
	if _, ok := s.person(subject); !ok {
		s.show(w, http.StatusBadRequest, page{Title: "Sign in", Problem: "There is no such person here."}, "")
		return
	}
	text, a, ok := s.store.choose(s.cfg.Clock.Now(), r.PostFormValue("request"), subject)
	if !ok {
		s.show(w, http.StatusNotFound, page{Title: "Sign in", Problem: overdue}, "")
		return
	}
	back, err := url.Parse(a.redirect)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q := back.Query()
	q.Set("code", text)
	q.Set("state", a.state)
	q.Set("iss", s.cfg.Issuer) // RFC 9207: whose code this is
	back.RawQuery = q.Encode()
	http.Redirect(w, r, back.String(), http.StatusSeeOther)
}

func (s *Server) askDevice(w http.ResponseWriter, r *http.Request) {
	p := page{Title: "Connect a device", UserCode: r.FormValue("user_code")}
	if p.UserCode != "" {
		var ok bool
		if p.Client, ok = s.store.deviceWaits(s.cfg.Clock.Now(), p.UserCode); !ok {
			p.Problem = "No device waits with this code. Codes are valid for ten minutes."
		} else {
			p.People = *s.people.Load()
		}
	}
	s.show(w, http.StatusOK, p, "")
}

func (s *Server) approveDevice(w http.ResponseWriter, r *http.Request) {
	if err := s.sameOrigin.Check(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	subject := r.PostFormValue("person") // empty: denied
	p := page{Title: "Connect a device"}
	_, known := s.person(subject)
	switch {
	case subject != "" && !known:
		p.Problem = "There is no such person here."
	case !s.store.answerDevice(s.cfg.Clock.Now(), r.PostFormValue("user_code"), subject):
		p.Problem = "No device waits with this code. Codes are valid for ten minutes."
	case subject == "":
		p.Message = "The device was denied."
	default:
		p.Message = "The device is signed in as " + subject + ". You may close this page."
	}
	status := http.StatusOK
	if p.Problem != "" {
		status = http.StatusBadRequest
	}
	s.show(w, status, p, "")
}

func (s *Server) signedOut(w http.ResponseWriter, _ *http.Request) {
	s.show(w, http.StatusOK, page{Title: "Signed out", Message: "You are signed out."}, "")
}

// backTo allows the pages of the client's own origins, so that a link cannot
// send people elsewhere.
func (s *Server) backTo(id, to, state string) (string, bool) {
	c := s.client(id)
	u, err := url.Parse(to)
	if to == "" || c == nil || err != nil {
		return "", false
	}
	for _, redirect := range c.Redirects {
		if origin(redirect) == origin(to) {
			if state != "" {
				q := u.Query()
				q.Set("state", state)
				u.RawQuery = q.Encode()
			}
			return u.String(), true
		}
	}
	return "", false
}
