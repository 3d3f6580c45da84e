package stripe

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// object is a resource as the API shows it.
type object = map[string]any

// call is a request to the API, under the lock.
type call struct {
	*Server

	now  time.Time
	id   string // in the path
	form url.Values
}

// endpoint is what the API does at one address. Parameters that it does not name
// are refused: who sends one expects something of it.
type endpoint struct {
	do     func(*call) (object, *refusal)
	params []string
}

func endpoints() map[string]endpoint {
	paged := []string{"limit", "starting_after", "ending_before", "created", "created[gte]", "created[gt]", "created[lte]", "created[lt]"}
	return map[string]endpoint{
		"POST /v1/customers":                     {(*call).createCustomer, []string{"name", "email", "description", "phone", "metadata[*]"}},
		"GET /v1/customers/{id}":                 {(*call).getCustomer, nil},
		"POST /v1/checkout/sessions":             {(*call).createSession, sessionParams},
		"GET /v1/checkout/sessions/{id}":         {(*call).getSession, nil},
		"POST /v1/checkout/sessions/{id}/expire": {(*call).expireSession, nil},
		"GET /v1/payment_intents/{id}":           {(*call).getIntent, nil},
		"GET /v1/charges/{id}":                   {(*call).getCharge, nil},
		"POST /v1/refunds":                       {(*call).createRefund, []string{"charge", "payment_intent", "amount", "reason", "metadata[*]"}},
		"GET /v1/refunds":                        {(*call).listRefunds, append([]string{"charge", "payment_intent"}, paged...)},
		"GET /v1/refunds/{id}":                   {(*call).getRefund, nil},
		"POST /v1/billing_portal/sessions":       {(*call).createPortal, []string{"customer", "return_url", "locale"}},
		"GET /v1/events":                         {(*call).listEvents, append([]string{"type", "types[]"}, paged...)},
		"GET /v1/events/{id}":                    {(*call).getEvent, nil},
	}
}

// reply is what goes out.
type reply struct {
	status int
	body   any
	header map[string]string
}

func refuse(no *refusal) reply {
	out := reply{status: no.Status, body: object{"error": no}}
	if no.Retry != "" {
		out.header = map[string]string{"Stripe-Should-Retry": no.Retry}
	}
	return out
}

// api answers a request. A fault may keep the answer from its client: what was
// done stays done.
func (s *Server) api(e endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := named("req_")
		form, no := s.read(r, e)
		if no != nil {
			send(w, id, refuse(no))
			return
		}
		said, trouble := s.answer(r, e, form, id)
		if trouble == faultAPITimeout {
			s.hang(r)
			s.free(r)
		}
		send(w, id, said)
	})
}

func (s *Server) unknown(w http.ResponseWriter, r *http.Request) {
	no := s.authorise(r)
	if no == nil {
		no = &refusal{Status: http.StatusNotFound, Type: invalidRequest, Message: fmt.Sprintf("This provider does not know %s %s.", r.Method, r.URL.Path)}
	}
	send(w, named("req_"), refuse(no))
}

func send(w http.ResponseWriter, id string, said reply) {
	text, err := json.Marshal(said.body)
	if err != nil { // a resource of ours: it can be encoded
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Request-Id", id)
	h.Set("Stripe-Version", Version)
	for name, value := range said.header {
		h.Set(name, value)
	}
	w.WriteHeader(said.status)
	_, _ = w.Write(append(text, '\n')) // its reader may have gone
}

func (s *Server) authorise(r *http.Request) *refusal {
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		key, _, ok = r.BasicAuth()
	}
	no := &refusal{Status: http.StatusUnauthorized, Type: invalidRequest}
	switch {
	case !ok || key == "":
		no.Message = "No API key was sent. It belongs into the Authorization header, as a bearer token or as the name of Basic."
	case subtle.ConstantTimeCompare([]byte(key), []byte(s.cfg.SecretKey)) != 1:
		no.Message = "Invalid API key."
	default:
		return nil
	}
	return no
}

var (
	index = regexp.MustCompile(`\[\d+\]`)
	tag   = regexp.MustCompile(`(metadata\]?)\[[^\]]+\]$`)
)

