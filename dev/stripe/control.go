package stripe

import (
	"cmp"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Status is what a person who develops wants to see.
type Status struct {
	URL        string     `json:"url"`
	Webhook    string     `json:"webhook"` // empty: nobody takes webhooks yet
	Customers  int        `json:"customers"`
	Charges    int        `json:"charges"`
	Refunds    int        `json:"refunds"`
	Events     int        `json:"events"`
	Faults     []Fault    `json:"faults"`
	Pages      []Page     `json:"pages"`      // the newest
	Deliveries []Delivery `json:"deliveries"` // webhooks that were not taken, the newest
}

// Fault is one that is still to happen.
type Fault struct {
	Name string `json:"name"`
	Left int    `json:"left"`
	Does string `json:"does"`
}

// Page is one that somebody may pay on.
type Page struct {
	ID            string    `json:"id"`
	Reference     string    `json:"reference"`
	AmountMinor   int64     `json:"amount_minor"`
	Currency      string    `json:"currency"`
	Status        string    `json:"status"`
	PaymentStatus string    `json:"payment_status"`
	CreatedAt     time.Time `json:"created_at"`
	URL           string    `json:"url"`
}

// Delivery is a webhook that was not taken.
type Delivery struct {
	Event    string    `json:"event"`
	Type     string    `json:"type"`
	DueAt    time.Time `json:"due_at"`
	Attempts int       `json:"attempts"`
	GaveUp   bool      `json:"gave_up"`
	Problem  string    `json:"problem"`
}

// What a person asks for that is not there, or not known.
var (
	ErrNoFault = errors.New("no fault has this name")
	ErrNoPage  = errors.New("no page has this id or reference")
	ErrNoEvent = errors.New("no event has this id")
)

// listedMost bounds the lists of a Status: a screen is not longer.
const listedMost = 20

// Status tells how things stand.
func (s *Server) Status() (st Status, err error) {
	err = s.change(func(time.Time) error {
		st = Status{
			URL: s.base, Webhook: s.target, Customers: len(s.state.customers.rows), Charges: len(s.state.charges.rows), Refunds: len(s.state.refunds.rows),
			Events: len(s.state.events.rows), Faults: []Fault{}, Pages: []Page{}, Deliveries: []Delivery{},
		}
		for _, f := range s.state.faults.rows {
			if f.Left > 0 {
				st.Faults = append(st.Faults, Fault{f.Name, f.Left, faults[f.Name]})
			}
		}
		for _, r := range newest(s.state.sessions.rows, func(*session) bool { return true }) {
			st.Pages = append(st.Pages, Page{r.ID, r.Reference, r.Amount, strings.ToUpper(r.Currency), r.Status, r.PaymentStatus, time.Unix(r.Created, 0).UTC(), s.pageOf(r)})
		}
		for _, d := range newest(s.state.deliveries.rows, func(d *delivery) bool { return !d.Done }) {
			one := Delivery{Event: d.Event, DueAt: d.DueAt, Attempts: d.Attempts, GaveUp: d.GaveUp, Problem: cmp.Or(d.Problem, d.Fault)}
			if e, ok := s.state.events.get(d.Event); ok {
				one.Type = e.Type
			}
			st.Deliveries = append(st.Deliveries, one)
		}
		return nil
	})
	return st, err
}

func newest[T any](rows []T, wanted func(T) bool) (some []T) {
	for _, r := range slices.Backward(rows) {
		if wanted(r) && len(some) < listedMost {
			some = append(some, r)
		}
	}
	return some
}

// Arm makes a fault happen to the next count of its kind; 0 takes it back.
func (s *Server) Arm(name string, count int) error {
	if faults[name] == "" || count < 0 {
		return ErrNoFault
	}
	return s.change(func(time.Time) error {
		s.state.faults.put(&armed{name, count})
		return nil
	})
}

// Clear takes all faults back. What one has held up goes at its time.
func (s *Server) Clear() error {
	return s.change(func(time.Time) error {
		for _, f := range s.state.faults.rows {
			f.Left = 0
			s.state.faults.put(f)
		}
		return nil
	})
}

// Deliver sends everything now that waits for its time. Of an event that is named
// it sends word again, whatever became of it.
func (s *Server) Deliver(id string) (sent int, err error) {
	err = s.change(func(now time.Time) error {
		if id != "" {
			if _, ok := s.state.events.get(id); !ok {
				return ErrNoEvent
			}
			s.state.deliveries.put(&delivery{ID: named("wd_"), Event: id, DueAt: now})
			sent = 1
			return nil
		}
		for _, d := range s.state.deliveries.rows {
			if !d.over() {
				d.Fault, d.DueAt = "", now
				s.state.deliveries.put(d)
				sent++
			}
		}
		return nil
	})
	return sent, err
}

// Page finds the address of a page by its id or by its client's reference. Of
// several with one reference it is the newest.
func (s *Server) Page(ref string) (found string, err error) {
	err = s.change(func(time.Time) error {
		for _, r := range slices.Backward(s.state.sessions.rows) {
			if ref != "" && (r.ID == ref || r.Reference == ref) {
				found = s.pageOf(r)
				return nil
			}
		}
		return ErrNoPage
	})
	return found, err
}

// control answers whoever has the token.
func (s *Server) control(do func(r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if s.cfg.ControlToken == "" || subtle.ConstantTimeCompare([]byte(token), []byte(s.cfg.ControlToken)) != 1 {
			http.Error(w, "This needs the control token.", http.StatusUnauthorized)
			return
		}
		said, err := do(r)
		switch {
		case errors.Is(err, ErrNoFault), errors.Is(err, ErrNoPage), errors.Is(err, ErrNoEvent):
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		text, err := json.Marshal(said)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(text, '\n')) // its reader may have gone
	}
}

// order is what a body of the control endpoint may say.
type order struct {
	Name  string `json:"name,omitempty"`
	Count int    `json:"count,omitempty"`
	Event string `json:"event,omitempty"`
}

func orderOf(r *http.Request) (o order, err error) {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return o, fmt.Errorf("reading the body: %w", err)
	}
	return o, nil
}

func (s *Server) controls(mux *http.ServeMux) {
	mux.HandleFunc("GET /control/status", s.control(func(*http.Request) (any, error) { return s.Status() }))
	mux.HandleFunc("POST /control/faults", s.control(func(r *http.Request) (any, error) {
		o, err := orderOf(r)
		if err == nil {
			err = s.Arm(o.Name, o.Count)
		}
		return object{"name": o.Name, "left": o.Count}, err
	}))
	mux.HandleFunc("DELETE /control/faults", s.control(func(*http.Request) (any, error) { return object{}, s.Clear() }))
	mux.HandleFunc("POST /control/deliver", s.control(func(r *http.Request) (any, error) {
		o, err := orderOf(r)
		if err != nil {
			return nil, err
		}
		sent, err := s.Deliver(o.Event)
		return object{"sent": sent}, err
	}))
	mux.HandleFunc("GET /control/page", s.control(func(r *http.Request) (any, error) {
		found, err := s.Page(r.URL.Query().Get("ref"))
		return object{"url": found}, err
	}))
}
