// Package view serves the read models of /api/v3: one response for each screen of the portal. A section of a read
// model shows one operation of /api/v1: its roles decide, its handler reads, and its document is the data.
package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// runbook is the page for every degraded section: the cause is the service, whichever it is.
const runbook = "section-degraded"

// limit is the time limit of a section, and limits has those of slower operations.
const limit = 2 * time.Second

// The overview of operations limits each of its panels to 3 seconds.
var limits = map[string]time.Duration{"getOpsOverview": 4 * time.Second}

// Handlers implements the read models.
type Handlers struct {
	Operations operations
	// Enter returns the call of another operation by the same caller, or the error of a caller without the right.
	Enter func(r *request.Call, operation string) (*request.Call, error)
	Log   *slog.Logger
}

// model is a read model in progress. The sections run concurrently.
type model struct {
	*Handlers

	call     *request.Call
	sections sync.WaitGroup
	rejected error // by the main section: the request is wrong
}

func (s *Handlers) begin(ctx context.Context) *model {
	_, r := request.Of(ctx)
	r.Share()
	return &model{Handlers: s, call: r}
}

// operations are the handlers of /api/v1.
type operations = oapi.StrictServerInterface

// read reads the response of an operation of /api/v1.
type read = func(ctx context.Context, v1 operations) (any, error)

// primary reads the section that the path and the parameters of the request are about. An error of the caller there is
// the response of the read model, and the cursor of its list is that of the read model.
func primary[T any](m *model, into *oapi.Section[T], operation string, read read) {
	m.sections.Go(func() { m.rejected = fill(m, into, operation, nil, read) })
}

// section reads another section. query has the parameters that read passes on: they are those with which the
// operation continues the list of the section.
func section[T any](m *model, into *oapi.Section[T], operation string, query url.Values, read read) {
	if query == nil {
		query = url.Values{}
	}
	m.sections.Go(func() { _ = fill(m, into, operation, query, read) })
}

// fill reads a section. It returns the error of a caller, such as an unknown id.
func fill[T any](m *model, into *oapi.Section[T], operation string, query url.Values, read read) error {
	*into = oapi.Section[T]{Status: oapi.SectionStatusOk, Operation: operation}
	most := cmp.Or(limits[operation], limit)
	data, err := load[T](m, operation, query, read, most)
	into.Data = data
	status := response.StatusOf(errs.CodeOf(err))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		explain(into, oapi.SectionStatusDegraded, oapi.SectionReasonTimeout, "the section was not read within "+most.String())
	case status == http.StatusForbidden:
		explain(into, oapi.SectionStatusRestricted, oapi.SectionReasonForbidden, messageOf(err))
		return err
	case status == http.StatusNotFound:
		explain(into, oapi.SectionStatusOk, oapi.SectionReasonNotFound, messageOf(err))
		return err
	default:
		explain(into, oapi.SectionStatusDegraded, oapi.SectionReasonFailed, "the section cannot be read")
	}
	into.RunbookID = new(runbook)
	if m.call.Err() == nil { // the client is connected
		m.Log.WarnContext(m.call, "a section is degraded", slog.String("operation", operation), slog.String("correlation_id", m.call.CorrelationID), slog.Any("err", err))
	}
	if status < http.StatusInternalServerError {
		return err
	}
	return nil
}

// load reads the document of an operation as its caller. A panic in another goroutine than that of the request would
// end the server.
func load[T any](m *model, operation string, query url.Values, read read, most time.Duration) (data *T, err error) {
	defer func() {
		if p := recover(); p != nil {
			data, err = nil, errs.New(errs.Internal, "panic: %v\n%s", p, debug.Stack())
		}
	}()
	r, err := m.Enter(m.call, operation)
	if err != nil {
		return nil, err
	}
	if query != nil {
		r.URL = &url.URL{Path: pathOf(r.Op.Route.Path, m.call.Op.Route.Path, m.call.URL.Path), RawQuery: query.Encode()}
	}
	ctx, cancel := context.WithTimeout(r.Context, most)
	defer cancel()
	r.Context = ctx
	data, err = document[T](read(r, m.Operations))
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return data, err
}

// explain sets the reason why a section has no data.
func explain[T any](into *oapi.Section[T], status oapi.SectionStatus, reason oapi.SectionReason, message string) {
	into.Status, into.Reason, into.Message = status, &reason, &message
}

// messageOf returns the message of an error with a code.
func messageOf(err error) string {
	if e := response.AsCoded(err); e != nil {
		return e.Message
	}
	return err.Error()
}

// document returns the document of a response of /api/v1. The generated types of responses are the document itself, or
// have it as Body next to the headers.
func document[T any](of any, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	v := reflect.ValueOf(of)
	if body := v.FieldByName("Body"); body.IsValid() {
		v = body
	}
	data, ok := reflect.TypeAssert[T](v.Convert(reflect.TypeFor[T]()))
	if !ok {
		return nil, errs.New(errs.Internal, "the response is a %T", of)
	}
	return &data, nil
}

// pathOf fills the parameters of a template with those that another template has in a path.
func pathOf(template, other, path string) string {
	names, values := strings.Split(other, "/"), strings.Split(path, "/")
	for i, name := range names {
		if strings.HasPrefix(name, "{") && i < len(values) {
			template = strings.ReplaceAll(template, name, values[i])
		}
	}
	return template
}
