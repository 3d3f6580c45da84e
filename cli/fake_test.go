package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/openapi"
)

// fake is an installation that behaves as the names in the scripts require. Its requests and responses are checked
// against the contract, so that it cannot teach the command line a wrong one.
type fake struct {
	t      reporter
	router routers.Router

	mu      sync.Mutex
	items   []*oapi.Allocation // newest first
	reads   map[string]int     // how often an allocation was read
	keys    []oapi.SshKey
	replies map[string]oapi.Allocation // by idempotency key
	down    bool                       // NATS is down
	// notified is the number of connections of clients of notifications.
	notified atomic.Int32
	broken   int // calls that fail with 503
	changed  chan struct{}
	people   tenancyFake
	purse    purse
	changes  changes
	files    storageFake

	provider provider
}

const (
	goodToken = "gpk_good" // an operator's
	userToken = "gpk_user"
)

// birth is the creation time of all resources of the fake. Ages are relative, so scripts match them
// loosely.
var birth = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

// reporter is the part of a test that a fake needs.
type reporter interface {
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// contractRouter parses the contract once for all fakes.
var contractRouter = sync.OnceValues(func() (routers.Router, error) {
	doc, err := openapi.Document()
	if err != nil {
		return nil, err
	}
	doc.Servers = openapi3.Servers{}
	return gorillamux.NewRouter(doc)
})

func newFake(t reporter) (*fake, *httptest.Server) {
	router, err := contractRouter()
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{t: t, router: router, reads: map[string]int{}, replies: map[string]oapi.Allocation{}, changed: make(chan struct{}, 100), people: newPeople(), purse: newPurse(), changes: newChanges()}
	return f, httptest.NewServer(f)
}

// ServeHTTP checks the request, answers, and checks the answer.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	route, params, err := f.router.FindRoute(r)
	if err != nil {
		f.t.Errorf("%s %s is not in the contract: %v", r.Method, r.URL, err)
		http.NotFound(w, r)
		return
	}
	input := &openapi3filter.RequestValidationInput{
		Request: r, Route: route, PathParams: params,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
	}
	if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil {
		f.problem(w, r, http.StatusBadRequest, "validation_error", err.Error(), nil)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if r.URL.Path == "/api/v1/events" {
		f.stream(w, r)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/logs") {
		f.logs(w, r)
		return
	}
	answer := httptest.NewRecorder()
	f.answer(answer, r, route.Operation.OperationID, params)
	if answer.Code == dropped {
		// Half an answer: before its first byte Go's transport would repeat the
		// call by itself, because of the key.
		maps.Copy(w.Header(), answer.Header())
		w.Header().Set("Content-Length", "1000")
		status := http.StatusCreated
		if r.Method == http.MethodGet {
			status = http.StatusOK
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "{")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	err = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: answer.Code, Header: answer.Header(),
		Body:    io.NopCloser(bytes.NewReader(answer.Body.Bytes())),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	})
	if err != nil {
		f.t.Errorf("%s %s: the fake breaks the contract: %v", r.Method, r.URL, err)
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// dropped simulates a connection that breaks after the work was done.
const dropped = 599

func (f *fake) answer(w http.ResponseWriter, r *http.Request, operation string, params map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if operation == "getHealthz" {
		f.health(w, false)
		return
	}
	if f.provider.answer(f, w, r, operation) {
		return
	}
	if operation == "mintServiceAccountToken" {
		f.mint(w, r)
		return
	}
	token := bearer(r)
	admin := strings.HasPrefix(r.URL.Path, "/api/v1/admin/")
	switch {
	case f.broken > 0:
		f.broken--
		w.Header().Set("Retry-After", "0")
		f.problem(w, r, http.StatusServiceUnavailable, "unavailable", "the database is away", nil)
	case token == "":
		f.problem(w, r, http.StatusUnauthorized, "token_missing", "no token was sent", nil)
	case token != goodToken && token != userToken && !f.provider.knows(r.Context(), token):
		f.problem(w, r, http.StatusUnauthorized, "token_invalid", "the token is not good", nil)
	case admin && token == userToken:
		f.problem(w, r, http.StatusForbidden, "forbidden", "your role does not allow this", nil)
	case r.Header.Get("X-Project-Id") == "elsewhere":
		f.problem(w, r, http.StatusNotFound, "not_found", "there is no such project", nil)
	default:
		f.serve(w, r, operation, params)
	}
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request, operation string, params map[string]string) {
	if f.node(w, r, operation, params) {
		return
	}
	switch operation {
	case "getHealthDetails":
		f.health(w, true)
	case "listSkus":
		f.page(w, r, toAny(fakeSkus()), 2)
	case "getSku":
		for _, s := range fakeSkus() {
			if s.Name == params["sku"] {
				reply(w, http.StatusOK, s)
				return
			}
		}
		f.problem(w, r, http.StatusNotFound, "not_found", "there is no such SKU", nil)
	case "getNodeCapacity":
		reply(w, http.StatusOK, oapi.CapacityList{Items: []oapi.Capacity{{Sku: "h100-80gb", Region: "eu-1", Nodes: 2, Total: 16, Free: 11}}})
	case "getBalance":
		if bearer(r) == userToken {
			f.problem(w, r, http.StatusForbidden, "forbidden", "your role does not allow this", nil)
			return
		}
		reply(w, http.StatusOK, f.purse.balance)
	case "getUsage":
		reply(w, http.StatusOK, oapi.UsageList{Items: []oapi.Usage{{AllocationId: id(1), AllocationName: new("brave-otter"), ProjectId: id(2), ProjectName: new("default"), Sku: "h100-80gb", Gpus: 2, Price: eur(289), StartedAt: birth, Seconds: 600, Cost: eur(96)}}})
	case "getMe":
		reply(w, http.StatusOK, oapi.Me{
			ActorType: oapi.MeActorTypeUser, User: &oapi.UserSummary{Id: id(3), Email: "dev@gpuaas.local", Name: "Dev", Role: "operator"},
			Tenant: &oapi.Membership{Id: id(4), Name: "dev", Role: "owner"}, Project: &oapi.Membership{Id: id(2), Name: "default", Role: "admin"},
		})
	case "listAdminNodes":
		f.page(w, r, []any{fakeNode(false)}, 50)
	case "getAdminNode":
		if params["name"] != "sim-h100-01" {
			f.problem(w, r, http.StatusNotFound, "not_found", "there is no such node", nil)
			return
		}
		reply(w, http.StatusOK, fakeNode(true))
	case "listPlans":
		f.people.requests = append(f.people.requests, operation+"?"+r.URL.RawQuery)
		f.page(w, r, []any{oapi.Plan{Id: id(7), CreatedAt: time.Now().UTC(), Status: "applied", Hash: "3f0a", Actions: 1}}, 50)
	case "getPlan":
		if p := f.planned(params); p != nil {
			reply(w, http.StatusOK, p)
			return
		}
		f.plan(w)
	case "listSshKeys":
		f.page(w, r, toAny(f.keys), 50)
	case "createSshKey":
		f.addKey(w, r)
	case "deleteSshKey":
		f.keys = nil
		w.WriteHeader(http.StatusNoContent)
	default:
		if !f.storage(w, r, operation, params) && !f.change(w, r, operation, params) && !f.manage(w, r, operation, params) {
			f.allocations(w, r, operation, params)
		}
	}
}

func (f *fake) problem(w http.ResponseWriter, r *http.Request, status int, code, message string, details map[string]any) {
	if details == nil {
		details = map[string]any{}
	}
	w.Header().Set("Content-Type", "application/json")
	reply(w, status, oapi.Problem{
		Code: oapi.ErrorCode(code), Message: message, CorrelationId: r.Header.Get("X-Correlation-Id"), Details: details,
		Type: "/docs/reference/errors#" + code, Title: http.StatusText(status), Status: status, Instance: r.URL.Path,
	})
}

// health returns the checks, with their messages only for operators.
func (f *fake) health(w http.ResponseWriter, details bool) {
	h := oapi.Health{Status: "ok", Checks: []oapi.Check{{Name: "postgres", Status: "ok", StartedAt: birth}, {Name: "nats", Status: "ok", StartedAt: birth}}}
	status := http.StatusOK
	if f.down {
		h.Status, h.Checks[1].Status, h.Checks[1].Message, status = "down", "down", "connection refused", http.StatusServiceUnavailable
	}
	if details {
		status = http.StatusOK
	} else {
		h.Checks[1].Message = ""
	}
	reply(w, status, h)
}

// page serves at most so many items at once, whatever was requested.
func (f *fake) page(w http.ResponseWriter, r *http.Request, items []any, size int) {
	from := 0
	if c := r.URL.Query().Get("cursor"); c != "" {
		_, _ = fmt.Sscanf(c, "c%d", &from)
	}
	var asked int
	if _, err := fmt.Sscanf(r.URL.Query().Get("limit"), "%d", &asked); err == nil {
		size = min(size, asked)
	}
	end := min(len(items), from+size)
	body := map[string]any{"items": items[from:end]}
	if end < len(items) {
		body["next_cursor"] = fmt.Sprintf("c%d", end)
	}
	reply(w, http.StatusOK, body)
}

func reply(w http.ResponseWriter, status int, body any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func toAny[T any](items []T) []any {
	all := make([]any, len(items))
	for i := range items {
		all[i] = items[i]
	}
	return all
}

// id is the nth id of the fake, a UUIDv7 like all.
func id(n int) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("01990f41-0000-7000-8000-%012d", n))
}

func eur(minor int64) oapi.Money { return oapi.Money{AmountMinor: minor, Currency: "EUR"} }
