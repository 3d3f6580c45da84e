package layout

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/gpuaas/gpuaas/api/openapi"
)

// Reply is the response of an operation to the calls of the page. The page waits for ever for a status of zero.
type Reply struct {
	Method string `json:"method"`
	Path   string `json:"path"`            // a regular expression
	Query  string `json:"query,omitempty"` // a parameter that the call must have
	Status int    `json:"status"`
	Body   any    `json:"body,omitempty"`
}

// States are the states in which a screen is measured. They are those of web/screens.yaml, and two of a successful screen:
// each section of its read model is degraded, and each text that a user can write has 255 letters without a space.
var States = []string{"loading", "empty", "error", "success", "restricted", "rate_limited", "degraded", "overlong"}

// failures has the status of the responses in a state without data.
var failures = map[string]int{"loading": 0, "error": http.StatusConflict, "restricted": http.StatusForbidden, "rate_limited": http.StatusTooManyRequests}

var codes = map[int]string{http.StatusConflict: "conflict", http.StatusForbidden: "forbidden", http.StatusTooManyRequests: "rate_limited"}

// overlong is a name without a place where a line could break.
var overlong = strings.Repeat("overlong", 32)[:255]

var contract = sync.OnceValues(openapi.Document)

// Replies are the responses of all operations in a state: the examples of the contract, or errors of it. The user has every
// role, so that no screen hides a section.
func Replies(state string) ([]Reply, error) {
	doc, err := contract()
	if err != nil {
		return nil, fmt.Errorf("reading the contract: %w", err)
	}
	replies := slices.Clone(session)
	of := examples{}
	for _, op := range openapi.Operations(doc) {
		of[op.OperationID] = op
	}
	parameter := regexp.MustCompile(`\\\{[^}]*\\\}`)
	for _, op := range openapi.Operations(doc) {
		r := Reply{Method: op.Method, Path: "^" + parameter.ReplaceAllString(regexp.QuoteMeta(op.Path), "[^/]+") + "$"}
		if status, fails := failures[state]; fails {
			r.Status, r.Body = status, problem(status)
		} else {
			r.Status, r.Body = of.success(op, state)
		}
		replies = append(replies, r)
	}
	return replies, nil
}

// session has what every screen reads.
var session = []Reply{
	{Method: "GET", Path: "^/api/v1/users/me$", Status: http.StatusOK, Body: map[string]any{
		"actor_type": "user", "user": map[string]any{"id": "u", "email": "dev@dev.localhost", "name": "Dev", "role": "admin"},
		"tenant": map[string]any{"id": "t", "name": "dev", "role": "owner"},
	}},
	{Method: "GET", Path: "^/api/v1/projects$", Query: "limit=200", Status: http.StatusOK, Body: map[string]any{
		"items": []any{map[string]any{"id": "p", "urn": "u", "name": "default", "role": "admin"}},
	}},
	{Method: "GET", Path: "^/api/v1/events$"},
}

func problem(status int) any {
	code := codes[status]
	return map[string]any{
		"code": code, "message": "the request cannot be completed in the present state", "correlation_id": "01990f48-3333-7222-8333-444455556666",
		"details": map[string]any{"suggestion": "reload the page, and try again"}, "type": code, "title": code, "status": status, "instance": "/",
	}
}

// examples are the operations by id.
type examples map[string]openapi.Operation

// success returns the example of the response. Each section of a read model has the example of its operation.
func (of examples) success(op openapi.Operation, state string) (status int, body any) {
	status, schema, body := exampleOf(op)
	if model, ok := body.(map[string]any); ok && isModel(op) {
		model = maps.Clone(model)
		for name, section := range model {
			model[name] = of.section(section, state)
		}
		body = model
	}
	switch state {
	case "empty":
		return status, change(schema, body, empty)
	case "overlong":
		return status, change(schema, body, lengthen)
	}
	return status, body
}

func isModel(op openapi.Operation) bool { return strings.HasPrefix(op.Path, "/api/v3/") }

func (of examples) section(value any, state string) any {
	section, ok := value.(map[string]any)
	name, named := section["operation"].(string)
	if !ok || !named {
		return value
	}
	if state == "degraded" {
		return map[string]any{"status": "degraded", "operation": name, "reason": "timeout", "message": "the section was not read within 2s", "runbook_id": "section-degraded"}
	}
	_, _, data := exampleOf(of[name])
	return map[string]any{"status": "ok", "operation": name, "data": data}
}

func exampleOf(op openapi.Operation) (status int, schema *openapi3.SchemaRef, example any) {
	responses := op.Responses.Map()
	for _, code := range slices.Sorted(maps.Keys(responses)) {
		if !strings.HasPrefix(code, "2") {
			continue
		}
		_, _ = fmt.Sscan(code, &status)
		if content := responses[code].Value.Content["application/json"]; content != nil {
			return status, content.Schema, content.Example
		}
		return status, nil, nil
	}
	return http.StatusNoContent, nil, nil
}
