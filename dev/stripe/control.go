package stripe

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Status describes the double to a developer.
type Status struct {
	URL        string     `json:"url"`
	Webhook    string     `json:"webhook"` // empty: deliveries wait
	Customers  int        `json:"customers"`
	Charges    int        `json:"charges"`
	Refunds    int        `json:"refunds"`
	Events     int        `json:"events"`
	Faults     []Fault    `json:"faults"`
	Pages      []Page     `json:"pages"`      // newest first
	Deliveries []Delivery `json:"deliveries"` // webhooks that were not accepted, newest first
}

// Fault is an injected fault that is pending.
type Fault struct {
	Name string `json:"name"`
	Left int    `json:"left"`
	Does string `json:"does"`
}

// Page is the page of a checkout session.
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

// Delivery is a webhook that was not accepted.
type Delivery struct {
	Event    string    `json:"event"`
	Type     string    `json:"type"`
	DueAt    time.Time `json:"due_at"`
	Attempts int       `json:"attempts"`
	GaveUp   bool      `json:"gave_up"`
	Problem  string    `json:"problem"`
}

// Errors of control requests that name a resource the double does not have.
var (
	errNoFault = errors.New("no fault has this name")
	errNoEvent = errors.New("no event has this id")
)

// Status returns the state for a developer.
func (s *Server) Status() (st Status, err error) {
	err = s.update(func(time.Time) error {
		st = Status{
			URL: s.base, Webhook: s.target, Customers: len(s.state.Customers), Events: len(s.state.Events),
			Faults: []Fault{}, Pages: []Page{}, Deliveries: []Delivery{},
		}
		for _, name := range slices.Sorted(maps.Keys(s.state.Faults)) {
			st.Faults = append(st.Faults, Fault{name, s.state.Faults[name], faults[name]})
		}
		for _, p := range slices.Backward(s.state.Payments) {
			st.Charges, st.Refunds = st.Charges+p.Charges, st.Refunds+len(p.Refunds)
			c := p.Session
			if c.ID == "" { // the charge of a stored card has no page
				continue
			}
			st.Pages = append(st.Pages, Page{
				c.ID, c.ClientReferenceID, c.AmountTotal, strings.ToUpper(string(c.Currency)), string(c.Status), string(c.PaymentStatus),
				time.Unix(c.Created, 0).UTC(), s.base + "/c/pay/" + c.ID,
			})
		}
		for _, d := range slices.Backward(s.state.Deliveries) {
			if !d.Done {
				st.Deliveries = append(st.Deliveries, Delivery{d.Event, string(s.event(d.Event).Type), d.Due, d.Attempts, d.GaveUp, cmp.Or(d.Problem, d.Fault)})
			}
		}
		return nil
	})
	return st, err
}

// Arm injects a fault into the next count operations of its kind; 0 removes it.
func (s *Server) Arm(name string, count int) error {
	if faults[name] == "" || count < 0 {
		return errNoFault
	}
	return s.update(func(time.Time) error {
		if s.state.Faults[name] = count; count == 0 {
			delete(s.state.Faults, name)
		}
		return nil
	})
}

// Clear removes all faults. Delayed webhooks stay delayed.
func (s *Server) Clear() error {
	return s.update(func(time.Time) error {
		clear(s.state.Faults)
		return nil
	})
}

// Deliver makes all pending webhooks due now, or sends one event again.
func (s *Server) Deliver(event string) (sent int, err error) {
	err = s.update(func(now time.Time) error {
		if event != "" {
			if s.event(event) == nil {
				return errNoEvent
			}
			s.state.Deliveries = append(s.state.Deliveries, &delivery{Event: event, Due: now})
			sent = 1
			return nil
		}
		for _, d := range s.state.Deliveries {
			if d.pending() {
				d.Fault, d.Due = "", now
				sent++
			}
		}
		return nil
	})
	return sent, err
}

// control serves requests with the control token.
func (s *Server) control(do func(ControlRequest) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !authorized(r, s.cfg.ControlToken) {
			http.Error(w, "This needs the control token.", http.StatusUnauthorized)
			return
		}
		var body ControlRequest
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		result, err := do(body)
		switch {
		case errors.Is(err, errNoFault), errors.Is(err, errNoEvent):
			http.Error(w, err.Error(), http.StatusNotFound)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(result) // the client may have closed the connection
		}
	}
}

// ControlRequest is the body of a control request.
type ControlRequest struct {
	Name  string `json:"name,omitempty"`
	Count int    `json:"count,omitempty"`
	Event string `json:"event,omitempty"`
}

func (s *Server) addControl(mux *http.ServeMux) {
	mux.HandleFunc("GET /control/status", s.control(func(ControlRequest) (any, error) { return s.Status() }))
	mux.HandleFunc("POST /control/faults", s.control(func(b ControlRequest) (any, error) { return b, s.Arm(b.Name, b.Count) }))
	mux.HandleFunc("DELETE /control/faults", s.control(func(b ControlRequest) (any, error) { return b, s.Clear() }))
	mux.HandleFunc("POST /control/deliver", s.control(func(b ControlRequest) (any, error) {
		sent, err := s.Deliver(b.Event)
		return map[string]int{"sent": sent}, err
	}))
}