// read checks what can be checked without the state.
func (s *Server) read(r *http.Request, e endpoint) (url.Values, *refusal) {
	if no := s.authorise(r); no != nil {
		return nil, no
	}
	if v := r.Header.Get("Stripe-Version"); v != "" && v != Version {
		return nil, invalid("", "", "This provider speaks version "+Version+" of the API alone.")
	}
	if r.Header.Get("Stripe-Account") != "" {
		return nil, &refusal{Status: http.StatusForbidden, Type: invalidRequest, Code: "account_invalid", Message: "This provider has no connected accounts."}
	}
	if err := r.ParseForm(); err != nil {
		return nil, invalid("", "", "The body is no form: "+err.Error())
	}
	form := r.PostForm
	if r.Method == http.MethodGet {
		form = r.URL.Query()
	}
	for name := range form {
		plain := index.ReplaceAllString(tag.ReplaceAllString(name, "$1[*]"), "[]")
		if !slices.Contains(e.params, plain) {
			return nil, invalid(name, "parameter_unknown", "Received unknown parameter: "+name)
		}
	}
	return form, nil
}

// asked is what a key stands for.
func asked(r *http.Request, form url.Values) []byte {
	sum := sha256.Sum256([]byte(r.Method + " " + r.URL.Path + "?" + form.Encode()))
	return sum[:]
}

// answer does what is asked, once for each key.
func (s *Server) answer(r *http.Request, e endpoint, form url.Values, id string) (said reply, trouble string) {
	key := keyOf(r)
	err := s.change(func(now time.Time) error {
		if old, ok := s.answered(key, now); ok {
			said = replay(old, asked(r, form))
			return nil
		}
		if s.busy[key] && key != "" {
			said = refuse(&refusal{
				Status: http.StatusConflict, Type: keyError, Code: "idempotency_key_in_use", Retry: "true",
				Message: "Another request with this key is under way.",
			})
			return nil
		}
		if trouble = s.strikeAPI(); trouble == faultAPIError {
			said = refuse(broken())
			return nil
		}
		s.request.id, s.request.key = id, key
		done, no := e.do(&call{s, now, r.PathValue("id"), form})
		s.request.id, s.request.key = "", ""
		if no != nil { // refused before anything was done, so that no key keeps it
			said = refuse(no)
			return nil
		}
		said = reply{status: http.StatusOK, body: done}
		if key != "" {
			s.busy[key] = trouble == faultAPITimeout
		}
		return s.remember(key, r, form, id, &said, trouble, now)
	})
	if err != nil {
		s.cfg.Log.ErrorContext(r.Context(), "a payment was not written down", "component", "checkout", "err", err)
		said = refuse(broken())
	}
	if key != "" {
		if said.header == nil {
			said.header = map[string]string{}
		}
		said.header["Idempotency-Key"] = key
	}
	return said, trouble
}

// keyOf is empty where the API keeps no answer: a read has no effect to repeat.
func keyOf(r *http.Request) string {
	if r.Method != http.MethodPost {
		return ""
	}
	return r.Header.Get("Idempotency-Key")
}

func broken() *refusal {
	return &refusal{Status: http.StatusInternalServerError, Type: apiError, Message: "Something went wrong at the provider."}
}

func (s *Server) answered(key string, now time.Time) (*answer, bool) {
	old, ok := s.state.answers.get(key)
	return old, ok && key != "" && now.Sub(old.At) < keysFor && !s.busy[key]
}

func replay(old *answer, same []byte) reply {
	if subtle.ConstantTimeCompare(old.Asked, same) != 1 {
		return refuse(&refusal{
			Status: http.StatusBadRequest, Type: keyError,
			Message: "The key '" + old.Key + "' was used with other parameters, or at another address. A different request needs a key of its own.",
		})
	}
	return reply{old.Status, old.Body, map[string]string{"Idempotent-Replayed": "true", "Original-Request": old.RequestID}}
}

// remember keeps the answer under its key, and spoils what the client sees of it.
func (s *Server) remember(key string, r *http.Request, form url.Values, id string, said *reply, trouble string, now time.Time) error {
	if trouble == faultAPIKept {
		*said = refuse(broken())
	}
	if key != "" {
		body, err := json.Marshal(said.body)
		if err != nil {
			return fmt.Errorf("encoding an answer: %w", err)
		}
		s.state.answers.put(&answer{key, now, asked(r, form), id, said.status, body})
	}
	if trouble == faultAPILost {
		*said = refuse(broken())
	}
	return nil
}

// hang keeps a client waiting until it has had enough.
func (s *Server) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-s.ended:
	}
}

// free lets the key be asked again.
func (s *Server) free(r *http.Request) {
	if key := keyOf(r); key != "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.busy, key)
	}
}
