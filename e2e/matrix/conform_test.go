package matrix_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/gpuaas/gpuaas/api/openapi"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// internals are texts that a response has only when it leaks an implementation.
var internals = regexp.MustCompile(`SQLSTATE|\.go:\d|goroutine \d|pgconn|pgx|runtime error|ERROR: |violates|/usr/|/home/|/tmp/`)

// conforms returns how a response violates the contract, or "" (INV-57).
func conforms(doc *openapi3.T, o openapi.Operation, r request, a answer) string {
	if a.status >= http.StatusInternalServerError && a.status != http.StatusServiceUnavailable && a.code() != "agent_timeout" {
		return fmt.Sprintf("answered %d", a.status)
	}
	if a.status >= http.StatusBadRequest {
		if why := enveloped(r, a); why != "" {
			return why
		}
	}
	route := &routers.Route{Spec: doc, Path: o.Path, PathItem: doc.Paths.Value(o.Path), Method: o.Method, Operation: o.Operation}
	req, err := http.NewRequest(r.method, "http://door"+r.path, http.NoBody)
	if err != nil {
		return err.Error()
	}
	kind := a.header.Get("Content-Type")
	stream := strings.HasPrefix(kind, "text/") || kind == "application/x-asciicast"
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: req, Route: route},
		Status:                 a.status, Header: a.header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, ExcludeResponseBody: stream, MultiError: true},
	}
	input.SetBodyBytes(a.body)
	if err := openapi3filter.ValidateResponse(context.Background(), input); err != nil {
		return fmt.Sprintf("the response violates the contract: %.400s", err)
	}
	return ""
}

// enveloped checks that an error has the members of all errors, or returns the fault.
func enveloped(r request, a answer) string {
	code, correlation := a.code(), field(a.body, "correlation_id")
	switch {
	case !slices.Contains(errs.All(), errs.Code(code)):
		return fmt.Sprintf("the code %q is not in the catalogue", code)
	case correlation == "" || correlation != a.header.Get("X-Correlation-ID"):
		return fmt.Sprintf("correlation id %q, in the header %q", correlation, a.header.Get("X-Correlation-ID"))
	}
	if found := internals.Find(a.body); found != nil && !strings.Contains(r.path+string(r.body)+fmt.Sprint(r.header), string(found)) {
		return fmt.Sprintf("shows %q of our inside", found)
	}
	return ""
}
