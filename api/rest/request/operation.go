package request

import (
	"fmt"
	"math"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"

	"github.com/gpuaas/gpuaas/api/openapi"
	"github.com/gpuaas/gpuaas/policies"
)

// Operation is one operation of the contract, prepared for the middlewares.
type Operation struct {
	ID           string
	Public       bool // no sign-in
	Write        bool
	WebSocket    bool // a token may be in a subprotocol
	Signed       bool // the signature covers the bytes of the body, see takeSigned
	Stream       bool // the handler reads the body, which has any size
	allowed      Roles
	AllowedRoles []string // the allowed roles that a tenant can grant
	scopes       policies.Scopes
	Class        Class
	MaxBody      int64 // bytes of the body
	Project      projectMode
	// The number of allowed and of denied requests.
	Allows, Denies atomic.Uint64
	Query          map[string]bool // the parameters of the contract
	Parameters     []Parameter
	Bounded        map[string]bounds     // headers with bounds on their length only
	Body           *openapi3.RequestBody // nil if the operation has no body
	Schema         *openapi3.Schema      // of the body
	Route          *routers.Route
}

// Parameter is a parameter with its canonical header name. Computing that of X-Project-ID costs an
// allocation each time.
type Parameter struct {
	*openapi3.Parameter

	Header string
}

// Route identifies an operation by its method and the path of the router.
type Route struct{ Method, Path string }

type projectMode int

const (
	NoProject projectMode = iota
	MayProject
	MustProject
	PathProject    // the ID in the path is that of the project
	AccountProject // the project of the service account in the path
)

// projectModes maps the values of x-project in the contract.
var projectModes = map[any]projectMode{"required": MustProject, "path": PathProject, "service_account": AccountProject}

// MaxBody is the limit of a request body, in bytes, unless x-body sets another.
const MaxBody = 1 << 20

// adminPaths is the prefix of the paths that only operators may call, in any tenant.
const adminPaths = "/api/v1/admin/"

var pathParameter = regexp.MustCompile(`\{([a-z_]+)\}`)

// OperationsOf prepares the operations of the contract. It returns an error for an operation that
// no role may call, so that the fault appears at the start of the server and not at the first
// request.
func OperationsOf(doc *openapi3.T) (map[Route]*Operation, error) {
	all := map[Route]*Operation{}
	for _, o := range openapi.Operations(doc) {
		op := &Operation{
			ID:        o.OperationID,
			Public:    o.Security != nil && len(*o.Security) == 0,
			WebSocket: o.Responses.Status(http.StatusSwitchingProtocols) != nil,
			Write:     o.Method != http.MethodGet && o.Method != http.MethodHead,
			Class:     ClassRead,
			MaxBody:   MaxBody,
			Query:     map[string]bool{},
			Bounded:   map[string]bounds{},
			Route:     &routers.Route{Spec: doc, Path: o.Path, PathItem: doc.Paths.Value(o.Path), Method: o.Method, Operation: o.Operation},
		}
		if op.setRoles(o.Path); op.allowed == 0 {
			return nil, fmt.Errorf("operation %s has no entry in the roles", op.ID)
		}
		var ok bool
		if op.Class, ok = classOf(op, o); !ok {
			return nil, fmt.Errorf("operation %s: there is no such class of limits as in x-limit", op.ID)
		}
		op.setParameters(o)
		op.setBody(o)
		all[Route{Method: o.Method, Path: pathParameter.ReplaceAllString(o.Path, ":$1")}] = op
	}
	return all, nil
}

func (op *Operation) setRoles(path string) {
	op.allowed = rolesAllowed(op.ID)
	op.scopes = scopesFor(op.ID)
	if strings.HasPrefix(path, adminPaths) {
		op.allowed &= operators
		op.scopes = 0
	}
	op.AllowedRoles = rolesOfTenants(op.allowed)
}

func (op *Operation) setParameters(o openapi.Operation) {
	op.Project = projectModes[o.Extensions["x-project"]]
	for _, ref := range o.Parameters {
		p := ref.Value
		if p.Name == "X-Project-ID" && op.Project == NoProject {
			op.Project = MayProject
		}
		if p.In == openapi3.ParameterInQuery {
			op.Query[p.Name] = true
		}
		// The generated server parses ids and numbers, and reports their faults. This package checks names, enums
		// and lengths.
		op.Parameters = append(op.Parameters, Parameter{p, http.CanonicalHeaderKey(p.Name)})
		if b, ok := boundsOf(p); ok {
			op.Bounded[p.Name] = b
		}
	}
}

func (op *Operation) setBody(o openapi.Operation) {
	op.Signed = o.Extensions["x-signed"] != nil
	if n, ok := o.Extensions["x-body"].(float64); ok {
		op.MaxBody = int64(n)
	}
	if o.RequestBody == nil {
		return
	}
	op.Body = o.RequestBody.Value
	if op.Stream = o.Extensions["x-stream"] != nil; op.Stream {
		op.MaxBody = math.MaxInt64
		return
	}
	if !op.Signed {
		op.Schema = op.Body.Content["application/json"].Schema.Value
	}
}

// bounds of a text's length, in characters.
type bounds struct{ Least, Most uint64 }

// boundsOf returns the bounds of the length of a header, if its schema has no other rule.
func boundsOf(p *openapi3.Parameter) (bounds, bool) {
	s := p.Schema.Value
	if p.In != openapi3.ParameterInHeader || !s.Type.Is(openapi3.TypeString) || s.MaxLength == nil {
		return bounds{}, false
	}
	only := openapi3.Schema{Type: s.Type, MinLength: s.MinLength, MaxLength: s.MaxLength, Origin: s.Origin}
	same := reflect.DeepEqual(only, *s) //nolint:govet // a schema that was parsed holds no error
	return bounds{s.MinLength, *s.MaxLength}, same
}

// StreamsOf are the paths that answer with an event stream or a websocket.
func StreamsOf(doc *openapi3.T) map[string]bool {
	streams := map[string]bool{}
	for _, o := range openapi.Operations(doc) {
		ok := o.Responses.Status(http.StatusOK)
		if o.Responses.Status(http.StatusSwitchingProtocols) != nil || ok != nil && ok.Value.Content["text/event-stream"] != nil {
			streams[o.Path] = true
		}
	}
	return streams
}

// Count counts one decision about the operation.
func (op *Operation) Count(allowed bool) {
	if allowed {
		op.Allows.Add(1)
		return
	}
	op.Denies.Add(1)
}
