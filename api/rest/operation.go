package rest

import (
	"fmt"
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

// operation is one call of the contract, prepared for the way through the
// middlewares.
type operation struct {
	id      string
	public  bool // no sign-in
	write   bool
	signed  bool // the bytes of the body are what counts, see takeSigned
	allowed role
	mayBe   []string // the roles among them that a tenant gives
	scopes  policies.Scopes
	class   Class
	most    int64 // bytes of the body
	project projectMode
	// How often it was allowed and denied.
	allows, denies atomic.Uint64
	query          map[string]bool // the names that are known
	checked        []parameter
	bounded        map[string]bounds     // headers of which only the length matters
	body           *openapi3.RequestBody // nil when it takes none
	schema         *openapi3.Schema      // of the body
	route          *routers.Route
}

// parameter has its name as Go keeps headers by it: making that of X-Project-ID
// costs an allocation each time.
type parameter struct {
	*openapi3.Parameter

	header string
}

type route struct{ method, path string }

type projectMode int

const (
	noProject projectMode = iota
	mayProject
	mustProject
	pathProject    // the id in the path is the project's
	accountProject // it is that of the service account in the path
)

// projectModes are the words of x-project in the contract.
var projectModes = map[any]projectMode{"required": mustProject, "path": pathProject, "service_account": accountProject}

// adminPaths are only for operators, and never look at a tenant.
const adminPaths = "/api/v1/admin/"

var pathParameter = regexp.MustCompile(`\{([a-z_]+)\}`)

// operationsOf prepares the contract. An operation that no role may call is a
// fault found at the start and not by the first user.
func operationsOf(doc *openapi3.T) (map[route]*operation, error) {
	all := map[route]*operation{}
	for _, o := range openapi.Operations(doc) {
		op := &operation{
			id:      o.OperationID,
			public:  o.Security != nil && len(*o.Security) == 0,
			write:   o.Method != http.MethodGet && o.Method != http.MethodHead,
			class:   ClassRead,
			most:    maxBody,
			query:   map[string]bool{},
			bounded: map[string]bounds{},
			route:   &routers.Route{Spec: doc, Path: o.Path, PathItem: doc.Paths.Value(o.Path), Method: o.Method, Operation: o.Operation},
		}
		if op.takeRoles(o.Path); op.allowed == 0 {
			return nil, fmt.Errorf("operation %s has no entry in the roles", op.id)
		}
		var ok bool
		if op.class, ok = classOf(op, o); !ok {
			return nil, fmt.Errorf("operation %s: there is no such class of limits as in x-limit", op.id)
		}
		op.takeParameters(o)
		op.takeBody(o)
		all[route{o.Method, pathParameter.ReplaceAllString(o.Path, ":$1")}] = op
	}
	return all, nil
}

func (op *operation) takeRoles(path string) {
	op.allowed = allowed(op.id)
	op.scopes = scopesFor(op.id)
	if strings.HasPrefix(path, adminPaths) {
		op.allowed &= operators
		op.scopes = 0
	}
	op.mayBe = rolesOfTenants(op.allowed)
}

func (op *operation) takeParameters(o openapi.Operation) {
	op.project = projectModes[o.Extensions["x-project"]]
	for _, ref := range o.Parameters {
		p := ref.Value
		if p.Name == "X-Project-ID" && op.project == noProject {
			op.project = mayProject
		}
		if p.In == openapi3.ParameterInQuery {
			op.query[p.Name] = true
		}
		// The generated server reads ids and numbers itself, and says what is
		// wrong with them; names, enums and lengths are ours to check.
		op.checked = append(op.checked, parameter{p, http.CanonicalHeaderKey(p.Name)})
		if b, ok := boundsOf(p); ok {
			op.bounded[p.Name] = b
		}
	}
}

func (op *operation) takeBody(o openapi.Operation) {
	op.signed = o.Extensions["x-signed"] != nil
	if n, ok := o.Extensions["x-body"].(float64); ok {
		op.most = int64(n)
	}
	if o.RequestBody == nil {
		return
	}
	op.body = o.RequestBody.Value
	if !op.signed {
		op.schema = op.body.Content["application/json"].Schema.Value
	}
}

// bounds of a text's length, in characters.
type bounds struct{ least, most uint64 }

// boundsOf says how long a header may be, if its schema says nothing else.
func boundsOf(p *openapi3.Parameter) (bounds, bool) {
	s := p.Schema.Value
	if p.In != openapi3.ParameterInHeader || !s.Type.Is(openapi3.TypeString) || s.MaxLength == nil {
		return bounds{}, false
	}
	only := openapi3.Schema{Type: s.Type, MinLength: s.MinLength, MaxLength: s.MaxLength, Origin: s.Origin}
	same := reflect.DeepEqual(only, *s) //nolint:govet // a schema that was parsed holds no error
	return bounds{s.MinLength, *s.MaxLength}, same
}

// streamsOf are the paths that answer with an event stream.
func streamsOf(doc *openapi3.T) map[string]bool {
	streams := map[string]bool{}
	for _, o := range openapi.Operations(doc) {
		if ok := o.Responses.Status(http.StatusOK); ok != nil && ok.Value.Content["text/event-stream"] != nil {
			streams[o.Path] = true
		}
	}
	return streams
}
