package stripe

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	stripego "github.com/stripe/stripe-go/v76"
)

// method is one method of the API.
type method func(*call) (json.RawMessage, *stripego.Error)

// call is a request to the API. The server is locked.
type call struct {
	*Server

	now  time.Time
	id   string // from the path
	form url.Values
}

// reply is a response of the API, as stored under its idempotency key.
type reply struct {
	Status  int
	Body    json.RawMessage
	At      time.Time
	Request []byte // SHA-256 of method, path and parameters
}

func failed(failure *stripego.Error) reply {
	body, _ := json.Marshal(map[string]any{"error": failure}) //nolint:errchkjson // the type has no field that cannot be encoded
	return reply{Status: failure.HTTPStatusCode, Body: body}
}

// outage is the response of a provider that cannot work now.
func outage() reply {
	return failed(&stripego.Error{HTTPStatusCode: http.StatusInternalServerError, Type: stripego.ErrorTypeAPI, Msg: "The provider has an internal error."})
}

func (s *Server) serveMethod(do method) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var out reply
		if failure := s.check(r); failure != nil {
			out = failed(failure)
		} else if err := s.update(func(now time.Time) error { out = s.execute(r, do, now); return nil }); err != nil {
			out = outage()
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Request-Id", newID("req_"))
		w.WriteHeader(out.Status)
		_, _ = w.Write(out.Body) // the client may have closed the connection
	}
}

// check checks everything that does not depend on the state.
func (s *Server) check(r *http.Request) *stripego.Error {
	if !authorized(r, s.cfg.SecretKey) {
		failure := invalid("", "", "The API key is missing or invalid.")
		failure.HTTPStatusCode = http.StatusUnauthorized
		return failure
	}
	if v := r.Header.Get("Stripe-Version"); v != "" && v != stripego.APIVersion {
		return invalid("", "", "The payment double has version "+stripego.APIVersion+" of the API only.")
	}
	if err := r.ParseForm(); err != nil {
		return invalid("", "", "The form is invalid: "+err.Error())
	}
	return nil
}

// authorized reports whether a request has this bearer token.
func authorized(r *http.Request, token string) bool {
	sent, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return token != "" && subtle.ConstantTimeCompare([]byte(sent), []byte(token)) == 1
}

// execute calls a method at most once for each idempotency key. A fault changes the response and not
// the effect. A failure changes nothing, so its key stays unused.
func (s *Server) execute(r *http.Request, do method, now time.Time) reply {
	key := r.Header.Get("Idempotency-Key")
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s?%s", r.Method, r.URL.Path, r.Form.Encode()))
	switch old := s.state.Replies[key]; {
	case r.Method != http.MethodPost:
		key = ""
	case old != nil && now.Sub(old.At) < keyLifetime && bytes.Equal(old.Request, sum[:]):
		return *old
	case old != nil && now.Sub(old.At) < keyLifetime:
		return failed(&stripego.Error{HTTPStatusCode: http.StatusBadRequest, Type: stripego.ErrorTypeIdempotency, Msg: "The key '" + key + "' was used with other parameters."})
	}
	fault := s.takeFault(faultAPIError, faultAPILost, faultAPIStored)
	if fault == faultAPIError {
		return outage()
	}
	body, failure := do(&call{s, now, r.PathValue("id"), r.Form})
	if failure != nil {
		return failed(failure)
	}
	out := reply{Status: http.StatusOK, Body: body}
	if fault == faultAPIStored {
		out = outage()
	}
	if out.At, out.Request = now, sum[:]; key != "" {
		s.state.Replies[key] = new(out)
	}
	if fault == faultAPILost {
		return outage()
	}
	return out
}

// encode returns a resource as the API returns it: without empty fields, and with the id in place of
// a resource inside it.
func encode(resource any) json.RawMessage {
	text, _ := json.Marshal(resource) //nolint:errchkjson // resources are types of stripe-go, which encode
	fields := map[string]json.RawMessage{}
	_ = json.Unmarshal(text, &fields) // a resource is an object
	for name, value := range fields {
		var inner struct{ ID json.RawMessage }
		switch {
		case string(value) == "null" || string(value) == `""`:
			delete(fields, name)
		case value[0] == '{' && json.Unmarshal(value, &inner) == nil && len(inner.ID) > 2:
			fields[name] = inner.ID
		}
	}
	text, _ = json.Marshal(fields)
	return text
}

func encodeList(path string, data []json.RawMessage) json.RawMessage {
	text, _ := json.Marshal(map[string]any{"object": "list", "url": path, "has_more": false, "data": data}) //nolint:errchkjson // the parts are encoded
	return text
}
