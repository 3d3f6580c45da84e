package rest

import (
	"fmt"
	"net/http"
	"reflect"
	"regexp"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"

	"github.com/gpuaas/gpuaas/api/openapi"
)

// operation is one call of the contract, prepared for the way through the
// middlewares.
type operation struct {
	id      string
	public  bool // no sign-in
	write   bool
	allowed role
	class   Class
	project projectMode
	query   map[string]bool // the names that are known
	checked []*openapi3.Parameter
	bounded map[string]bounds     // headers of which only the length matters
	body    *openapi3.RequestBody // nil when it takes none
	schema  *openapi3.Schema      // of the body
	route   *routers.Route
}

type route struct{ method, path string }

type projectMode int

const (
	noProject projectMode = iota
	mayProject
	mustProject
)

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
			query:   map[string]bool{},
			bounded: map[string]bounds{},
			route:   &routers.Route{Spec: doc, Path: o.Path, PathItem: doc.Paths.Value(o.Path), Method: o.Method, Operation: o.Operation},
		}
		if op.allowed = allowed(op.id); op.allowed == 0 {
			return nil, fmt.Errorf("operation %s has no entry in the roles", op.id)
		}
		if op.write {
			op.class = ClassWrite
		}
		op.takeParameters(o)
		if o.RequestBody != nil {
			op.body = o.RequestBody.Value
			op.schema = op.body.Content["application/json"].Schema.Value
		}
		all[route{o.Method, pathParameter.ReplaceAllString(o.Path, ":$1")}] = op
	}
	return all, nil
}

func (op *operation) takeParameters(o openapi.Operation) {
	for _, ref := range o.Parameters {
		p := ref.Value
		if p.Name == "X-Project-ID" {
			op.project = mayProject
			if o.Extensions["x-project"] == "required" {
				op.project = mustProject
			}
		}
		if p.In == openapi3.ParameterInQuery {
			op.query[p.Name] = true
		}
		// The generated server reads ids and numbers itself, and says what is
		// wrong with them; names, enums and lengths are ours to check.
		op.checked = append(op.checked, p)
		if b, ok := boundsOf(p); ok {
			op.bounded[p.Name] = b
		}
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
